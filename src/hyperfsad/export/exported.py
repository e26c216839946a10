"""An exported model as a detector: results with verdicts and regions, without torch.

It answers as `HyperFSAD.predict` does. What a graph has no tokens for, evidence, it cannot give.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..detector import pipeline
from ..errors import UsageError
from ..images.loading import (
    LARGEST_DRAWN,
    ImageSource,
    LoadedImage,
    NormalImage,
    fitting_memory,
    load_image,
)
from ..images.reading import READ_AHEAD, Images
from ..method.scoring import BranchScores, TokenScore
from ..results.result import AnomalyResult
from .runtime import ExportedModel, Outputs


@dataclass(frozen=True)
class Squashed:
    """An image as a graph takes it."""

    source: ImageSource
    name: str
    size: tuple[int, int]
    pixels: NDArray[np.uint8]
    picture: LoadedImage | None


class ExportedDetector:
    """A detector of one product in the folder of an exported model.

    >>> detector = ExportedDetector("model/")
    >>> detector.predict("part.png").score
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        threads: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise UsageError("batch-range", given=batch_size)
        self.model = ExportedModel(folder, threads=threads)
        self.batch_size = batch_size or 1
        self.min_area = 0.0
        """Regions of fewer pixels of the image are left out."""

    @property
    def support_(self) -> tuple[NormalImage, ...]:
        """The normal images."""
        return self.model.card.support

    @property
    def threshold_(self) -> float | None:
        """The threshold of the score."""
        return self.model.card.levels.threshold

    @property
    def threshold_from_(self) -> str | None:
        """How the threshold came about, in a few words."""
        return self.model.card.levels.threshold_from

    @property
    def products_(self) -> Mapping[str, "ExportedDetector"]:
        """Its one product, which has no name."""
        return {"": self}

    def identity(self) -> str:
        """That of the detector that was exported: results differ by rounding, as between engines,
        so a run may be resumed with either."""
        return self.model.card.identity

    def predict(self, images: Images, *, keep_pictures: bool = False) -> Any:
        """Scores one image, or lazily each of several, as `HyperFSAD.predict` does."""
        return pipeline.predict(self, images, keep_pictures)

    @property
    def batch(self) -> int:
        """Images that are judged at once."""
        return self.batch_size

    @property
    def read_ahead(self) -> int:
        """Images that are read before they are asked for."""
        return READ_AHEAD

    def prepare(self, source: ImageSource | LoadedImage, keep_picture: bool) -> Squashed:
        """Reads an image as the graph takes it."""
        loaded = load_image(source)
        with fitting_memory(loaded.name):
            return Squashed(
                loaded.pixels if isinstance(source, LoadedImage) else source,
                loaded.name,
                loaded.size,
                squashed(loaded, self.model.card.side),
                loaded.reduced(LARGEST_DRAWN) if keep_picture else None,
            )

    def judge(self, images: Sequence[Squashed]) -> list[AnomalyResult]:
        """The results of a few images, as one batch."""
        found = self.model(np.stack([image.pixels for image in images]))
        levels = replace(self.model.card.levels, min_area=self.min_area)
        return [
            levels.result(
                image.name, image.size, image.source, image.picture, self._scored(found, at)
            )
            for at, image in enumerate(images)
        ]

    def _scored(self, found: Outputs, at: int) -> TokenScore:
        weights = self.model.card.weights
        values = {name: float(found[f"score_{name}"][at]) for name in weights}
        missing = found["map_missing"][at] if "map_missing" in found else None
        return TokenScore(
            found["map"][at],
            BranchScores(values, weights),
            missing=missing if missing is not None and missing.any() else None,
        )


def squashed(image: LoadedImage, side: int) -> NDArray[np.uint8]:
    """The input of a graph, (side, side, 3): what `preprocess.py` gives for the file.

    Grey of more than 8 bits is rounded; all else is what the encoder of a detector sees.
    """
    values = np.asarray(image.pixels.resize((side, side), Image.Resampling.BICUBIC))
    if values.ndim == 2:
        values = np.repeat(np.clip(np.rint(values), 0, 255)[:, :, None], 3, axis=2)
    return values.astype(np.uint8)
