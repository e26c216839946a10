"""What people and programs want to know of a detector without loading it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..detector.detector import HyperFSAD

LISTED = 1000
"""Names of good parts that a product's summary holds."""


def summary_of(detector: HyperFSAD, notes: Sequence[str]) -> dict[str, Any]:
    """What people want to know of a detector."""
    calibration = detector.calibration_
    return {
        "good_parts": len(detector.support_),
        "threshold": detector.threshold_,
        "map_threshold": detector.map_threshold_,
        "threshold_from": detector.threshold_from_,
        **threshold_kind(detector),
        "false_alarm_rate": None if calibration is None else calibration.rate,
        "recipe": detector.settings.recipe,
        "encoder": _shown_encoder(detector.encoding_.name),
        "resolution": detector.encoding_.resolution,
        "rotations": detector.rotations_,
        "tiles": detector.tile_side_,
        "notes": list(notes),
        "images": [image.name for image in detector.support_[:LISTED]],
    }


def threshold_kind(detector: HyperFSAD) -> dict[str, Any]:
    """What `threshold_from` says, for programs: the method, how many parts had a say, staleness."""
    found = detector.calibration_
    if found is None or detector.threshold_ != found.threshold:
        method = None if detector.threshold_ is None else "hand"
        return {"threshold_method": method, "threshold_images": None, "threshold_stale": False}
    return {
        "threshold_method": found.method,
        "threshold_images": found.images,
        "threshold_stale": found.stale,
    }


def _shown_encoder(name: str) -> str:
    """A folder of this machine is nobody's business."""
    return Path(name).name
