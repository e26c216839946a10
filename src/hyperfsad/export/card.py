"""`model.json`, the card of an exported model: all that its graph cannot say of itself."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..decisions.thresholds import Calibration
from ..detector.pipeline import Levels
from ..disk.files import file_sha256, open_regular
from ..errors import DetectorFileError, first_line, reason
from ..images.loading import NormalImage

CARD = "model.json"
CARD_FORMAT = 1
MAX_CARD_BYTES = 64 << 20
"""Bytes of a card: no list of good parts is longer."""
GRAPHS = {"onnx": "model.onnx", "openvino": "model.xml"}
"""The kinds of models, and the file that holds the graph of each."""


@dataclass(frozen=True)
class Card:
    """What a card says, checked."""

    folder: Path
    kind: str
    side: int
    """Of the graph's square input, in pixels."""
    grid: int
    outputs: tuple[str, ...]
    """What comes out of the graph, in its order."""
    weights: Mapping[str, float]
    """Of the branches in the image score."""
    levels: Levels
    support: tuple[NormalImage, ...]
    identity: str
    """A hash of all that scores depend on: that of the detector which was exported."""
    details: Mapping[str, Any]
    """The card as it stands in the file."""

    @property
    def graph(self) -> Path:
        """The file of the graph."""
        return self.folder / GRAPHS[self.kind]


def read_card(folder: Path) -> Card:
    """The card of a folder; its files must be those that were exported."""
    path = folder / CARD
    try:
        with open_regular(path) as file:
            found = json.loads(file.read(MAX_CARD_BYTES))
    except OSError as error:
        raise DetectorFileError("card-unreadable", file=path, reason=reason(error)) from error
    except ValueError as error:
        raise DetectorFileError("card-damaged", file=path, reason=first_line(error)) from error
    try:
        if found["format"] > CARD_FORMAT:
            raise DetectorFileError(
                "card-newer", file=path, given=found["format"], known=CARD_FORMAT
            )
        card = _checked(folder, found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, DetectorFileError):
            raise
        raise DetectorFileError("card-damaged", file=path, reason=repr(error)) from error
    for name, entry in found["files"].items():
        _require_same(folder / Path(name).name, entry["sha256"])
    return card


def _checked(folder: Path, found: Mapping[str, Any]) -> Card:
    kind, side, grid = found["kind"], int(found["input"]["side"]), int(found["grid"])
    weights = {str(name): float(weight) for name, weight in found["branches"].items()}
    levels, low_high = found["levels"], [float(value) for value in found["levels"]["scale"]]
    stored = levels["calibration"]
    outputs = tuple(str(name) for name in found["outputs"])
    numbers = [*weights.values(), *low_high]
    if kind not in GRAPHS or GRAPHS[kind] not in found["files"] or not 1 <= grid <= side:
        raise ValueError("its graph is not one that hyperfsad writes")
    scores = {f"score_{name}" for name in weights} | {"score", "map"}
    if not scores <= set(outputs):
        raise ValueError("its outputs are not those that hyperfsad writes")
    if not {"map", "cls"} <= weights.keys() or not all(map(math.isfinite, numbers)):
        raise ValueError("its branches are not those that hyperfsad writes")
    return Card(
        folder,
        kind,
        side,
        grid,
        outputs,
        weights,
        Levels(
            _level(levels["threshold"]),
            _level(levels["map_threshold"]),
            levels["threshold_from"],
            None if stored is None else Calibration.from_dict(stored),
            _level(levels["foreign"]),
            (low_high[0], low_high[1]),
        ),
        tuple(
            NormalImage(str(one["name"]), str(one["sha256"]), tuple(one["size"] or ()) or None)
            for one in found["normal_images"]
        ),
        str(found["identity"]),
        found,
    )


def _level(value: Any) -> float | None:
    return None if value is None else float(value)


def _require_same(path: Path, sha256: str) -> None:
    try:
        found = file_sha256(path)
    except OSError as error:
        raise DetectorFileError("export-unreadable", file=path, reason=reason(error)) from error
    if found != sha256:
        raise DetectorFileError("export-changed", file=path, card=CARD)
