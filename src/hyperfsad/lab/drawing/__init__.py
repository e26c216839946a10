"""Figures like the paper's: charts, galleries, and which of them a run draws."""
