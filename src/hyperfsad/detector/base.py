"""What every few-shot detector on frozen tokens shares: learning from good parts, and asking.

A method says two things of its own: the score of each patch of an image, and how the image's score
follows from them.
"""

import weakref
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..decisions.regions import Region, find_regions
from ..decisions.thresholds import Calibration
from ..encoders import SUBSTITUTE, find_spec
from ..encoders.encoder import Encoder, load_encoder
from ..encoders.prepared import PreparedImage
from ..encoders.tokens import ImageTokens, Tokens
from ..errors import DetectorFileError, UsageError
from ..images.loading import NormalImage
from ..images.reading import Images
from ..messages import Notify, silent
from ..method.memory import MemoryBank
from ..method.scoring import TokenScore
from ..results.result import AnomalyResult
from .learning import Learner, unseen

Self = TypeVar("Self", bound="FewShotDetector")


class FewShotDetector(Learner):
    """Fits on a few good parts, predicts on others; subclasses score tokens."""

    smoothing: float = 0.0
    """σ in pixels of the Gaussian that the method's authors lay over the upsampled map."""

    def __init__(
        self,
        backbone: str = SUBSTITUTE,
        *,
        layers: Iterable[int] | None = None,
        resolution: int | None = None,
        device: str = "auto",
        engine: str = "auto",
        batch_size: int | None = None,
        notify: Notify = silent,
    ) -> None:
        self.backbone = backbone
        self.layers = None if layers is None else tuple(layers)
        self.resolution = resolution
        self.device = device
        self.engine = engine
        self.batch_size = batch_size
        self.notify = notify
        self.follow = unseen
        if batch_size is not None and batch_size < 1:
            raise UsageError(f"The batch size is at least 1, not {batch_size}.")
        self.settings = find_spec(backbone).settings(self.layers, resolution)
        self._encoder: Encoder | None = None
        self._fingerprint: str | None = None
        self._scale: tuple[float, float] | None = None
        self.calibration_: Calibration | None = None
        """How the two lines came about; None where they were set by hand, or there are none."""
        self.threshold_: float | None = None
        self.map_threshold_: float | None = None
        """Above it a place of the map counts as a defect; without it results have no regions."""
        self.min_area = 0.0
        """Regions of fewer pixels of the image are left out."""
        self._in_hand = {}
        self.skipped_ = []

    memory_: MemoryBank
    """The memory bank; there after `fit` or `load`."""

    @abstractmethod
    def patch_scores(self, image: ImageTokens) -> Tensor:
        """The score of each patch, (N,), higher is more anomalous; or (scales, N), finest first."""

    @abstractmethod
    def image_score(self, anomaly_map: Tensor, image: ImageTokens) -> tuple[float, float, float]:
        """The image's score, and its two parts: of the map at its finest scale, and of the CLS
        token."""

    @abstractmethod
    def colour_scale(self) -> tuple[float, float]:
        """Where pictures of a map begin to glow, and the top of their scale."""

    def inside(self, image: ImageTokens) -> Tensor | None:
        """Which patches of an image are looked at, (N,); None means all."""
        return None

    def learn(self) -> None:  # most methods derive nothing
        """Whatever a method derives from the memory bank before the first question."""

    def fit(self: Self, images: Images) -> Self:
        """Remembers good parts: a folder, a glob, paths, PIL images or arrays."""
        return self.remember(self._joined(self._new_banks(images, known=())))

    def extend(self: Self, images: Images) -> Self:
        """Remembers more good parts; the same as fitting on all of them at once."""
        self._require_fitted()
        banks = self._new_banks(images, self.memory_.images)
        return self.remember(MemoryBank.joined([self.memory_, *banks])) if banks else self

    def remember(self: Self, bank: MemoryBank) -> Self:
        """Takes a memory bank that was made elsewhere with the same encoder and settings."""
        self.memory_ = bank if self._encoder is None else bank.to(self._encoder.device)
        self._scale = None
        self.learn()
        return self

    def look(self, images: Sequence[PreparedImage]) -> list[TokenScore]:
        """The scores of a few images that were read, as one batch."""
        return self.score_tokens(self.encoder_.encode_prepared([image.pixels for image in images]))

    def leaving_out(self: Self, views: Sequence[int]) -> Self:
        """A copy that has never seen a normal image, given as the places of its views."""
        return copy(self).remember(self.memory_.without(*views))

    def unfitted(self: Self) -> Self:
        """A copy with the same settings and encoder that has seen no normal image."""
        fresh = copy(self)
        fresh.__dict__.pop("memory_", None)
        fresh.threshold_ = fresh.map_threshold_ = fresh._scale = fresh.calibration_ = None
        return fresh

    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        """The scores of each image of an encoded batch."""
        grid = self.settings.grid
        scores = []
        for patches, cls in zip(tokens.patches, tokens.cls, strict=True):
            image = ImageTokens(tuple(patches), cls)
            scales = self.patch_scores(image).reshape(-1, grid, grid)
            anomaly_map = scales.mean(dim=0)
            score, score_map, score_cls = self.image_score(scales[0], image)
            inside = self.inside(image)
            looked_at = None if inside is None else inside.reshape(grid, grid).cpu().numpy()
            values = anomaly_map.cpu().numpy()
            scores.append(TokenScore(values, score, score_map, score_cls, looked_at))
        return scores

    @property
    def support_(self) -> tuple[NormalImage, ...]:
        """The normal images."""
        return self.memory_.normal_images

    @property
    def threshold_from_(self) -> str | None:
        """How the threshold came about, in a few words."""
        if self.threshold_ is None:
            return None
        by_itself = self.calibration_ and self.calibration_.threshold == self.threshold_
        return self.calibration_.words if self.calibration_ and by_itself else "set by hand"

    @property
    def scale_(self) -> tuple[float, float]:
        """The colour scale of pictures, from the normal images alone."""
        if self._scale is None:
            self._require_fitted()
            self._scale = self.colour_scale()
        return self._scale

    @property
    def encoder_(self) -> Encoder:
        """The encoder, loaded when it is first needed."""
        if self._encoder is None:
            self.use_encoder(
                load_encoder(self.settings, self.device, self.notify, engine=self.engine)
            )
            assert self._encoder is not None
        return self._encoder

    def use_encoder(self, encoder: Encoder) -> None:
        """Takes an encoder that was loaded elsewhere, with the same settings."""
        if self._fingerprint not in (None, encoder.fingerprint):
            raise DetectorFileError(
                f"This detector was made with other weights of {self.settings.name} than those"
                " on this machine; its scores would be wrong. Fit it again."
            )
        self._encoder = encoder
        if hasattr(self, "memory_"):
            scale = self._scale
            self.remember(self.memory_)  # on the encoder's device, with all derived from it
            self._scale = scale

    def _results(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        return [
            self.result(image, scored)
            for image, scored in zip(images, self.look(images), strict=True)
        ]

    def result(self, image: PreparedImage, scored: TokenScore) -> AnomalyResult:
        """What is said of an image, given its scores."""
        return AnomalyResult(
            image.name,
            scored.score,
            scored.score_map,
            scored.score_cls,
            scored.anomaly_map,
            image.size,
            self.scale_,
            image.source,
            self.threshold_,
            self._regions(scored.anomaly_map, image.size),
            picture=image.picture,
            map_threshold=self.map_threshold_,
            threshold_from=self.threshold_from_,
            p_value=self.calibration_.p_value(scored.score) if self.calibration_ else None,
            inside=scored.inside,
            detector=weakref.ref(self),
        )

    def _regions(
        self, anomaly_map: NDArray[np.float32], size: tuple[int, int]
    ) -> tuple[Region, ...]:
        if self.map_threshold_ is None:
            return ()
        return find_regions(anomaly_map, size, self.map_threshold_, self.min_area)

    def _require_fitted(self) -> None:
        if not hasattr(self, "memory_"):
            raise UsageError("This detector has seen no normal image yet; call fit first.")
