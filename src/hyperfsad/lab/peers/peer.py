"""What the peers share: fitting and predicting on frozen tokens."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from ...arrays import Array, namespace, to_numpy
from ...detector import pipeline
from ...detector.encoding import EncodedMemory
from ...detector.fit import SupportReader
from ...detector.pipeline import Levels
from ...detector.protocols import Predictor
from ...detector.settings import Settings
from ...encoders import SUBSTITUTE, EncoderSettings, EncoderSpec, find_spec
from ...encoders.encoder import Encoder, ImageTokens, PreparedImage, Tokens, prepared
from ...encoders.specs import EngineName, PrecisionName
from ...errors import ImageError, UsageError
from ...images.geometry import rotate, rotated_copies
from ...images.loading import ChannelOrder, ImageSource, LoadedImage, load_image
from ...images.reading import READ_AHEAD, Images, check_images
from ...messages import Notify, log
from ...method.memory import MemoryBank
from ...method.scoring import BranchScores, TokenScore
from ...results.result import AnomalyResult
from ...views import PlainView
from .. import PRECISION
from .features import top_percent

Option: TypeAlias = tuple[str, Callable[[Any], bool]]
"""What a value must be, in symbols, and whether one is."""

MethodOptions: TypeAlias = Mapping[str, Option]

ROTATIONS_OPTION: Option = ("rotations = 1 or 8", lambda count: count in (1, 8))
"""Peers remember a support image as it is, or in steps of 45 degrees, as their authors do."""

Layers: TypeAlias = tuple[int, ...] | None
Self = TypeVar("Self", bound="Peer")


class FewShotDetector(Predictor, Protocol):
    """What the tables ask of every method, ours and the peers."""

    @property
    def encoding_(self) -> EncoderSettings: ...
    @property
    def memory_(self) -> MemoryBank: ...

    def fit(self, images: Images, *, threshold: bool = True) -> Any:
        """Remembers good parts; a method that has thresholds estimates them if it is asked to."""
        ...

    def remember(self, bank: MemoryBank) -> Any:
        """Takes a memory bank that was made elsewhere with the same encoder and settings."""
        ...

    def use_encoder(self, encoder: Encoder) -> bool: ...
    def score_tokens(self, tokens: Tokens) -> list[TokenScore]: ...


class Peer(ABC):
    """Another training-free few-shot detector on frozen tokens; none scores the CLS token."""

    OPTIONS: ClassVar[MethodOptions] = {}
    """The options of the method itself, which are attributes with their defaults."""
    smoothing: ClassVar[float] = 0.0
    """σ in pixels of the Gaussian that the method's authors lay over the upsampled map."""
    scale_: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """The colour scale of pictures."""
    unlabelled: ClassVar[bool] = False
    """Whether it learns from many unlabelled images; tables of few good ones leave it out."""
    rotations: int = 1
    """Orientations in which a support image is remembered."""

    def __init__(
        self,
        backbone: str = SUBSTITUTE,
        *,
        layers: Layers = None,
        resolution: int | None = None,
        last_norm: bool = False,
        device: str = "auto",
        engine: EngineName = "auto",
        precision: PrecisionName = PRECISION,
        batch_size: int | None = None,
        notify: Notify = log,
        **options: Any,
    ) -> None:
        """`last_norm` lets the last block of the model, if it is used, pass the final norm.
        `options` are those of the method."""
        for name, value in options.items():
            if name not in self.OPTIONS:
                facts = {"peer": type(self).__name__, "given": name, "known": [*self.OPTIONS]}
                raise UsageError("peer-option-unknown", **facts)
            expected, fits = self.OPTIONS[name]
            if not fits(value):
                facts = {"peer": type(self).__name__, "given": value, "expected": expected}
                raise UsageError("peer-option-range", **facts)
            setattr(self, name, value)
        Settings(device=device, engine=engine, precision=precision)
        self._last_norm = last_norm
        self.encoding_ = self.encoding(find_spec(backbone), layers, resolution)
        self.batch_size, self.skipped_ = batch_size, list[ImageError]()
        self._memory = EncodedMemory(self.encoding_, device, engine, precision, notify)

    def encoding(
        self, spec: EncoderSpec, layers: Layers, resolution: int | None
    ) -> EncoderSettings:
        """How images are encoded."""
        return spec.settings(layers, resolution, last_norm=self._last_norm)

    @property
    def memory_(self) -> MemoryBank:
        """The memory bank; there after `fit`."""
        return self._memory.known

    @property
    def encoder_(self) -> Encoder:
        """The encoder, loaded when it is first needed."""
        return self._memory.encoder

    def use_encoder(self, encoder: Encoder) -> bool:
        """Takes an encoder that was loaded elsewhere, with the same settings; says if it is new."""
        return self._memory.use(encoder)

    def fit(self: Self, images: Images, *, threshold: bool = True) -> Self:
        """Remembers good parts: a folder, a glob, paths, PIL images or arrays. Peers have no
        `threshold`."""
        check_images(images)
        reader = SupportReader(PlainView(), self.encoder_, self.batch_size)
        self.skipped_ = reader.skipped
        return self.remember(reader.joined(reader.banks(images, (), self.orientations)))

    def remember(self: Self, bank: MemoryBank) -> Self:
        """Takes a memory bank that was made elsewhere with the same encoder and settings."""
        self._memory.keep(bank)
        self.learn()
        return self

    def learn(self) -> None:  # noqa: B027 (most methods derive nothing)
        """Whatever a method derives from the memory bank before the first question."""

    def orientations(self, image: LoadedImage) -> list[LoadedImage]:
        """The image in each orientation."""
        return rotated_copies(image, self.rotations)

    def require_fitted(self) -> None:
        """Refuses to answer before it has seen a normal image."""
        self.memory_  # noqa: B018 (which raises)

    def predict(
        self,
        image: ImageSource | LoadedImage,
        *,
        channels: ChannelOrder = "rgb",
        keep_pictures: bool = False,
    ) -> AnomalyResult:
        """Scores one image, as `HyperFSAD.predict` does, but without a verdict."""
        self.require_fitted()
        return pipeline.predict(self, image, channels, keep_pictures)

    def predict_many(
        self, images: Images, *, channels: ChannelOrder = "rgb", keep_pictures: bool = False
    ) -> Iterator[AnomalyResult]:
        """Scores each image, as `HyperFSAD.predict_many` does, but without verdicts."""
        self.require_fitted()
        return pipeline.predict_many(self, images, channels, keep_pictures)

    @property
    def batch(self) -> int:
        """Images that are encoded at once."""
        return self.batch_size or self.encoder_.usual_batch

    @property
    def read_ahead(self) -> int:
        """Images that are read before they are needed."""
        return READ_AHEAD

    def prepare(self, source: ImageSource | LoadedImage, keep_picture: bool) -> PreparedImage:
        """Reads an image as the encoder takes it."""
        loaded = load_image(source)
        return prepared(source, loaded, loaded, self.encoding_, keep_picture=keep_picture)

    def judge(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        """The results of a few images, as one batch."""
        levels = Levels(None, None, None, None, None, self.scale_)
        scores = self.score_tokens(self.encoder_.encode_prepared([one.pixels for one in images]))
        return [
            levels.result(image.name, image.size, image.source, image.picture, scored)
            for image, scored in zip(images, scores, strict=True)
        ]

    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        """The map and the score of each image; all of the score is the map's."""
        grid, scores = self.encoding_.grid, []
        for image in tokens.images():
            patches = self.patch_scores(image)
            anomaly_map = namespace(patches).reshape(patches, (grid, grid))
            branches = BranchScores.of_map(self.image_score(anomaly_map, image))
            scores.append(TokenScore(to_numpy(anomaly_map), branches))
        return scores

    @abstractmethod
    def patch_scores(self, image: ImageTokens) -> Array:
        """The score of each patch, (N,), higher is more anomalous."""

    def image_score(self, anomaly_map: Array, image: ImageTokens) -> float:
        """The mean of the largest hundredth of the map, unless a method says otherwise."""
        return top_percent(anomaly_map)


class OwnTokens(Peer):
    """A peer that reads other tokens than the rest, so it cannot share theirs."""

    angles: ClassVar[tuple[float, ...]] = (0.0,)
    """Degrees by which what it remembers of a support image is turned, the image itself first."""

    @classmethod
    @abstractmethod
    def rows(cls, backbone: str) -> dict[str, dict[str, Any]]:
        """The labels of its rows in a table on that encoder, each with the options that make it;
        none where it cannot run there."""

    def orientations(self, image: LoadedImage) -> list[LoadedImage]:
        """The image in each orientation."""
        return [rotate(image, angle) for angle in self.angles]

    def forget(self) -> None:  # most need their memory
        """Lets go of what scoring needs no more; after that it can only score tokens."""
