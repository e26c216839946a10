"""Can I trust it: metrics, evaluate, advise, coverage, drift."""
