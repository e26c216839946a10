"""What the peers share besides fitting and predicting."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from ...detector import pipeline
from ...detector.encoding import EncodedMemory
from ...detector.fit import SupportReader
from ...encoders import SUBSTITUTE, EncoderSettings, find_spec
from ...encoders.encoder import Encoder, ImageTokens, PreparedImage, Tokens, prepared
from ...errors import ImageError, UsageError
from ...images.geometry import rotate, rotated_copies
from ...images.loading import ImageSource, LoadedImage, load_image
from ...images.reading import READ_AHEAD, Images, check_images
from ...messages import Notify, silent
from ...method.lookups import in_chunks
from ...method.memory import MemoryBank
from ...method.scoring import BranchScores, Pooling, TokenScore
from ...results.levels import Levels
from ...results.result import AnomalyResult
from ...views import Plain
from ...views.view import LEVEL_IMAGES, scale_of

ROTATIONS = (1, 8)
"""Peers remember a support image as it is, or in steps of 45 degrees, as their authors do."""


Self = TypeVar("Self", bound="Peer")


class FewShotDetector(Protocol):
    """What the tables ask of every method, ours and the peers."""

    @property
    def encoding_(self) -> EncoderSettings:
        """How images are encoded."""
        ...

    @property
    def memory_(self) -> MemoryBank:
        """The memory bank; there after `fit`."""
        ...

    def fit(self, images: Images) -> Any:
        """Remembers good parts."""
        ...

    def remember(self, bank: MemoryBank) -> Any:
        """Takes a memory bank that was made elsewhere with the same encoder and settings."""
        ...

    def use_encoder(self, encoder: Encoder) -> bool:
        """Takes an encoder that was loaded elsewhere, with the same settings; says if it is new."""
        ...

    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        """The scores of each image of an encoded batch."""
        ...

    def predict(self, images: Any, *, keep_pictures: bool = False) -> Any:
        """An `AnomalyResult` for one image, an iterator of them for several."""
        ...


class Peer(ABC):
    """Another training-free few-shot detector on the same frozen tokens; none scores the CLS."""

    rotations = 1
    smoothing: float = 0.0
    """σ in pixels of the Gaussian that the method's authors lay over the upsampled map."""
    encoding_: EncoderSettings
    """How images are encoded."""

    def __init__(
        self,
        backbone: str = SUBSTITUTE,
        *,
        layers: tuple[int, ...] | None = None,
        resolution: int | None = None,
        last_norm: bool = False,
        device: str = "auto",
        engine: str = "auto",
        batch_size: int | None = None,
        notify: Notify = silent,
    ) -> None:
        """`last_norm` lets the last block of the model, if it is used, pass the final norm."""
        spec = find_spec(backbone)
        self.encoding_ = spec.settings(layers, resolution, last_norm=last_norm)
        self.batch_size, self.skipped_ = batch_size, list[ImageError]()
        self._memory = EncodedMemory(self.encoding_, device, engine, notify)
        self._scale: tuple[float, float] | None = None

    @property
    def is_fitted(self) -> bool:
        """Whether it has a memory bank."""
        return self._memory.bank is not None

    @property
    def memory_(self) -> MemoryBank:
        """The memory bank; there after `fit`."""
        return self._memory.known

    @property
    def encoder_(self) -> Encoder:
        """The encoder, loaded when it is first needed."""
        self._memory.see(self.encoding_)
        return self._memory.encoder

    def use_encoder(self, encoder: Encoder) -> bool:
        """Takes an encoder that was loaded elsewhere, with the same settings; says if it is new."""
        return self._memory.use(encoder)

    def fit(self: Self, images: Images) -> Self:
        """Remembers good parts: a folder, a glob, paths, PIL images or arrays."""
        check_images(images)
        reader = SupportReader(Plain(), self.encoder_, self.batch, self.read_ahead)
        self.skipped_ = reader.skipped
        return self.remember(reader.joined(reader.banks(images, (), self.orientations)))

    def extend(self: Self, images: Images) -> Self:
        """Remembers more good parts; the same as fitting on all of them at once."""
        check_images(images)
        reader = SupportReader(Plain(), self.encoder_, self.batch, self.read_ahead)
        self.skipped_ = reader.skipped
        banks = reader.banks(images, self.memory_.images, self.orientations)
        return self.remember(MemoryBank.joined([self.memory_, *banks])) if banks else self

    def remember(self: Self, bank: MemoryBank) -> Self:
        """Takes a memory bank that was made elsewhere with the same encoder and settings."""
        self._memory.keep(bank)
        self._scale = None
        self.learn()
        return self

    def learn(self) -> None:  # noqa: B027 (most methods derive nothing)
        """Whatever a method derives from the memory bank before the first question."""

    def leaving_out(self: Self, entries: Sequence[int]) -> Self:
        """A copy that has never seen a normal image, given by its entries in the memory bank."""
        return copy(self).remember(self.memory_.without(*entries))

    def __copy__(self: Self) -> Self:
        """Another one of the same encoder and tokens."""
        fresh = object.__new__(type(self))
        fresh.__dict__.update(self.__dict__)
        fresh._memory = copy(self._memory)
        return fresh

    def predict(self, images: Any, *, keep_pictures: bool = False) -> Any:
        """Scores one image, or lazily each of several, as `HyperFSAD.predict` does; there is no
        threshold, so no verdict."""
        self.memory_  # noqa: B018 (which refuses where there is none)
        return pipeline.predict(self, images, keep_pictures)

    @property
    def batch(self) -> int:
        """Images that are encoded at once."""
        return self.batch_size or self.encoder_.usual_batch

    @property
    def read_ahead(self) -> int:
        """Images that are read before they are asked for."""
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

    @property
    def scale_(self) -> tuple[float, float]:
        """The colour scale of pictures, from the normal images alone."""
        if self._scale is None:
            self._scale = self.colour_scale()
        return self._scale

    @abstractmethod
    def patch_scores(self, image: ImageTokens) -> Tensor:
        """The score of each patch, (N,), higher is more anomalous."""

    def orientations(self, image: LoadedImage) -> list[LoadedImage]:
        """The image in each orientation."""
        return rotated_copies(image, self.rotations)

    def image_score(self, anomaly_map: Tensor, image: ImageTokens) -> float:
        """The mean of the largest hundredth of the map, unless a method says otherwise."""
        return top_percent(anomaly_map)

    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        """The map and the score of each image; all of the score is the map's."""
        grid, scores = self.encoding_.grid, []
        for image in tokens.images():
            anomaly_map = self.patch_scores(image).reshape(grid, grid)
            branches = BranchScores.of_map(self.image_score(anomaly_map, image))
            scores.append(TokenScore(anomaly_map.cpu().numpy(), branches))
        return scores

    def colour_scale(self) -> tuple[float, float]:
        """From the score that 99 % of the patches of unseen good parts stay below."""
        return scale_of(good_scores(self))


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


def check_peer_rotations(rotations: int) -> None:
    """Refuses a number of orientations that no peer has."""
    if rotations not in ROTATIONS:
        raise UsageError("peer-rotations", given=rotations)


def check_fraction(fraction: float) -> None:
    """Refuses what is no share of the normal patches to keep as a coreset."""
    if not 0 < fraction <= 1:
        raise UsageError("coreset-fraction-range", given=fraction)


def top_percent(anomaly_map: Tensor) -> float:
    """The mean of the largest hundredth, rounded down as in the authors' code, at least one."""
    return float(Pooling("top-1%", count=max(1, anomaly_map.numel() // 100))(anomaly_map))


def local_features(layers: Sequence[Tensor], grid: int, *, zeros: bool = False) -> Tensor:
    """Locally aware patch features: the mean of each 3×3 neighbourhood, layers side by side.

    Takes one (K·N, D) a layer with N = grid² patches an image, gives (K·N, layers·D). At the
    border only the patches that exist are averaged, or `zeros` beyond it count too.
    """
    pooled = []
    for layer in layers:
        maps = layer.reshape(-1, grid, grid, layer.shape[1]).permute(0, 3, 1, 2)
        means = avg_pool2d(maps, 3, stride=1, padding=1, count_include_pad=zeros)
        pooled.append(means.permute(0, 2, 3, 1).reshape(layer.shape))
    return torch.cat(pooled, dim=1)


def best_similarity(queries: Tensor, memory: Tensor) -> Tensor:
    """max_m⟨q, m⟩ for each row of `queries` (N, D) over the rows of `memory` (M, D), (N,)."""
    return torch.cat([(chunk @ memory.T).amax(dim=1) for chunk in in_chunks(queries, memory)])


def nearest(queries: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """The Euclidean distance of each query to its nearest row of the memory, and that row's index.

    The row is found by ‖m‖² − 2⟨q, m⟩, but the distance is taken from the difference itself: the
    expanded square would give a patch a distance of about 10⁻³ to itself.
    """
    squares = memory.square().sum(dim=1)
    found = [
        torch.addmm(squares, chunk, memory.T, alpha=-2).argmin(dim=1)
        for chunk in in_chunks(queries, memory)
    ]
    index = torch.cat(found)
    return torch.linalg.vector_norm(queries - memory[index], dim=1), index


def good_scores(detector: Peer) -> Tensor:
    """The scores of patches of good parts.

    Each normal image is scored by a copy of the method that has never seen it, nor any turned copy
    of it; of a lone image, one half of its patches by a copy that knows the other half.
    """
    bank, entries = detector.memory_, detector.memory_.entries
    if len(entries) == 1:
        return _half_by_half(detector)
    return torch.cat(
        [
            detector.leaving_out(places).patch_scores(
                ImageTokens(bank.patches_of(places[0]), bank.cls[places[0]])
            )
            for places in entries[:LEVEL_IMAGES]
        ]
    )


def _half_by_half(detector: Peer) -> Tensor:
    """The white squares of a chessboard scored by what is known of the black ones.

    Methods may expect whole grids, so each half fills the places of the other with the patch next
    to them.
    """
    bank, grid = detector.memory_, detector.encoding_.grid
    if grid == 1:
        return torch.zeros(1)
    places = torch.arange(grid * grid, device=bank.cls.device).reshape(grid, grid)
    columns = torch.arange(grid, device=places.device)
    beside = places[:, torch.where((columns ^ 1) < grid, columns ^ 1, columns - 1)]
    white = (columns[:, None] + columns) % 2 == 1
    known = torch.where(white, beside, places).flatten()
    asked = torch.where(white, places, beside).flatten()
    half = MemoryBank(tuple(layer[known] for layer in bank.patches), bank.cls[:1], bank.images[:1])
    image = ImageTokens(tuple(layer[asked] for layer in bank.patches), bank.cls[0])
    return copy(detector).remember(half).patch_scores(image)[white.flatten()]
