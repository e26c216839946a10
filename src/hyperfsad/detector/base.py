"""What every few-shot detector on frozen tokens shares: learning from good parts, and predicting.

A method adds how tokens are scored, and the colour scale of its maps.
"""

import weakref
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from ..decisions.thresholds import Calibration
from ..encoders import SUBSTITUTE, find_spec
from ..encoders.encoder import Encoder, PreparedImage, Tokens, load_encoder, named_device
from ..encoders.runtime import named_engine, require_same_encoder
from ..errors import DetectorFileError, ImageError, UsageError
from ..evidence.evidence import Evidence
from ..images.loading import ImageSource, LoadedImage, NormalImage
from ..images.reading import Images, check_images
from ..messages import Notify, Progress, no_progress, silent
from ..method.memory import MemoryBank
from ..method.scoring import TokenScore
from ..results.levels import Levels
from ..results.result import AnomalyResult
from .checks import checked
from .predictor import Predictor
from .support import SupportReader

if TYPE_CHECKING:
    from ..encoders.quantisation import Quantised

Self = TypeVar("Self", bound="FewShotDetector")


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
        self.backbone: str = checked("backbone", backbone)
        self.layers: tuple[int, ...] | None = checked("layers", layers)
        self.resolution: int | None = checked("resolution", resolution)
        self.device: str = checked("device", device)
        self.engine: str = checked("engine", engine)
        named_engine(self.engine)  # refuses a name that there is not
        named_device(self.device)
        self.batch_size: int | None = checked("batch_size", batch_size)
        self.notify: Notify = checked("notify", notify)
        self.progress: Progress = no_progress
        """How long work on images shows how far it is; commands have a bar."""
        if self.batch_size is not None and self.batch_size < 1:
            raise UsageError(f"The batch size is at least 1, not {batch_size}.")
        self.settings = find_spec(self.backbone).settings(
            self.layers, self.resolution, last_norm=checked("last_norm", last_norm)
        )
        self._encoder: Encoder | None = None
        self._fingerprint: str | None = None
        self.quantised_: Quantised | None = None
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
        check_images(images)
        reader = self._new_reader()
        return self.remember(reader.joined(reader.banks(images, (), self.orientations)))

    def extend(self: Self, images: Images) -> Self:
        """Remembers more good parts; the same as fitting on all of them at once."""
        self.require_fitted()
        check_images(images)
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
                load_encoder(
                    self.settings,
                    self.device,
                    self.notify,
                    engine=self.engine,
                    quantised=self.quantised_,
                )
            )
            assert self._encoder is not None
        return self._encoder

    def use_encoder(self, encoder: Encoder) -> bool:
        """Takes an encoder that was loaded elsewhere, with the same settings; says if it is new."""
        if self._encoder is encoder:
            return False
        expected = self._fingerprint
        if expected is None and self._encoder is not None and hasattr(self, "memory_"):
            expected = self._encoder.fingerprint
        if expected is not None:
            require_same_encoder(self.settings.name, expected, encoder.fingerprint)
        if hasattr(self, "memory_") and self.memory_.cls.shape[-1] != encoder.width:
            raise DetectorFileError(
                f"This detector remembers tokens of {self.memory_.cls.shape[-1]} numbers, and those"
                f" of {self.settings.name} have {encoder.width}; fit it again."
            )
        self._encoder = encoder
        if hasattr(self, "memory_") and self.memory_.cls.device != encoder.device:
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
        return self.levels().result(
            image.name, image.size, image.source, image.picture, scored, weakref.ref(self)
        )

    def levels(self) -> Levels:
        """What scores and maps are held against."""
        return Levels(
            self.threshold_,
            self.map_threshold_,
            self.threshold_from_,
            self.calibration_,
            self.foreign_,
            self._shown_scale(),
            self.min_area,
        )

    def _shown_scale(self) -> tuple[float, float]:
        """Colours begin where the map says that an image is anomalous, and end at twice that."""
        level = self.map_threshold_ or 0.0
        calibrated = self.calibration_ is not None and level > 0
        return (level, 2 * level) if calibrated else self.scale_

    def require_fitted(self) -> None:
        """Refuses to answer before it has learnt a good part."""
        if not hasattr(self, "memory_"):
            raise UsageError("This detector has seen no normal image yet; call fit first.")
