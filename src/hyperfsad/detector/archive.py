"""A detector on disk: what is written of it, how it is read again, and what names it."""

import hashlib
import json
import os
from abc import abstractmethod
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image

from ..decisions.roi import AUTO, Roi, RoiSource
from ..decisions.thresholds import Calibration
from ..encoders import REGISTRY, EncoderSettings
from ..errors import DetectorFileError, UsageError
from ..messages import Notify, silent
from ..method.memory import MemoryBank
from ..views.tile_storage import replaced_files
from . import storage
from .base import FewShotDetector
from .recipes import stored_recipe

Self = TypeVar("Self", bound="ArchivedDetector")


class ArchivedDetector(FewShotDetector):
    """Writes all of itself but the encoder's weights into one file."""

    recipe: str
    lookup: str
    sharpness: float
    scales: tuple[int, ...]
    pooling: str
    lam: float
    rotations_: int
    roi: "RoiSource | None"
    roi_: Roi | None
    tile_side: int | None

    @property
    @abstractmethod
    def looks_for_parts(self) -> bool:
        """Whether the region of interest is found in each picture."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything but the encoder's weights into one file."""
        header, target = self._header(), Path(path)
        further = {} if self.roi_ is None else {"roi": self.roi_.tensor()}
        replaces_own = replaced_files(self.memory_.tiles, target)
        storage.write_detector(target, self.memory_, header, further)
        if replaces_own:  # from here on its tiles are read from the new file
            stored = storage.read_detector(target)[0].tiles
            self.memory_ = replace(self.memory_, tiles=stored)
            self.learn()

    def identity(self) -> str:
        """A hash of all that its scores depend on: equal detectors, equal results.

        Devices and engines are left out: they differ by rounding (below 1e-4 in a score), so a run
        may be resumed with another one. Results are the same bytes only with the same one.
        """
        header = self._header()
        images = [image.sha256 for image in self.memory_.normal_images]
        text = json.dumps([header, images], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _header(self) -> dict[str, Any]:
        """All that a file says of it beside the memory bank."""
        self._require_fitted()
        fingerprint = self._fingerprint or self.encoder_.fingerprint
        return {
            "encoder": {**asdict(self.settings), "fingerprint": fingerprint},
            "recipe": self.recipe,
            "lookup": self.lookup,
            "sharpness": self.sharpness,
            "scales": list(self.scales),
            "pooling": self.pooling,
            "lambda": self.lam,
            "rotations": self.rotations_,
            "roi": AUTO if self.looks_for_parts else self.roi_ and self.roi_.described(),
            "tiles": None if self.tile_side is None else {"side": self.tile_side},
            "scale": list(self.scale_),
            "threshold": self.threshold_,
            "map_threshold": self.map_threshold_,
            "calibration": self.calibration_.to_dict() if self.calibration_ else None,
        }

    @classmethod
    def load(
        cls: type[Self],
        path: str | os.PathLike[str],
        *,
        backbone: str | None = None,
        device: str = "auto",
        engine: str = "auto",
        batch_size: int | None = None,
        notify: Notify = silent,
    ) -> Self:
        """Reads a detector file; safe with files from strangers. Weights load at the first image.

        `backbone` names the encoder's folder where it lies elsewhere than on the machine that
        wrote the file; its weights must be the same.
        """
        bank, header = storage.read_detector(Path(path))
        return cls.restored(
            bank,
            header,
            os.fspath(path),
            backbone=backbone,
            device=device,
            engine=engine,
            batch_size=batch_size,
            notify=notify,
        )

    @classmethod
    def restored(
        cls: type[Self],
        bank: MemoryBank,
        header: dict[str, Any],
        path: str,
        *,
        backbone: str | None,
        **machine: Any,
    ) -> Self:
        """A detector from its memory bank and what `_header` said of it; `path` names the file."""
        try:
            settings, fingerprint = _encoder(header, path, backbone)
            tiles = header.get("tiles")
            make: Any = cls  # what a detector is made of, its own class knows
            detector: Self = make(
                settings.name,
                recipe=stored_recipe(header.get("recipe"), settings.name),
                layers=settings.layers,
                resolution=settings.resolution,
                lookup=header["lookup"],
                sharpness=header.get("sharpness", 1.0),
                scales=header.get("scales", (1,)),
                pooling=header["pooling"],
                lam=header["lambda"],
                rotations=int(header.get("rotations", 1)),
                roi=AUTO if header.get("roi") == AUTO else None,
                tiles=None if tiles is None else tiles["side"],
                **machine,
            )
            if isinstance(described := header.get("roi"), dict):
                mask = storage.read_further(Path(path), header, "roi")
                detector.roi_ = Roi.stored(mask, described)
                detector.roi = Image.fromarray(mask.numpy() * 255)
            low, high = map(float, header["scale"])
            detector.threshold_ = header["threshold"]
            level = header.get("map_threshold")  # detectors of before have none
            detector.map_threshold_ = None if level is None else float(level)
            lines = header.get("calibration")
            detector.calibration_ = None if lines is None else Calibration.from_dict(lines)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, UsageError):
                raise
            raise DetectorFileError(f"{path} is damaged: {error!r}.") from error
        detector.settings = settings
        detector.remember(bank)
        detector._scale = (low, high)
        detector._fingerprint = fingerprint
        return detector


def _encoder(
    header: dict[str, Any], path: str, backbone: str | None
) -> tuple[EncoderSettings, str]:
    """The settings of a detector's encoder, perhaps at another place, and its fingerprint."""
    stored = dict(header["encoder"])
    fingerprint = str(stored.pop("fingerprint"))
    if backbone is not None:
        if stored["name"] in REGISTRY and backbone != stored["name"]:
            raise UsageError(
                f"{path} was made with {stored['name']} and works with no other encoder;"
                " --backbone only names the place of a folder that moved."
            )
        stored["name"] = backbone
    for name in ("layers", "mean", "std"):
        stored[name] = tuple(stored[name])
    settings = EncoderSettings(**stored)
    if settings.name not in REGISTRY and not os.path.isdir(settings.name):
        raise UsageError(
            f"{path} needs the encoder folder {settings.name}, which is not there;"
            " give its place as backbone (--backbone FOLDER)."
        )
    return settings, fingerprint
