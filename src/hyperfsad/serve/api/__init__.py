"""HTTP: what is asked under /api/v1, by whom, and how it is answered."""
