"""What a detector file says of a detector beside its memory bank, and the detector made of it."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from PIL import Image

from ..decisions.region_of_interest import AUTO_ROI, FixedRegion
from ..decisions.roi import Roi
from ..decisions.thresholds import Calibration
from ..encoders.runtime import INT8, engine_for, precision_in
from ..errors import DetectorFileError, UsageError, first_line
from ..method.coreset import COMPACT, EXACT, Coreset
from ..method.memory import MemoryBank
from . import storage
from .orientation import AUTO as AUTO_ROTATIONS
from .recipes import PAPER, PAPER_OFFLINE, stored_recipe

Detector: TypeAlias = Any
"""A HyperFSAD, which imports this module."""

LATER = {"smooth": False, "missing": 0.0, "tentative": False, "compact": None}
"""What earlier versions did not write, as it was for them."""


def header_of(detector: Detector) -> dict[str, Any]:
    """All that a file says of a detector beside the memory bank."""
    fingerprint = detector._fingerprint or detector.encoder_.fingerprint
    calibration, core = detector.calibration_, detector.core_
    return {
        "encoder": {**asdict(detector.settings), "fingerprint": fingerprint},
        "recipe": detector.recipe,
        "lookup": detector.lookup,
        "sharpness": detector.sharpness,
        "smooth": detector.smooth,
        "pooling": detector.pooling,
        "lambda": detector.lam,
        "missing": detector.missing,
        "rotations": detector.rotations_,
        "tentative": detector.tentative_,
        "roi": detector.view_.region.described(),
        "tiles": detector.view_.described(),
        "compact": None if core is None else {"kept": int(core.kept.sum()), "radius": core.radius},
        "scale": list(detector.scale_),
        "threshold": detector.threshold_,
        "map_threshold": detector.map_threshold_,
        "foreign": detector.foreign_,
        "calibration": None if calibration is None else calibration.to_dict(),
    }


def identity_of(detector: Detector) -> str:
    """A hash of all that its scores depend on, as earlier versions have it in their journals."""
    header = detector.header()
    del header["foreign"]  # which no score depends on
    name = detector.recipe
    header["recipe"] = {PAPER_OFFLINE: PAPER}.get(name, name)
    header = {key: value for key, value in header.items() if LATER.get(key, ...) != value}
    if not detector.settings.last_norm:
        del header["encoder"]["last_norm"]
    images = [image.sha256 for image in detector.memory_.normal_images]
    text = json.dumps([header, images], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def restored(
    cls: type[Detector],
    bank: MemoryBank,
    header: dict[str, Any],
    path: str,
    backbone: str | None,
    machine: dict[str, Any],
    prefix: str = "",
) -> Detector:
    """A detector from its memory bank and what `header` said of it; `path` names the file, in which
    its further tensors have names that begin with a prefix."""
    try:
        settings, fingerprint = storage.stored_encoder(header, path, backbone)
        engine = engine_for(machine.get("engine", "auto"), fingerprint, path)
        tiles, roi, compact = (header.get(name) for name in ("tiles", "roi", "compact"))
        rotations, tentative = header.get("rotations", 1), header.get("tentative", False)
        detector = cls(
            settings.name,
            recipe=stored_recipe(header.get("recipe"), settings.name),
            layers=settings.layers,
            resolution=settings.resolution,
            lookup=header["lookup"],
            sharpness=header.get("sharpness", 1.0),
            smooth=header.get("smooth", False),
            pooling=header["pooling"],
            lam=header["lambda"],
            missing=header.get("missing", 0.0),
            rotations=AUTO_ROTATIONS if tentative else rotations,
            roi=AUTO_ROI if roi == AUTO_ROI else None,
            tiles=None if tiles is None else tiles["side"],
            memory=COMPACT if compact else EXACT,
            **{**machine, "engine": engine},
        )
        if precision_in(fingerprint) == INT8:
            from .quantised import read_quantised

            detector.quantised_ = read_quantised(path, header, prefix)
        if detector.settings.patch != settings.patch:
            raise ValueError(f"its encoder has patches of {detector.settings.patch}")
        detector.rotations_, detector.tentative_ = rotations, tentative
        if isinstance(roi, dict):
            mask = storage.read_tensor(Path(path), header, "roi")
            detector.roi = Image.fromarray(mask.numpy() * 255)
            detector.view_.region = FixedRegion(Roi.stored(mask, roi))
        low, high = header["scale"]
        detector.threshold_ = header["threshold"]
        detector.map_threshold_ = header.get("map_threshold")  # format 1 has none
        detector.foreign_ = header.get("foreign")
        stored = header.get("calibration")
        detector.calibration_ = None if stored is None else Calibration.from_dict(stored)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UsageError | DetectorFileError):
            raise
        raise DetectorFileError(f"{path} is damaged: {first_line(error)}.") from error
    detector.settings = settings
    detector.remember(bank)
    if compact:
        kept = storage.read_tensor(Path(path), header, "core").bool()
        detector.core_ = Coreset(kept, compact["radius"])
        detector.learn()
    detector._scale = (low, high)
    detector._fingerprint = fingerprint
    return detector
