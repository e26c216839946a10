"""The limits between which a fast detector is not sure, and the full one must be asked.

A limit is a strength: how far an image reaches against the thresholds that the fast detector is
held against; above 1 it would call the image anomalous.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PrescreenLimits:
    """Below `low` an image is clearly good, above `high` clearly bad."""

    low: float
    high: float

    def are_clear(self, strength: float | None) -> bool:
        """Whether an image of a strength lies beyond either."""
        return strength is not None and not self.low <= strength <= self.high

    def to_list(self) -> list[float]:
        """What a detector file keeps."""
        return [self.low, self.high]

    @classmethod
    def from_list(cls, stored: Sequence[float]) -> "PrescreenLimits":
        """What `to_list` gave."""
        low, high = stored
        return cls(float(low), float(high))


EIGHT_BITS_LIMITS = PrescreenLimits(0.96, 1.1)
"""For pre-screening in 8 bits, measured on nine products (docs/cascade.md)."""
