"""What an evaluation keeps of an image: the truth and the verdict; pictures of the worst errors."""

import math
from bisect import insort
from dataclasses import dataclass
from typing import Any

from ...results.heatmap import map_overlay, thumbnail
from ...results.result import AnomalyResult
from ..test_set import TestImage

MOST_SHOWN = 12
"""Pictures of missed defects, and of false alarms."""


@dataclass(frozen=True)
class Inspected:
    """One image: what it is, and what the detector says."""

    image: str
    bad: bool
    kind: str
    """The kind of defect, or good."""
    score: float | None
    strength: float | None
    anomalous: bool | None
    error: str | None = None
    """One sentence, where the image could not be read."""
    product: str | None = None
    """The product that has judged it, where the detector knows several."""
    foreign: bool = False
    """Whether it looks like another product than the good parts; its score then means little."""

    @classmethod
    def of(cls, known: TestImage, result: AnomalyResult) -> "Inspected":
        """The truth beside a result."""
        strength, verdict = result.strength, result.anomalous
        if strength is not None and verdict is not None:
            # a quotient may be rounded to 1 although the score is a hair above its threshold
            strength = max(strength, math.nextafter(1, 2)) if verdict else min(strength, 1.0)
        return cls(
            known.path,
            known.anomalous,
            known.defect,
            None if result.error is not None else result.score,
            strength,
            verdict,
            result.error,
            None if result.route is None else result.route.nearest,
            bool(result.foreign or result.unknown_product),
        )

    @property
    def wrong(self) -> bool:
        """Whether the verdict is not the truth; none is no error."""
        return self.anomalous is not None and self.anomalous != self.bad

    @property
    def verdict(self) -> str | None:
        """In one word."""
        return None if self.anomalous is None else "anomalous" if self.anomalous else "good"

    @property
    def told(self) -> str:
        """The truth beside the verdict, as in "bad part, called good"."""
        return f"{'bad' if self.bad else 'good'} part, called {self.verdict}"

    def to_dict(self) -> dict[str, Any]:
        """The row of the image in images.csv and evaluation.json."""
        return {
            "image": self.image,
            "truth": "bad" if self.bad else "good",
            "kind": self.kind,
            "verdict": self.verdict,
            "score": self.score,
            "strength": self.strength,
            "error": self.error,
            "product": self.product,
            "foreign": self.foreign,
        }


@dataclass(frozen=True)
class Shot:
    """An image that was judged wrongly, to look at."""

    inspected: Inspected
    by_region: bool
    """Whether its map alone makes it anomalous."""
    jpeg: str
    """The picture, small, as base64."""
    glow: str
    """Its map, a PNG with transparency, as base64."""


class WorstErrors:
    """The images that are judged most wrongly, and no more pictures than are shown."""

    def __init__(self, most: int = MOST_SHOWN) -> None:
        self._most = most
        self._kept: dict[bool, list[tuple[float, str, Shot]]] = {True: [], False: []}

    def add(self, inspected: Inspected, result: AnomalyResult) -> None:
        """Draws the image if it is among the worst so far."""
        if not inspected.wrong or inspected.strength is None:
            return
        kept = self._kept[inspected.bad]
        rank = inspected.strength if inspected.bad else -inspected.strength
        if len(kept) == self._most and (rank, inspected.image) >= kept[-1][:2]:
            return
        glow = map_overlay(result.anomaly_map, _wide_scale(result))
        by_region = bool(result.anomalous) and result.score <= (result.threshold or 0.0)
        shot = Shot(inspected, by_region, thumbnail(result.shown()), glow)
        insort(kept, (rank, inspected.image, shot), key=lambda entry: entry[:2])
        del kept[self._most :]

    @property
    def missed(self) -> tuple[Shot, ...]:
        """Defects that were called good, the lowest strength first."""
        return tuple(shot for *_, shot in self._kept[True])

    @property
    def alarms(self) -> tuple[Shot, ...]:
        """Good parts that were called anomalous, the highest strength first."""
        return tuple(shot for *_, shot in self._kept[False])


def _wide_scale(result: AnomalyResult) -> tuple[float, float]:
    """The colour scale of an error: it begins at half the usual value.

    Most errors lie close to the threshold, where the usual scale begins and shows next to nothing.
    """
    low, high = result.scale
    return (low / 2, 5 * low / 4) if low > 0 else (low, high)
