"""Names in a detector file that are needed before torch is."""

KEY = "hyperfsad"
"""Of the header in the file's metadata."""
