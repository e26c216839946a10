"""All tables and figures of the paper by one command, on one page."""
