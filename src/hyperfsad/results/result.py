"""AnomalyResult: the one thing that a detector produces and everything else consumes."""

import json
import math
import os
import weakref
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..decisions.regions import Peak, Region
from ..decisions.routing import NO_ROUTE, Route
from ..decisions.thresholds import level_of
from ..errors import ImageError, UsageError
from ..evidence.evidence import Evidence
from ..images.geometry import PatchGrid
from ..images.loading import LARGEST_DRAWN, ImageSource, LoadedImage, load_image, save_picture
from ..method.scoring import BRANCHES, BranchScores
from ..wording import of_limit, percent
from . import showing
from .heatmap import HeatMap

if TYPE_CHECKING:
    import supervision

BRANCH_FIELDS = {name: f"score_{name}" for name in BRANCHES}
"""What records call the scores of the branches."""

SAME = 1e-3
"""An image or a detector has changed when the map now differs by more than rounding explains."""


class Explainer(Protocol):
    """What a result asks for its evidence: the detector that made it."""

    def explain(self, image: LoadedImage, x: float | None, y: float | None) -> Evidence:
        """The evidence at x, y of an image."""
        ...


@dataclass(frozen=True)
class AnomalyResult:
    """What a detector says of one image. Higher is more anomalous."""

    image: str
    branches: BranchScores
    """The scores of the branches, and their weights in the image's score."""
    anomaly_map: NDArray[np.float32]
    """On the patch grid: how far each patch is from its reconstruction out of normal patches."""
    size: tuple[int, int]
    """Width and height of the image."""
    scale: tuple[float, float]
    """The detector's fixed colour scale: where pictures of the map begin to glow, and their top."""
    source: ImageSource | None = None
    threshold: float | None = None
    regions: tuple[Region, ...] = ()
    error: str | None = None
    """One sentence, where the image could not be scored."""
    picture: LoadedImage | None = field(compare=False, default=None)
    """The decoded image, reduced where it is large, if `predict` was asked to keep it; otherwise
    `plot` reads it again."""
    map_threshold: float | None = None
    """Above it a place of the map counts as a defect; None means that no regions were sought, and
    that the score decides alone."""
    threshold_from: str | None = None
    """How the threshold came about, in a few words."""
    p_value: float | None = None
    """The chance that a good part reaches as far, by its score or by its map; None without good
    parts to compare with."""
    detector: "weakref.ref[Explainer] | None" = field(compare=False, default=None)
    """What made the result; a result keeps no memory bank alive."""
    inside: NDArray[np.bool_] | None = field(compare=False, default=None)
    """The patches in the region of interest; None means all. The map is 0 at others."""

    foreign: bool | None = None
    """Whether it looks like another product than the good parts; None where the detector knows
    several, and `route` says so, or was saved before it could tell."""

    route: Route | None = None
    """Which product the image shows, where the detector knows several."""

    defect: str | None = None
    """What the defect of an anomalous image is called, `unknown` where it resembles no example;
    None where nothing was taught, or the image is good."""
    defect_score: float | None = None
    """How like the nearest example of a defect it is; 1 means the same."""

    @classmethod
    def failed(cls, image: str, error: str) -> "AnomalyResult":
        """The result of an image that could not be read."""
        empty = np.empty((0, 0), dtype=np.float32)
        return cls(image, BranchScores({}, {}), empty, (0, 0), (0.0, 1.0), error=error)

    @property
    def scored(self) -> BranchScores:
        """The scores of the branches; `ImageError` where the image could not be read."""
        if self.error is not None:
            raise ImageError("result-without-score", image=self.image, cause=self.error)
        return self.branches

    @property
    def score(self) -> float:
        """The image's score; `ImageError` where the image could not be read."""
        return self.scored.total

    @property
    def score_map(self) -> float:
        """The spatial evidence branch: the pooled map."""
        return self.scored.values["map"]

    @property
    def score_cls(self) -> float:
        """The global semantic branch."""
        return self.scored.values["cls"]

    @property
    def score_missing(self) -> float | None:
        """What the image lacks of good parts; None where the detector does not look for it."""
        return self.branches.values.get("missing")

    @property
    def level(self) -> float | None:
        """How far the image reaches, where 1 is the limit: the larger of its score and its map's
        peak, each over its own threshold.

        None without a threshold or a score, and where one is not finite: all would be good.
        """
        if self.threshold is None or self.error is not None:
            return None
        if not math.isfinite(self.score + self.threshold):
            return None
        return level_of(self.score, self.threshold, self._counted_peak, self.map_threshold)

    @property
    def _counted_peak(self) -> float:
        """The map's peak, without places that are too small to be regions."""
        if self.regions:
            return max(region.score for region in self.regions)
        return min(float(self.anomaly_map.max()), self.map_threshold or 0.0)

    @property
    def anomalous(self) -> bool | None:
        """The verdict: whether the image reaches beyond its limit."""
        return None if self.level is None else self.level > 1

    @property
    def peak(self) -> Peak | None:
        """The strongest place of the map; None where the image could not be read."""
        if not self.anomaly_map.size:
            return None
        row, column = divmod(int(self.anomaly_map.argmax()), self.anomaly_map.shape[1])
        x, y = PatchGrid.of(self.anomaly_map, self.size).centre(row, column)
        return Peak(x, y, float(self.anomaly_map[row, column]))

    @property
    def mark(self) -> tuple[float, float] | None:
        """x and y of the strongest place where the image is anomalous without a region: pictures
        point at it."""
        if not self.anomalous or self.regions or self.peak is None:
            return None
        return self.peak.x, self.peak.y

    @property
    def verdict(self) -> str:
        """The verdict in a few words, with how far the image reaches."""
        if self.error is not None:
            return f"failed: {self.error}"
        if self.level is None:
            return f"score {self.score:.3f}"
        defect = "" if self.defect is None else f" ({self.defect})"
        return f"{'anomalous' if self.anomalous else 'good'}{defect}: {of_limit(self.level)}"

    @property
    def reading(self) -> str:
        """The verdict, what score and map have to do with it, and where the limit comes from."""
        if self.level is None or self.threshold is None:
            return self.verdict
        parts = [f"score {percent(level_of(self.score, self.threshold))}"]
        if self.map_threshold is not None:
            parts.append(f"map {percent(level_of(self._counted_peak, self.map_threshold))}")
        found = [", ".join(parts), self.threshold_from]
        return f"{self.verdict} ({'; '.join(filter(None, found))})"

    def with_verdict(self, evidence: Evidence) -> Evidence:
        """Evidence of the same image, with the verdict on the whole image."""
        return replace(
            evidence,
            verdict=self.reading,
            anomalous=self.anomalous,
            map_threshold=self.map_threshold,
        )

    @property
    def product(self) -> str | None:
        """The name of the image's product; None where it fits none, or the detector knows one."""
        return None if self.route is None else self.route.product

    @property
    def unknown_product(self) -> bool | None:
        """Whether the image fits none of the products; the nearest one scores it."""
        return None if self.route is None else self.route.unknown

    def plot(self) -> Image.Image:
        """The heat map over the image, on the detector's fixed colour scale, with a legend."""
        return self.heat_map().draw(self.shown())

    def heat_map(self) -> HeatMap:
        """What `plot` draws over the image."""
        note = ", fits no product" if self.unknown_product else ""
        note = ", looks like another product" if self.foreign else note
        return HeatMap(
            self.anomaly_map,
            self.scale,
            self.size,
            [region.polygon for region in self.regions],
            mark=self.mark,
            limit=self.map_threshold,
            inside=self.inside,
            verdict=self.verdict,
            note=note,
        )

    def original(self) -> Image.Image:
        """The image itself, upright and RGB; read again where it was not kept."""
        return self.loaded().rgb()

    def shown(self) -> Image.Image:
        """The image to draw upon: reduced where it has over 16 million pixels."""
        return (self.picture or self.loaded()).reduced(LARGEST_DRAWN).rgb()

    def loaded(self) -> LoadedImage:
        """The image as it was scored; read again where it was not kept."""
        if self.error is not None:
            raise UsageError("result-without-picture", image=self.image, cause=self.error)
        if self.source is None:
            raise UsageError("result-without-source", image=self.image)
        if self.picture is not None and self.picture.size == self.size:
            return self.picture
        return load_image(self.source, self.image)

    def evidence(self, x: float | None = None, y: float | None = None) -> Evidence:
        """Which normal patches rebuilt the patch at x, y of the image, and what they leave over.

        Without a place: at the map's peak. The image is encoded again, since results keep no
        tokens; that needs the image and the detector as they were.
        """
        picture = self.loaded()
        detector = self.detector() if self.detector is not None else None
        if detector is None:
            raise UsageError("detector-gone", image=self.image)
        if x is None and y is None and self.peak is not None:
            x, y = self.peak.x, self.peak.y
        found = detector.explain(picture, x, y)
        if abs(found.shown - float(self.anomaly_map[found.row, found.column])) > SAME:
            raise UsageError("result-outdated", image=self.image)
        return self.with_verdict(found)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture of `plot()`; the kind of file follows from the name."""
        save_picture(self.plot(), Path(path))

    def to_dict(self) -> dict[str, Any]:
        """The fields of a record in results.jsonl, but for the paths of written files."""
        failed = self.error is not None
        return {
            "image": self.image,
            "score": None if failed else self.score,
            **{field: self.branches.values.get(name) for name, field in BRANCH_FIELDS.items()},
            "threshold": self.threshold,
            "anomalous": self.anomalous,
            "size": None if failed else list(self.size),
            "map_threshold": self.map_threshold,
            "threshold_from": self.threshold_from,
            "p_value": self.p_value,
            "regions": [region.to_dict() for region in self.regions],
            **(self.route.to_dict() if self.route else NO_ROUTE),
            "foreign": self.foreign,
            "level": self.level if self.level is None or math.isfinite(self.level) else None,
            "map_peak": None if self.peak is None else self.peak.value,
            "map_peak_x": None if self.peak is None else self.peak.x,
            "map_peak_y": None if self.peak is None else self.peak.y,
            "defect": self.defect,
            "defect_score": self.defect_score,
            "error": self.error,
        }

    def to_supervision(self) -> "supervision.Detections":
        """The regions for the library supervision: class 0 is unexpected, 1 is missing."""
        found: supervision.Detections = showing.detections(self.regions)
        return found

    def to_json(self) -> str:
        """`to_dict()` as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def __repr__(self) -> str:
        """One line: regions and maps have thousands of numbers."""
        words = [repr(self.image), self.verdict]
        if self.error is None and self.map_threshold is not None:
            words.append(f"{len(self.regions)} region{'' if len(self.regions) == 1 else 's'}")
        if self.route is not None:
            words.append("fits no product" if self.route.unknown else self.route.nearest)
        return f"AnomalyResult({', '.join(words)})"

    def _repr_png_(self) -> bytes | None:
        """The heat map in a notebook."""
        return showing.png(self.plot)

    def _repr_html_(self) -> str:
        """Verdict, heat map and regions in a notebook."""
        return showing.as_html(self.image, self.reading, self.regions, self._repr_png_())

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled or copied: all but the link to the detector."""
        return {**self.__dict__, "detector": None}
