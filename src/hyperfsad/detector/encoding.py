"""A memory bank and the encoder that made it: what every few-shot detector on frozen tokens holds,
and how its settings let it see images.

The encoder is loaded when it is first needed, may be shared by several detectors, and is never
another one than that which made the bank.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from array_api_compat import device as device_of

from ..decisions.roi import RegionOfInterest
from ..encoders import EncoderSettings
from ..encoders.encoder import Encoder, load_encoder
from ..encoders.runtime import precision_in, weights_in
from ..errors import DetectorFileError, UsageError
from ..images.geometry import rotated_copies
from ..images.loading import LoadedImage
from ..images.reading import READ_AHEAD
from ..messages import Notice, Notify, debug, log
from ..method.matching import Comparison
from ..method.memory import MemoryBank
from ..method.scoring import ImageScoring, Pooling, branch_weights
from ..views import PlainView, TiledView, View, ViewSettings, WholeView
from .settings import Settings

Orientations: TypeAlias = Callable[[LoadedImage], list[LoadedImage]]
"""What is remembered of a normal image: itself first, and perhaps rotated copies."""


@dataclass
class EncodedMemory:
    """The tokens of good parts, and what encodes other images for them."""

    settings: EncoderSettings
    device: str
    engine: str
    precision: str
    notify: Notify = log
    bank: MemoryBank | None = None
    stored_fingerprint: str | None = None
    """Of the encoder that made the bank, where it came from a file or another process."""
    _encoder: Encoder | None = None

    @property
    def known(self) -> MemoryBank:
        """The memory bank, which must be there."""
        if self.bank is None:
            raise UsageError("detector-not-fitted")
        return self.bank

    @property
    def encoder(self) -> Encoder:
        """The encoder, loaded when it is first needed, and again where a fork has broken it."""
        if self._encoder is None or self._encoder.is_broken:
            made_in = self.stored_fingerprint and precision_in(self.stored_fingerprint)
            found = load_encoder(
                self.settings,
                self.device,
                self.notify,
                engine=self.engine,
                precision=self.precision,
                made_in=made_in,
            )
            self.use(found)
            assert self._encoder is not None
        return self._encoder

    @property
    def fingerprint(self) -> str:
        """Of the encoder that made the bank."""
        return self.stored_fingerprint or self.encoder.fingerprint

    def use(self, encoder: Encoder) -> bool:
        """Takes an encoder that was loaded elsewhere with the same settings; says if it is new."""
        if self._encoder is encoder:
            return False
        expected, bank = self.stored_fingerprint, self.bank
        if expected is None and self._encoder is not None and bank is not None:
            expected = self._encoder.fingerprint
        if expected is not None:
            self._compare(expected, encoder.fingerprint)
        if bank is not None and bank.cls.shape[-1] != encoder.width:
            width, name = bank.cls.shape[-1], self.settings.name
            raise DetectorFileError(
                "token-width-differs", width=width, encoder=name, expected=encoder.width
            )
        self._encoder = encoder
        side = self.settings.resolution
        debug(f"encoder {self.settings.name}, {side} px, {encoder.engine} on {encoder.device}")
        if bank is not None and place_of(bank) not in (encoder.tokens_on, f"{encoder.tokens_on}:0"):
            self.bank = bank.to(encoder.tokens_on)
        return True

    def _compare(self, expected: str, found: str) -> None:
        """Refuses an encoder that did not make the memory; another precision is only told."""
        if weights_in(expected) != weights_in(found):
            raise DetectorFileError("encoder-weights", encoder=self.settings.name)
        made_in, here = precision_in(expected), precision_in(found)
        if made_in != here:
            self.notify(Notice("precision-differs", made_in=made_in, here=here))

    def keep(self, bank: MemoryBank) -> None:
        """Takes a memory bank that was made elsewhere with the same encoder and settings."""
        self.bank = bank if self._encoder is None else bank.to(self._encoder.tokens_on)

    def see(self, settings: EncoderSettings) -> None:
        """Encodes with other settings from here on; tokens of another grid are dropped."""
        if self._encoder is not None and self._encoder.settings.grid != settings.grid:
            self._encoder, self.bank = None, None
        self.settings = settings

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: tokens and settings. Where it arrives, the encoder is loaded again, and
        must have the same weights; messages go nowhere until `notify` is set."""
        state = {**vars(self), "notify": log, "_encoder": None}
        if self._encoder is not None:
            state["stored_fingerprint"] = self._encoder.fingerprint
        if self.bank is not None:
            state["bank"] = self.bank.to("cpu")
        return state

    def __copy__(self) -> "EncodedMemory":
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "EncodedMemory":
        """Tokens of its own; the encoder, which never changes, is shared."""
        return replace(self, bank=deepcopy(self.bank, memo))


def place_of(bank: MemoryBank) -> str:
    """The device on which the tokens of a bank lie."""
    return str(device_of(bank.cls))


def make_view(
    settings: Settings,
    encoding: EncoderSettings,
    tile_side: int | None,
    rotations: int,
    tentative: bool,
    region: RegionOfInterest,
) -> View:
    """Sees images whole, or in tiles: this alone asks which."""
    rules = ViewSettings(
        encoding,
        Comparison(encoding.grid, settings.lookup, settings.sharpness, settings.smooth),
        ImageScoring(
            Pooling.parse(settings.pooling), branch_weights(settings.lam, settings.missing)
        ),
        rotations,
        tentative,
        settings.batch_size,
    )
    return WholeView(rules, region) if tile_side is None else TiledView(rules, tile_side)


def batch_of(view: PlainView, encoder: Encoder, batch_size: int | None) -> int:
    """Images that are encoded at once; of several large pictures memory would run out."""
    return 1 if view.needs_pictures else batch_size or encoder.usual_batch


def read_ahead_of(view: PlainView) -> int:
    """Images that are read before they are needed."""
    return 1 if view.needs_pictures else READ_AHEAD


def orientations_of(encoding: EncoderSettings, rotations: int) -> Orientations:
    """A normal image in all orientations that are remembered, itself first."""
    return lambda image: rotated_copies(image, rotations, 2 * encoding.resolution)
