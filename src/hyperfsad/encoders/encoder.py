"""A frozen encoder: pictures in, unit-length patch and CLS tokens of the selected layers out."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .. import threads
from ..arrays import Array, namespace
from ..errors import ConversionError, NotFiniteError, UsageError
from ..images.loading import LARGEST_DRAWN, ImageSource, LoadedImage, fitting_memory
from ..images.loading import PreparedImage as PreparedImage
from ..messages import Notice, Notify, log
from .devices import (
    WITH_TORCH,
    choose_device,
    choose_engine,
    choose_precision,
    computes_in,
    has_torch,
    kind_of,
)
from .engines import TokenEngine
from .runtime import named_engine, precision_in
from .specs import FULL, EncoderSettings

EMPTY = (255, 128, 0)
"""Grey values of pictures that show nothing."""


@dataclass(frozen=True)
class ImageTokens:
    """The tokens of one image."""

    patches: tuple[Array, ...]
    """Q^l for each layer, (N, D)."""
    cls: Array
    """(layers, D)"""


@dataclass(frozen=True)
class Tokens:
    """The tokens of a batch of images."""

    patches: Array
    """(images, layers, patches, D), patches row by row."""
    cls: Array
    """(images, layers, D)"""

    @classmethod
    def joined(cls, batches: Sequence["Tokens"]) -> "Tokens":
        """One batch of all images."""
        xp = namespace(batches[0].cls)
        return cls(
            xp.concat([batch.patches for batch in batches]),
            xp.concat([batch.cls for batch in batches]),
        )

    def images(self) -> Iterator[ImageTokens]:
        """The tokens of each image."""
        for patches, cls in zip(self.patches, self.cls, strict=True):
            yield ImageTokens(tuple(patches), cls)


class Encoder:
    """Runs a frozen model up to its last selected block."""

    def __init__(self, settings: EncoderSettings, engine: TokenEngine, device: str) -> None:
        self.settings = settings
        self.device = device
        """cpu, gpu, npu, cuda or mps, perhaps with a number."""
        self._engine = engine
        self._process = os.getpid()

    def encode(self, images: Sequence[LoadedImage]) -> Tokens:
        """The tokens of a few images, as one batch."""
        return self.encode_prepared([prepare(image, self.settings) for image in images])

    def encode_prepared(self, images: Sequence[NDArray[np.float32]]) -> Tokens:
        """The tokens of a few prepared images, as one batch."""
        if kind_of(self.device) == "cuda" and os.getpid() != self._process:
            raise UsageError("device-forked")
        patches, cls = self._engine.tokens(np.stack(images))
        # one value that is not finite spoils the sum, which is faster than checking each
        xp = namespace(cls)
        if not bool(xp.isfinite(xp.sum(patches) + xp.sum(cls))):
            raise NotFiniteError("encoder-not-finite", encoder=self.settings.name)
        return Tokens(patches, cls)

    @cached_property
    def empty_cls(self) -> Array:
        """The CLS tokens of pictures that show nothing; one at a time, since tokens depend a little
        on the rest of their batch."""
        pictures = [Image.new("RGB", (64, 64), (grey, grey, grey)) for grey in EMPTY]
        found = [self.encode([LoadedImage("empty", each)]).cls for each in pictures]
        return namespace(*found).concat(found)

    @property
    def usual_batch(self) -> int:
        """On a CPU one image at a time is as fast, and its tokens do not depend on a batch."""
        return 1 if self.tokens_on == "cpu" else 8

    @property
    def tokens_on(self) -> str:
        """Where its tokens lie: on the device of torch that computes them, otherwise in plain
        memory (cpu)."""
        return self.device if kind_of(self.device) in WITH_TORCH else "cpu"

    @property
    def engine(self) -> str:
        """The name of what runs it: openvino or torch."""
        return self._engine.name

    @property
    def precision(self) -> str:
        """What its tokens are computed in."""
        return precision_in(self.fingerprint)

    @property
    def fingerprint(self) -> str:
        """Identifies weights and precision; else the same for every engine and device."""
        return self._engine.fingerprint

    @property
    def is_broken(self) -> bool:
        """Whether the process was forked since it was loaded, and it has to be loaded again."""
        return self._engine.is_broken

    @property
    def width(self) -> int:
        """D, the numbers of a token."""
        return self._engine.width


def prepare(image: LoadedImage, settings: EncoderSettings) -> NDArray[np.float32]:
    """What an encoder sees of an image, (3, resolution, resolution); it need not be loaded yet."""
    return image.to_array(settings.resolution, settings.mean, settings.std)


def load_encoder(
    settings: EncoderSettings,
    device: str = "auto",
    notify: Notify = log,
    *,
    engine: str = "auto",
    precision: str = FULL,
    made_in: str | None = None,
    parallel: bool = False,
) -> Encoder:
    """Loads the weights that the settings name, fetching them first where that is needed.

    `made_in` is the precision of the memory that images will be compared with. `parallel` says that
    several threads will encode at once, each on one core.
    """
    engine = named_engine(engine)
    if device == "auto" and (engine == "openvino" or precision not in ("auto", FULL)):
        device = "cpu"
    target = choose_device(device)
    own: Encoder | None = settings.own_encoder(target, notify)
    if own is not None:
        return own
    choice = choose_engine(engine, target)
    asked = precision
    try:
        precision = choose_precision(asked, choice, target, made_in)
        if not computes_in(precision, choice, target):
            raise UsageError("precision-unsupported", precision=precision)
        if choice != "torch":
            from .openvino import load_engine

            found: TokenEngine = load_engine(
                settings, notify, device=target, parallel=parallel, precision=precision
            )
            return Encoder(settings, found, target)
    except ConversionError as error:
        usual = (engine, target) == ("auto", "cpu") and asked in ("auto", FULL)
        if not usual or not has_torch():
            raise
        notify(Notice("torch-instead", error=error))
        precision = FULL
    from .torch_engine import load_engine as load_torch

    return Encoder(settings, load_torch(settings, target, notify, precision=precision), target)


def use_threads(count: int | None) -> None:
    """Limits the CPU threads of all that is loaded later."""
    if count is None:
        return
    limit = max(64, 4 * (os.cpu_count() or 1))  # each thread takes memory, and more do not help
    if not 1 <= count <= limit:
        raise UsageError("threads-range", given=count, limit=limit)
    threads.limit(count)


def prepared(
    source: ImageSource | LoadedImage,
    loaded: LoadedImage,
    shown: LoadedImage,
    settings: EncoderSettings,
    *,
    keep_picture: bool = False,
    keep_whole: bool = False,
) -> PreparedImage:
    """All that can be done for an image before the encoder sees what is `shown` of it."""
    with fitting_memory(loaded.name):
        return PreparedImage(
            loaded.pixels if isinstance(source, LoadedImage) else source,
            loaded.name,
            loaded.size,
            prepare(shown, settings),
            loaded.reduced(LARGEST_DRAWN) if keep_picture else None,
            loaded if keep_whole else None,
        )
