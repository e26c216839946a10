"""Scores of other systems: read from their files, and measured like ours."""
