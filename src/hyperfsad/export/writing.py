"""Writes a detector as a graph, with its card and the code that prepares its input beside it."""

import json
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import is_numpy, to_numpy
from ..detector.detector import HyperFSAD
from ..detector.protocols import Detector
from ..disk.files import atomic_folder, file_sha256, locked_file
from ..encoders.encoder import Encoder, load_encoder
from ..encoders.openvino import load_tower
from ..encoders.runtime import last_line, precision_in, weights_in
from ..encoders.specs import FULL
from ..errors import DetectorFileError, HyperfsadError, UsageError
from ..images.loading import normalised
from ..messages import Notice, Notify, log
from ..version import __version__
from ..views.whole import WholeView
from . import preprocess
from .exported import CARD, CARD_FORMAT, GRAPHS, RUNTIMES, ExportedModel
from .graph import Graph
from .onnx import write_onnx
from .openvino import drawn, write_openvino

GRAPH_TOLERANCE = 1e-4
"""How far scores and maps may be from the detector's."""
MAX_GRAPH_BYTES = 1_900_000_000
"""Bytes of constants: a file of ONNX holds 2 GB."""


def export(detector: Detector, target: Path, kind: str, notify: Notify = log) -> dict[str, Any]:
    """Writes the folder of an exported model and returns its card."""
    if kind not in GRAPHS:
        raise UsageError("export-kind", given=kind, known=" or ".join(GRAPHS))
    if target.exists():
        raise UsageError("export-exists", folder=target)
    if find_spec(RUNTIMES[kind]) is None:  # what is written is run once
        raise UsageError("runtime-missing", folder=target, package=RUNTIMES[kind])
    single, view = require_exportable(detector)
    settings, fingerprint = single.encoding_, single.part().header["encoder"]["fingerprint"]
    if precision_in(fingerprint) != FULL:
        notify(Notice("export-precision", made_in=precision_in(fingerprint)))
    encoder = load_encoder(settings, "cpu", notify, engine="openvino", precision=FULL)
    if encoder.fingerprint != weights_in(fingerprint):
        raise DetectorFileError("export-other-weights", encoder=settings.name)
    graph = Graph(view, single.levels())
    if graph.size > MAX_GRAPH_BYTES:
        raise UsageError("export-too-large", gigabytes=graph.size / 1e9, most=MAX_GRAPH_BYTES / 1e9)
    with locked_file(target), atomic_folder(target) as folder:
        _write_graph(drawn(load_tower(settings, notify), settings, graph), kind, folder)
        code = Path(preprocess.__file__).read_text(encoding="utf-8")
        (folder / "preprocess.py").write_text(code, encoding="utf-8")
        card = _card(single, view, graph.outputs, folder, kind)
        _write_card(folder, card)
        card["checked"] = _deviation(ExportedModel(folder), encoder, view)
        _write_card(folder, card)
    return card


def require_exportable(detector: Detector) -> tuple[HyperFSAD, WholeView]:
    """Refuses what a graph cannot hold, in one sentence."""
    detector.require_fitted()
    detector.check("export")
    assert isinstance(detector, HyperFSAD)  # which alone passes that check
    view = detector.view_
    assert isinstance(view, WholeView)
    if len({len(entries) for entries in view.bank.entries}) != 1:
        raise UsageError("export-uneven-orientations")
    bank = view.bank
    if not is_numpy(bank.cls):
        patches = tuple(map(to_numpy, bank.patches))
        view = view.fitted(replace(bank, patches=patches, cls=to_numpy(bank.cls)))
    return detector, view


def _write_graph(model: Any, kind: str, folder: Path) -> None:
    write = {"onnx": write_onnx, "openvino": write_openvino}[kind]
    try:
        write(model, folder / GRAPHS[kind])
    except RuntimeError as error:
        raise HyperfsadError("export-failed", reason=last_line(error)) from error


def _card(
    detector: HyperFSAD, view: WholeView, outputs: list[str], folder: Path, kind: str
) -> dict[str, Any]:
    settings, levels, header = detector.encoding_, detector.levels(), detector.part().header
    side = settings.resolution
    method = ("lookup", "sharpness", "smooth", "pooling", "lam", "missing")
    return {
        "format": CARD_FORMAT,
        "hyperfsad": __version__,
        "kind": kind,
        "files": {
            path.name: {"sha256": file_sha256(path), "bytes": path.stat().st_size}
            for path in sorted(folder.iterdir())
        },
        "input": {
            "name": "pixels",
            "type": "uint8",
            "shape": ["images", side, side, 3],
            "side": side,
            "resize": "upright (EXIF), RGB, squashed to the square by Pillow's bicubic filter;"
            " preprocess.py does it",
        },
        "outputs": outputs,
        "grid": settings.grid,
        "branches": dict(view.scoring.weights),
        "levels": {
            "threshold": levels.threshold,
            "map_threshold": levels.map_threshold,
            "threshold_from": levels.threshold_from,
            "calibration": header["calibration"],
            "foreign": levels.foreign,
            "scale": list(levels.scale),
        },
        "encoder": header["encoder"],
        "recipe": detector.settings.recipe,
        "method": {name: header["settings"][name] for name in method}
        | {name: header[name] for name in ("rotations", "tentative")},
        "normal_images": [asdict(image) for image in detector.support_],
        "identity": detector.identity(),
    }


def _write_card(folder: Path, card: dict[str, Any]) -> None:
    text = json.dumps(card, indent=2, ensure_ascii=False)
    (folder / CARD).write_text(text + "\n", encoding="utf-8")


def _deviation(model: ExportedModel, encoder: Encoder, view: WholeView) -> dict[str, float]:
    """How far the model is from the detector on a picture of noise; too far is refused."""
    side, settings = model.card.side, view.rules.settings
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    seen = normalised(pixels.astype(np.float32), settings.mean, settings.std)
    (expected,) = view.score_tokens(encoder.encode_prepared([seen]))
    found = model(pixels[None])
    off = {
        "score": abs(float(found["score"][0]) - expected.score),
        "map": float(np.abs(found["map"][0] - expected.anomaly_map).max()),
    }
    if not max(off.values()) <= GRAPH_TOLERANCE:
        raise HyperfsadError("export-differs", by=max(off.values()), most=GRAPH_TOLERANCE)
    return off
