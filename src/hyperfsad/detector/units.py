"""What a fast detector says, in the units of the full one beside it."""

import weakref
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ..encoders.encoder import PreparedImage
from ..evidence.evidence import Evidence
from ..images.loading import ImageSource, LoadedImage
from ..method.scoring import TokenScore
from ..results.levels import Levels
from ..results.result import AnomalyResult, Explainer
from .hyperfsad import HyperFSAD


@dataclass(frozen=True)
class Units:
    """Scores of the fast detector in the units of the full one: multiplied by the ratio of their
    thresholds, which is 1 where both have the same."""

    levels: Levels
    of_score: float
    of_map: float

    @classmethod
    def between(cls, full: HyperFSAD, fast: HyperFSAD) -> "Units | None":
        """None where one of them has no thresholds."""
        own, other = (
            (one.threshold_, one.map_threshold_) if one.threshold_ and one.map_threshold_ else None
            for one in (full, fast)
        )
        if own is None or other is None:
            return None
        of_score, of_map = (ours / theirs for ours, theirs in zip(own, other, strict=True))
        foreign = None if fast.foreign_ is None else fast.foreign_ * of_score
        return cls(replace(full.levels(), foreign=foreign), of_score, of_map)

    def result(
        self, image: PreparedImage, scored: TokenScore, explainer: Explainer
    ) -> AnomalyResult:
        """What is said of an image."""
        values = {name: self.of_score * value for name, value in scored.branches.values.items()}
        factor = np.float32(self.of_map)
        lacking = None if scored.missing is None else factor * scored.missing
        told = TokenScore(
            factor * scored.anomaly_map,
            scored.branches.with_values(**values),
            scored.inside,
            lacking,
        )
        link = weakref.ref(explainer)
        return self.levels.result(image.name, image.size, image.source, image.picture, told, link)


class _Pair(Protocol):
    """Two detectors of one product."""

    fast_: HyperFSAD

    def units(self) -> Units | None: ...


class FastExplainer:
    """Explains results of the fast detector, in the units of the full one."""

    def __init__(self, pair: _Pair) -> None:
        self._pair = weakref.ref(pair)

    def evidence(
        self, image: ImageSource | LoadedImage, x: float | None = None, y: float | None = None
    ) -> Evidence:
        """The evidence at x, y of an image."""
        pair = self._pair()
        assert pair is not None  # which owns this explainer
        found, units = pair.fast_.evidence(image, x, y), pair.units()
        return found if units is None else replace(found, shown=units.of_map * found.shown)
