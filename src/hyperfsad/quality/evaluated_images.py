"""What an evaluation keeps of each image: truth and verdict, pixel metrics, the worst errors."""

import math
from bisect import insort
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import HyperfsadError
from ..results.heatmap import map_overlay, thumbnail
from ..results.result import AnomalyResult
from .metrics import pixel_metrics, upsampled
from .test_set import TestImage, load_mask, no_pixel_figures

MAX_ERROR_PICTURES = 12
"""Pictures of missed defects, and of false alarms."""
EVALUATION_METRICS = ("P-AUROC", "PRO", "P-AP")
EVALUATION_SIDES = (256, 128, 64, 32)
MAX_PIXELS = 800 * 256**2
"""Of all maps together: 0.6 GB with what sorting them takes. More images are compared at a smaller
side."""


@dataclass(frozen=True)
class EvaluatedImage:
    """One image: what it is, and what the detector says."""

    image: str
    bad: bool
    kind: str
    """The kind of defect, or good."""
    score: float | None
    strength: float | None
    anomalous: bool | None
    error: str | None = None
    """One sentence, if the image could not be read."""
    product: str | None = None
    """The product that has judged it, if the detector knows several."""
    foreign: bool = False
    """Whether it looks like another product than the good parts; its score then means little."""

    @classmethod
    def of(cls, known: TestImage, result: AnomalyResult) -> "EvaluatedImage":
        """The truth beside a result."""
        strength, verdict = result.strength, result.anomalous
        if strength is not None and verdict is not None:
            # a quotient may be rounded to 1 although the score is a hair above its threshold
            strength = max(strength, math.nextafter(1, 2)) if verdict else min(strength, 1.0)
        return cls(
            result.image,
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
        """Whether the verdict contradicts the truth; no verdict is not an error."""
        return self.anomalous is not None and self.anomalous != self.bad

    @property
    def truth(self) -> str:
        """In one word."""
        return "bad" if self.bad else "good"

    @property
    def verdict(self) -> str | None:
        """In one word."""
        return None if self.anomalous is None else "anomalous" if self.anomalous else "good"

    def to_dict(self) -> dict[str, Any]:
        """The row of the image in images.csv and evaluation.json."""
        names = ("image", "truth", "kind", "verdict", "score", "strength")
        return {name: getattr(self, name) for name in (*names, "error", "product", "foreign")}


@dataclass(frozen=True)
class ErrorPicture:
    """A picture of an image that was judged wrongly."""

    evaluated: EvaluatedImage
    by_region: bool
    """Whether its map alone makes it anomalous."""
    jpeg: str
    """The picture, small, as base64."""
    overlay: str
    """Its map, a PNG with transparency, as base64."""


class WorstErrors:
    """The images that are judged most wrongly; no more pictures are kept than are shown."""

    def __init__(self, limit: int = MAX_ERROR_PICTURES) -> None:
        self._limit = limit
        self._ranked: dict[bool, list[tuple[float, str, ErrorPicture]]] = {True: [], False: []}

    def add(self, evaluated: EvaluatedImage, result: AnomalyResult) -> None:
        """Draws the image if it is among the worst so far."""
        if not evaluated.wrong or evaluated.strength is None:
            return
        ranked = self._ranked[evaluated.bad]
        rank = evaluated.strength if evaluated.bad else -evaluated.strength
        if len(ranked) == self._limit and (rank, evaluated.image) >= ranked[-1][:2]:
            return
        low, high = result.scale
        # Most errors lie close to the threshold, where the usual colour scale begins and shows
        # next to nothing; here it begins at half that value.
        scale = (low / 2, 5 * low / 4) if low > 0 else (low, high)
        by_region = bool(result.anomalous) and result.score <= (result.threshold or 0.0)
        overlay = map_overlay(result.anomaly_map, scale)
        picture = ErrorPicture(evaluated, by_region, thumbnail(result.shown()), overlay)
        insort(ranked, (rank, evaluated.image, picture), key=lambda entry: entry[:2])
        del ranked[self._limit :]

    def missed(self) -> tuple[ErrorPicture, ...]:
        """Defects that were called good, the lowest strength first."""
        return tuple(picture for *_, picture in self._ranked[True])

    def false_alarms(self) -> tuple[ErrorPicture, ...]:
        """Good parts that were called anomalous, the highest strength first."""
        return tuple(picture for *_, picture in self._ranked[False])


class PixelComparison:
    """Compares maps with masks, one image after the other, in bounded memory."""

    def __init__(self, images: int) -> None:
        sides = (side for side in EVALUATION_SIDES if images * side**2 <= MAX_PIXELS)
        self.side = next(sides, EVALUATION_SIDES[-1])
        self._maps = np.empty((images, self.side, self.side), dtype=np.float32)
        self._masks = np.empty(self._maps.shape, dtype=np.bool_)
        self._count = 0
        self.notes: tuple[str, ...] = ()
        """Which mask could not be used; then there are no metrics."""

    def add(self, image: TestImage, result: AnomalyResult) -> None:
        """The map and the mask of an image that could be read."""
        if self.notes:
            return
        try:
            self._masks[self._count] = load_mask(image, self.side)
        except HyperfsadError as error:
            self.notes = (no_pixel_figures(error),)
            return
        self._maps[self._count] = upsampled(result.anomaly_map[None], self.side)[0]
        self._count += 1

    def metrics(self) -> dict[str, float | None] | None:
        """P-AUROC, PRO and P-AP, from 0 to 1; None if they are not defined."""
        masks = self._masks[: self._count]
        if self.notes or not masks.any():
            return None
        found = pixel_metrics(self._maps[: self._count], masks)
        return {name: found[name] for name in EVALUATION_METRICS}
