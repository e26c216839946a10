"""AnomalyResult: the one thing that a detector produces and everything else consumes."""

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

    from .images import ImageSource, LoadedImage


@dataclass(frozen=True)
class Region:
    """A defect's place: x, y, width and height in the image's own pixels, its area and score."""

    bbox: tuple[int, int, int, int]
    area: float
    score: float


@dataclass(frozen=True)
class AnomalyResult:
    """What a detector says of one image. Higher is more anomalous."""

    image: str
    score: float
    """The fused image score; NaN where the image could not be read."""
    score_map: float
    """The spatial evidence branch: the pooled map."""
    score_cls: float
    """The global semantic branch."""
    anomaly_map: NDArray[np.float32] = field(repr=False)
    """On the patch grid: how far each patch is from its reconstruction out of normal patches."""
    size: tuple[int, int]
    """Width and height of the image."""
    scale: tuple[float, float]
    """The detector's fixed colour scale: where pictures of the map begin to glow, and their top."""
    source: "ImageSource | None" = field(repr=False, default=None)
    threshold: float | None = None
    regions: tuple[Region, ...] = ()
    error: str | None = None
    """One sentence, where the image could not be scored."""
    picture: "LoadedImage | None" = field(repr=False, compare=False, default=None)
    """The decoded image, where `predict` was asked to keep it; otherwise `plot` reads it again."""

    @classmethod
    def failed(cls, image: str, error: str) -> "AnomalyResult":
        """The result of an image that could not be read."""
        empty = np.empty((0, 0), dtype=np.float32)
        return cls(image, math.nan, math.nan, math.nan, empty, (0, 0), (0.0, 1.0), error=error)

    @property
    def anomalous(self) -> bool | None:
        """The verdict, `score > threshold`; None without a threshold or a score."""
        if self.threshold is None or self.error is not None:
            return None
        return self.score > self.threshold

    def plot(self) -> "Image.Image":
        """The heat map over the image, on the detector's fixed colour scale, with a legend."""
        from .images import load_image
        from .render import draw_heatmap

        if self.error is not None or self.source is None:
            raise ValueError(f"There is nothing to draw for {self.image}: {self.error}")
        picture = self.picture or load_image(self.source, self.image)
        return draw_heatmap(picture.rgb(), self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture of `plot()`; the kind of file follows from the name."""
        from .render import save_picture

        save_picture(self.plot(), Path(path))

    def to_dict(self) -> dict[str, Any]:
        """The fields of a line in results.jsonl, but for the paths of written files."""
        failed = self.error is not None
        return {
            "image": self.image,
            "score": None if failed else self.score,
            "score_map": None if failed else self.score_map,
            "score_cls": None if failed else self.score_cls,
            "threshold": self.threshold,
            "anomalous": self.anomalous,
            "regions": [
                {"bbox": list(region.bbox), "area": region.area, "score": region.score}
                for region in self.regions
            ],
            "error": self.error,
        }

    def to_json(self) -> str:
        """`to_dict()` as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)
