"""From the scores of an image to its result: the levels that a detector judges by.

Nothing here needs torch: exported models are judged by it too.
"""

import math
import weakref
from dataclasses import dataclass

from ..decisions.regions import Region, find_regions
from ..decisions.thresholds import Calibration
from ..errors import UsageError
from ..images.loading import ImageSource, LoadedImage
from ..method.scoring import TokenScore
from .result import AnomalyResult, Explainer


@dataclass(frozen=True)
class Levels:
    """What scores and maps are held against."""

    threshold: float | None
    map_threshold: float | None
    """Above it a place of the map counts as a defect; without it results have no regions."""
    threshold_from: str | None
    """How the threshold came about, in a few words."""
    calibration: Calibration | None
    foreign: float | None
    """Beyond this distance of CLS tokens an image looks like another product."""
    scale: tuple[float, float]
    """The colour scale of pictures of maps."""
    min_area: float = 0.0
    """Regions of fewer pixels of the image are left out."""

    def __post_init__(self) -> None:
        """Refuses thresholds that were set to what nothing lies above."""
        for level in (self.threshold, self.map_threshold):
            if level is not None and not math.isfinite(level):
                raise UsageError("threshold-not-finite", given=level)

    def result(
        self,
        name: str,
        size: tuple[int, int],
        source: ImageSource | None,
        picture: LoadedImage | None,
        scored: TokenScore,
        detector: "weakref.ref[Explainer] | None" = None,
    ) -> AnomalyResult:
        """What is said of an image, given its scores."""
        regions: tuple[Region, ...] = ()
        if self.map_threshold is not None:
            regions = find_regions(
                scored.anomaly_map, size, self.map_threshold, self.min_area, scored.missing
            )
        calibration, foreign = self.calibration, self.foreign
        return AnomalyResult(
            name,
            scored.branches,
            scored.anomaly_map,
            size,
            self.scale,
            source,
            self.threshold,
            regions,
            picture=picture,
            map_threshold=self.map_threshold,
            threshold_from=self.threshold_from,
            p_value=calibration.p_value(scored.score, scored.peak) if calibration else None,
            regions_decide=True,
            foreign=None if foreign is None else scored.branches.values["cls"] > foreign,
            inside=scored.inside,
            detector=detector,
        )
