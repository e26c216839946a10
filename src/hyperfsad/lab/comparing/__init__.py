"""Which method is ahead of which, and how sure that is."""
