"""A frozen encoder: pictures in, unit-length patch and CLS tokens of the selected layers out."""

import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ..errors import ConversionError, EncoderError, NotFiniteError, UsageError
from ..images.loading import LARGEST_DRAWN, ImageSource, LoadedImage, fitting_memory
from ..images.loading import PreparedImage as PreparedImage
from ..messages import Notice, Notify, silent
from . import folders, weights
from .engines import TokenEngine, TokenModel, TorchEngine
from .runtime import INT8, find_spec, named_engine, precision_of
from .specs import EncoderSettings
from .verify import require_intact

if TYPE_CHECKING:
    from .quantisation import Quantised

EMPTY = (255, 128, 0)
"""Grey values of pictures that show nothing."""


if hasattr(os, "register_at_fork"):
    # a forked process has none of its parent's threads, and torch would wait for them for ever
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


@dataclass(frozen=True)
class ImageTokens:
    """The tokens of one image."""

    patches: tuple[Tensor, ...]
    """Q^l for each layer, (N, D)."""
    cls: Tensor
    """(layers, D)"""


@dataclass(frozen=True)
class Tokens:
    """The tokens of a batch of images."""

    patches: Tensor
    """(images, layers, patches, D), patches row by row."""
    cls: Tensor
    """(images, layers, D)"""

    @classmethod
    def joined(cls, batches: Sequence["Tokens"]) -> "Tokens":
        """One batch of all images."""
        return cls(
            torch.cat([batch.patches for batch in batches]),
            torch.cat([batch.cls for batch in batches]),
        )

    def images(self) -> Iterator[ImageTokens]:
        """The tokens of each image."""
        for patches, cls in zip(self.patches, self.cls, strict=True):
            yield ImageTokens(tuple(patches), cls)


class Encoder:
    """Runs a frozen model up to its last selected block."""

    def __init__(
        self, settings: EncoderSettings, engine: TokenEngine, device: torch.device
    ) -> None:
        self.settings = settings
        self.device = device
        self._engine = engine
        self._process = os.getpid()

    def encode(self, images: Sequence[LoadedImage]) -> Tokens:
        """The tokens of a few images, as one batch."""
        return self.encode_prepared([prepare(image, self.settings) for image in images])

    def encode_prepared(self, images: Sequence[NDArray[np.float32]]) -> Tokens:
        """The tokens of a few prepared images, as one batch."""
        if self.device.type == "cuda" and os.getpid() != self._process:
            raise UsageError("device-forked")
        patches, cls = self._engine.tokens(np.stack(images))
        # one value that is not finite spoils the sum, which is faster than checking each
        if not bool((patches.sum() + cls.sum()).isfinite()):
            raise NotFiniteError("encoder-not-finite", encoder=self.settings.name)
        return Tokens(patches, cls)

    @cached_property
    def empty_cls(self) -> Tensor:
        """The CLS tokens of pictures that show nothing; one at a time, since tokens depend a little
        on the rest of their batch."""
        pictures = [Image.new("RGB", (64, 64), (grey, grey, grey)) for grey in EMPTY]
        return torch.cat([self.encode([LoadedImage("empty", each)]).cls for each in pictures])

    @property
    def usual_batch(self) -> int:
        """On a CPU one image at a time is as fast, and its tokens do not depend on a batch."""
        return 1 if self.device.type == "cpu" else 8

    @property
    def engine(self) -> str:
        """The name of what runs it: torch, openvino, or openvino with a precision."""
        return self._engine.name

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
    notify: Notify = silent,
    *,
    engine: str = "auto",
    parallel: bool = False,
    quantised: "Quantised | None" = None,
) -> Encoder:
    """Loads the weights that the settings name, fetching them first where that is needed.

    `parallel` says that several threads will encode at once, each on one core. The engine
    openvino-int8 needs the graph that was quantised for a detector.
    """
    engine = named_engine(engine)
    if settings.form != "unit":  # what peers need, by torch alone
        target = choose_device(device)
        own: Encoder | None = settings.own_encoder(target, notify)
        return own or Encoder(settings, torch_engine(settings, target, notify), target)
    if engine.startswith("openvino") and device == "auto":
        device = "cpu"
    target = choose_device(device)
    choice = choose_engine(engine, target)
    if precision_of(choice) == INT8:
        if quantised is None:
            raise UsageError("int8-without-detector")
        from .quantisation import load_quantised

        return Encoder(settings, load_quantised(quantised, settings.resolution, parallel), target)
    if choice != "torch":
        from .openvino import load_engine

        try:
            found: TokenEngine = load_engine(
                settings,
                lambda: torch_engine(settings, target, notify),
                notify,
                parallel=parallel,
                precision=precision_of(choice),
            )
            return Encoder(settings, found, target)
        except ConversionError as error:
            if engine != "auto":
                raise
            notify(Notice("torch-instead", error=error))
    return Encoder(settings, torch_engine(settings, target, notify), target)


def torch_engine(settings: EncoderSettings, device: torch.device, notify: Notify) -> TorchEngine:
    """The model of `transformers` with its weights, ready to run or to be exported."""
    spec = find_spec(settings.name)
    depth = settings.layers[-1]
    folder = weights.fetch(spec, notify=notify)
    try:
        require_intact(spec, folder, notify)
        model = folders.load_model(folder, spec.family, depth)
    except EncoderError as error:
        if not weights.discard(spec, folder):
            raise
        notify(Notice("weights-again", error=error))
        folder = weights.fetch(spec, notify=notify)
        require_intact(spec, folder, notify)
        model = folders.load_model(folder, spec.family, depth)
    return TorchEngine(TokenModel(model, spec.family, settings), device)


def choose_device(name: str) -> torch.device:
    """auto takes CUDA, then MPS, then the CPU."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(device for device, found in available.items() if found)
    if not available.get(name.partition(":")[0], False):
        present = [device for device, found in available.items() if found]
        raise UsageError("device-unavailable", device=name, available=present)
    return torch.device(name)


def choose_engine(name: str, device: torch.device) -> str:
    """auto takes OpenVINO on the CPU where it is installed, otherwise torch."""
    installed = importlib.util.find_spec("openvino") is not None
    if name == "auto":
        return "openvino" if installed and device.type == "cpu" else "torch"
    if name != "torch" and device.type != "cpu":
        raise UsageError("engine-with-device", engine=name, device=str(device))
    if name != "torch" and not installed:
        extra = "int8" if precision_of(name) == INT8 else "openvino"
        raise UsageError("engine-not-installed", engine=name, extra=extra)
    return name


def use_threads(count: int | None) -> None:
    """Limits the CPU threads of torch, and with it those of every engine that is loaded later."""
    if count is None:
        return
    limit = max(64, 4 * (os.cpu_count() or 1))  # each thread takes memory, and more do not help
    if not 1 <= count <= limit:
        raise UsageError("threads-range", given=count, limit=limit)
    torch.set_num_threads(count)


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
