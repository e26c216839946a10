"""The benchmark: data sets, metrics, the paper's protocol, tables, figures."""

from ..encoders.specs import PrecisionName

PRECISION: PrecisionName = "float32"
"""What the lab computes in unless another is asked for: as the paper does, whatever `auto` means
for inspections."""
