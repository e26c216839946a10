"""The detectors that the engine's thread has in memory."""

import copy
from collections import OrderedDict
from pathlib import Path
from typing import Any

from ..detector.detector import HyperFSAD
from ..detector.file import open_file
from ..detector.settings import Settings
from ..encoders import REGISTRY, EncoderSettings, find_spec
from ..encoders.encoder import Encoder
from ..encoders.runtime import cached_folder, engine_in, precision_in
from ..errors import UsageError

MAX_DETECTORS = 8
"""In memory; a memory bank of four parts takes some 20 MB."""


class Detectors:
    """Detectors by their files; none is ever changed in place.

    A detector file is named by its hash, so a product that has changed has another file.
    """

    def __init__(self, settings: Settings) -> None:
        """`settings` are those of new products; its choices of the machine hold for all."""
        self._settings = settings
        self._unfitted: HyperFSAD | None = None
        self._loaded: OrderedDict[Path, HyperFSAD] = OrderedDict()
        self._encoders: list[tuple[EncoderSettings, Encoder]] = []

    @property
    def unfitted(self) -> HyperFSAD:
        """What new products are made of; its encoder is loaded."""
        if self._unfitted is None:
            made = HyperFSAD(settings=self._settings)
            self._share_encoder(made)
            self._unfitted = made
        return self._unfitted

    def get(self, path: Path) -> HyperFSAD:
        """The detector of a file; the one that was used longest ago makes room for it."""
        if path not in self._loaded:
            self._loaded[path] = self.load(path)
        self._loaded.move_to_end(path)
        while len(self._loaded) > MAX_DETECTORS:
            self._loaded.popitem(last=False)
        return self._loaded[path]

    def copy(self, path: Path) -> HyperFSAD:
        """A copy of the detector of a file, to change."""
        return copy.deepcopy(self.get(path))

    def load(self, path: Path) -> HyperFSAD:
        """Reads a detector file through its checks.

        The place of an encoder that a file names is never opened: a file may come from a
        stranger. The encoder is one that this machine has, or the station's own.
        """
        opened = open_file(path)
        encoder = opened.first["encoder"]
        name, own = encoder["name"], self.unfitted.encoding_.name
        made = precision_in(encoder["fingerprint"])
        here = self._settings.precision
        if made != here:  # one encoder serves all, and a graph of 8 bits is a stranger's
            engine = engine_in(here)
            raise UsageError("detector-precision", made=made, station=here, engine=engine)
        machine: dict[str, Any] = {
            choice: getattr(self._settings, choice) for choice in ("device", "engine", "batch_size")
        }
        if name not in REGISTRY:
            if own in REGISTRY:
                raise UsageError("detector-encoder-folder", encoder=own)
            machine["backbone"] = own
        elif name != own and cached_folder(find_spec(name)) is None:
            raise UsageError("detector-encoder-missing", encoder=name)
        found = HyperFSAD.load(opened, **machine)
        self._share_encoder(found)
        return found

    def _share_encoder(self, detector: HyperFSAD) -> None:
        """One encoder for all detectors of the same settings."""
        for settings, encoder in self._encoders:
            if settings == detector.encoding_ and not encoder.is_broken:
                detector.use_encoder(encoder)
                return
        self._encoders.append((detector.encoding_, detector.encoder_))
