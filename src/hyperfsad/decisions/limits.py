"""The limits between which a fast detector is not sure, and the full one must be asked.

A limit is a strength: how far an image reaches against the fast detector's own thresholds, which
come from the good parts; above 1 it would call the image anomalous.
"""

from collections.abc import Sequence
from dataclasses import dataclass

CLEARLY_GOOD, CLEARLY_BAD = 0.64, 1.12
"""Measured on nine products (docs/cascade.md)."""


@dataclass(frozen=True)
class Limits:
    """Below `low` an image is clearly good, above `high` clearly bad."""

    low: float = CLEARLY_GOOD
    high: float = CLEARLY_BAD

    def are_clear(self, strength: float | None) -> bool:
        """Whether an image of a strength lies beyond either."""
        return strength is not None and not self.low <= strength <= self.high

    def to_list(self) -> list[float]:
        """What a detector file keeps."""
        return [self.low, self.high]

    @classmethod
    def from_list(cls, stored: Sequence[float]) -> "Limits":
        """What `to_list` gave."""
        low, high = stored
        return cls(float(low), float(high))
