"""What every few-shot detector on frozen tokens shares: learning from good parts, and predicting.

A method adds how tokens are scored, and the colour scale of its maps.
"""

import math
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from copy import copy, deepcopy
from typing import Any, TypeVar, overload

import torch
from numpy.typing import NDArray
from PIL import Image

from ..decisions.regions import Region, find_regions
from ..decisions.thresholds import Calibration
from ..encoders import SUBSTITUTE, EncoderSettings, find_spec
from ..encoders.encoder import Encoder, PreparedImage, load_encoder, prepared
from ..encoders.tokens import Tokens
from ..errors import DetectorFileError, ImageError, NotFiniteError, UsageError
from ..evidence.evidence import Evidence
from ..images.loading import ImageSource, LoadedImage, NormalImage, batched
from ..images.reading import AHEAD, Images, ahead, is_one_image, single_images
from ..messages import Notify, Progress, no_progress, silent
from ..method.memory import MemoryBank
from ..method.scoring import TokenScore
from ..results.result import AnomalyResult
from ..views import Plain
from .support import SupportReader

Self = TypeVar("Self", bound="FewShotDetector")


class Predictor(ABC):
    """Answers with an `AnomalyResult` for each image, one by one or lazily each of several."""

    settings: EncoderSettings
    batch_size: int | None

    @property
    @abstractmethod
    def encoder_(self) -> Encoder:
        """The encoder, loaded when it is first needed."""

    @abstractmethod
    def _results(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        """The results of a few images that were read, as one batch."""

    @abstractmethod
    def require_fitted(self) -> None:
        """Refuses to answer before it has learnt a good part."""

    @property
    def _sight(self) -> Plain:
        """What is shown to the encoder."""
        return Plain()

    @overload  # an array could be iterated too, but is always one image
    def predict(  # type: ignore[overload-overlap]
        self, images: "Image.Image | NDArray[Any]", *, keep_pictures: bool = ...
    ) -> AnomalyResult: ...
    @overload
    def predict(self, images: str | os.PathLike[str], *, keep_pictures: bool = ...) -> Any: ...
    @overload
    def predict(
        self, images: "Iterable[ImageSource]", *, keep_pictures: bool = ...
    ) -> Iterator[AnomalyResult]: ...
    def predict(self, images: Images, *, keep_pictures: bool = False) -> Any:
        """Scores one image, or lazily each of several.

        One image gives an `AnomalyResult` or raises `ImageError`. An iterable, a folder or a glob
        gives an iterator, in their order; there an image that cannot be read gives a result with
        `error` set, and the others go on. A thread of its own reads a few images ahead of the
        encoder; it ends with the iterator. `keep_pictures` leaves the decoded image in each
        result, so that `plot` need not read it again; large ones are never kept.
        """
        self.require_fitted()
        if is_one_image(images):
            image = self._prepared(images, keep_pictures)
            try:
                return self._results([image])[0]
            except NotFiniteError as error:
                raise unjudged(image.name, error) from error
        return self._predict_each(single_images(images), keep_pictures)

    def _predict_each(
        self, sources: Iterable[ImageSource], keep_pictures: bool
    ) -> Iterator[AnomalyResult]:
        def read(source: ImageSource) -> PreparedImage | AnomalyResult:
            try:
                return self._prepared(source, keep_pictures)
            except ImageError as error:
                name = os.fspath(source) if isinstance(source, str | os.PathLike) else "image"
                return AnomalyResult.failed(name, str(error))

        size = self._batch
        with closing(ahead(read, sources, max(self._read_ahead, size))) as images:
            for batch in batched(images, size):
                yield from self._judged(batch)

    def _prepared(
        self, source: ImageSource | LoadedImage, keep_picture: bool = False
    ) -> PreparedImage:
        sight = self._sight
        return prepared(
            source,
            self.settings,
            sight.visible,
            keep_picture=keep_picture,
            keep_whole=sight.needs_pictures,
        )

    def _judged(self, batch: list[PreparedImage | AnomalyResult]) -> list[AnomalyResult]:
        """A result for each; the list is emptied, so that pictures go before others are read."""
        readable = [image for image in batch if isinstance(image, PreparedImage)]
        results = iter(self._results_or_errors(readable))
        found = [image if isinstance(image, AnomalyResult) else next(results) for image in batch]
        batch.clear()
        return found

    def _results_or_errors(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        """A result for each; what is not finite is the error of its image alone."""
        if not images:
            return []
        try:
            return self._results(images)
        except NotFiniteError as error:
            if len(images) > 1:
                return [result for image in images for result in self._results_or_errors([image])]
            return [AnomalyResult.failed(images[0].name, str(unjudged(images[0].name, error)))]

    @property
    def _batch(self) -> int:
        """Images that are encoded at once; of several large pictures memory would run out."""
        if self._sight.needs_pictures:
            return 1
        return self.batch_size or self.encoder_.usual_batch

    @property
    def _read_ahead(self) -> int:
        """Images that are read before they are asked for."""
        return 1 if self._sight.needs_pictures else AHEAD


class FewShotDetector(Predictor):
    """Fits on a few good parts, predicts on others; subclasses score tokens."""

    smoothing: float = 0.0
    """σ in pixels of the Gaussian that the method's authors lay over the upsampled map."""
    memory_: MemoryBank
    """The memory bank; there after `fit` or `load`."""

    def __init__(
        self,
        backbone: str = SUBSTITUTE,
        *,
        layers: Iterable[int] | None = None,
        resolution: int | None = None,
        last_norm: bool = False,
        device: str = "auto",
        engine: str = "auto",
        batch_size: int | None = None,
        notify: Notify = silent,
    ) -> None:
        """`last_norm` lets the last block of the model, if it is used, pass the final norm."""
        self.backbone = backbone
        self.layers = None if layers is None else tuple(layers)
        self.resolution = resolution
        self.device = device
        self.engine = engine
        self.batch_size = batch_size
        self.notify = notify
        self.progress: Progress = no_progress
        """How long work on images shows how far it is; commands have a bar."""
        if batch_size is not None and batch_size < 1:
            raise UsageError(f"The batch size is at least 1, not {batch_size}.")
        self.settings = find_spec(backbone).settings(self.layers, resolution, last_norm=last_norm)
        self._encoder: Encoder | None = None
        self._fingerprint: str | None = None
        self._scale: tuple[float, float] | None = None
        self.calibration_: Calibration | None = None
        """How the thresholds came about; None where they were set by hand, or there are none."""
        self.threshold_: float | None = None
        self.map_threshold_: float | None = None
        """Above it a place of the map counts as a defect; without it results have no regions."""
        self.foreign_: float | None = None
        """Beyond this distance of CLS tokens an image looks like another product."""
        self.min_area = 0.0
        """Regions of fewer pixels of the image are left out."""
        self.skipped_: list[ImageError] = []
        """Normal images of the last `fit` or `extend` that could not be read."""

    @abstractmethod
    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        """The scores of each image of an encoded batch."""

    @abstractmethod
    def colour_scale(self) -> tuple[float, float]:
        """Where pictures of a map begin to glow, and the top of their scale."""

    def learn(self) -> None:  # most methods derive nothing
        """Whatever a method derives from the memory bank before the first question."""

    def orientations(self, image: LoadedImage) -> list[LoadedImage]:
        """What is remembered of a normal image: the image itself, first, and perhaps turned copies.

        Each counts as one entry of the memory bank, under the name and hash of its image.
        """
        return [image]

    def fit(self: Self, images: Images) -> Self:
        """Remembers good parts: a folder, a glob, paths, PIL images or arrays."""
        reader = self._new_reader()
        return self.remember(reader.joined(reader.banks(images, (), self.orientations)))

    def extend(self: Self, images: Images) -> Self:
        """Remembers more good parts; the same as fitting on all of them at once."""
        self.require_fitted()
        banks = self._new_reader().banks(images, self.memory_.images, self.orientations)
        return self.remember(MemoryBank.joined([self.memory_, *banks])) if banks else self

    def _new_reader(self) -> SupportReader:
        reader = SupportReader(self._sight, self.encoder_, self._batch, self._read_ahead)
        self.skipped_ = reader.skipped
        return reader

    def remember(self: Self, bank: MemoryBank) -> Self:
        """Takes a memory bank that was made elsewhere with the same encoder and settings."""
        self.memory_ = bank if self._encoder is None else bank.to(self._encoder.device)
        self._scale = None
        self.learn()
        return self

    def __copy__(self: Self) -> Self:
        """Another detector of the same encoder and tokens."""
        fresh = object.__new__(type(self))
        fresh.__dict__.update(self.__dict__)
        return fresh

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        """Tokens and settings of its own; the encoder, which never changes, is shared."""
        fresh = object.__new__(type(self))
        fresh.__setstate__(deepcopy(self.__getstate__(), memo))
        fresh.notify, fresh.progress = self.notify, self.progress
        if self._encoder is not None:
            fresh.use_encoder(self._encoder)
        return fresh

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: tokens and settings. Where it arrives, the encoder is loaded again, and
        must have the same weights; messages go nowhere until `notify` is set."""
        state = {**self.__dict__, "notify": silent, "progress": no_progress, "_encoder": None}
        if self._encoder is not None:
            state["_fingerprint"] = self._encoder.fingerprint
        if "memory_" in state:
            state["memory_"] = self.memory_.to(torch.device("cpu"))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if hasattr(self, "memory_"):
            self.learn()

    def leaving_out(self: Self, entries: Sequence[int]) -> Self:
        """A copy that has never seen a normal image, given by its entries in the memory bank."""
        return copy(self).remember(self.memory_.without(*entries))

    def unfitted(self: Self) -> Self:
        """A copy with the same settings and encoder that has seen no normal image."""
        fresh = copy(self)
        fresh.__dict__.pop("memory_", None)
        fresh.threshold_ = fresh.map_threshold_ = fresh._scale = fresh.calibration_ = None
        fresh.foreign_ = None
        return fresh

    def score_images(self, images: Sequence[PreparedImage]) -> list[TokenScore]:
        """The scores of a few images that were read, as one batch."""
        return self.score_tokens(self.encoder_.encode_prepared([image.pixels for image in images]))

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
            self.require_fitted()
            self._scale = self.colour_scale()
        return self._scale

    @property
    def encoder_(self) -> Encoder:
        """The encoder, loaded when it is first needed, and again where a fork has broken it."""
        if self._encoder is None or self._encoder.is_broken:
            self.use_encoder(
                load_encoder(self.settings, self.device, self.notify, engine=self.engine)
            )
            assert self._encoder is not None
        return self._encoder

    def use_encoder(self, encoder: Encoder) -> bool:
        """Takes an encoder that was loaded elsewhere, with the same settings; says if it is new."""
        if self._encoder is encoder:
            return False
        if self._fingerprint not in (None, encoder.fingerprint):
            raise DetectorFileError(
                f"This detector was made with other weights of {self.settings.name} than those"
                " on this machine; its scores would be wrong. Fit it again."
            )
        if hasattr(self, "memory_") and self.memory_.cls.shape[-1] != encoder.width:
            raise DetectorFileError(
                f"This detector remembers tokens of {self.memory_.cls.shape[-1]} numbers, and those"
                f" of {self.settings.name} have {encoder.width}; fit it again."
            )
        self._encoder = encoder
        if hasattr(self, "memory_"):
            scale = self._scale
            self.remember(self.memory_)  # on the encoder's device, with all derived from it
            self._scale = scale
        return True

    def evidence(
        self, image: ImageSource | LoadedImage, x: float | None = None, y: float | None = None
    ) -> Evidence:
        """Which normal patches rebuilt the patch at x, y (default: the map's peak) of an image."""
        raise UsageError(f"{type(self).__name__} rebuilds no patches; only HyperFSAD explains.")

    def _results(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        scores = self.score_images(images)
        return [self.result(image, score) for image, score in zip(images, scores, strict=True)]

    def result(self, image: PreparedImage, scored: TokenScore) -> AnomalyResult:
        """What is said of an image, given its scores."""
        self._require_levels()
        regions: tuple[Region, ...] = ()
        calibration = self.calibration_
        if self.map_threshold_ is not None:
            regions = find_regions(
                scored.anomaly_map, image.size, self.map_threshold_, self.min_area, scored.missing
            )
        return AnomalyResult(
            image.name,
            scored.branches,
            scored.anomaly_map,
            image.size,
            self._shown_scale(),
            image.source,
            self.threshold_,
            regions,
            picture=image.picture,
            map_threshold=self.map_threshold_,
            threshold_from=self.threshold_from_,
            p_value=calibration.p_value(scored.score, scored.peak) if calibration else None,
            regions_decide=calibration is None or calibration.joint,
            foreign=None
            if self.foreign_ is None
            else scored.branches.values["cls"] > self.foreign_,
            inside=scored.inside,
            detector=weakref.ref(self),
        )

    def _require_levels(self) -> None:
        """Refuses thresholds that were set to what nothing lies above."""
        for level in (self.threshold_, self.map_threshold_):
            if level is not None and not math.isfinite(level):
                raise UsageError(
                    f"The detector has the threshold {level}, which judges nothing; calibrate it."
                )

    def _shown_scale(self) -> tuple[float, float]:
        """Colours begin where the map says that an image is anomalous, and end at twice that."""
        judged = self.calibration_ is not None and self.calibration_.joint
        level = self.map_threshold_ or 0.0
        return (level, 2 * level) if judged and level > 0 else self.scale_

    def require_fitted(self) -> None:
        """Refuses to answer before it has learnt a good part."""
        if not hasattr(self, "memory_"):
            raise UsageError("This detector has seen no normal image yet; call fit first.")


def unjudged(name: str, error: NotFiniteError) -> NotFiniteError:
    """The error of an image, which had no name where it was found."""
    return NotFiniteError(f"{name} cannot be judged: {error}.")
