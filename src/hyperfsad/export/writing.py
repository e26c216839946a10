"""Writes a detector as a graph, with its card and the code that prepares its input beside it."""

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..detector.detector import HyperFSAD
from ..detector.protocols import Detector
from ..disk.files import atomic_folder, file_sha256, locked_file
from ..encoders.encoder import Tokens, torch_engine
from ..encoders.engines import TorchEngine, constant_positions
from ..encoders.folders import quiet_transformers
from ..encoders.runtime import FULL, import_openvino, last_line, precision_in
from ..errors import DetectorFileError, HyperfsadError, UsageError
from ..images.loading import normalised
from ..messages import Notify, silent
from ..version import __version__
from ..views.whole import WholeView
from . import preprocess
from .exported import CARD, CARD_FORMAT, GRAPHS, ExportedModel
from .graph import THRESHOLD_OUTPUTS, Graph

OPSET = 18
GRAPH_TOLERANCE = 1e-4
"""How far scores and maps may be from the detector's."""
MAX_GRAPH_BYTES = 1_900_000_000
"""Bytes of constants: a file of ONNX holds 2 GB."""


def export(detector: Detector, target: Path, kind: str, notify: Notify = silent) -> dict[str, Any]:
    """Writes the folder of an exported model and returns its card."""
    if kind not in GRAPHS:
        raise UsageError("export-kind", given=kind, known=" or ".join(GRAPHS))
    if target.exists():
        raise UsageError("export-exists", folder=target)
    single, view = require_exportable(detector)
    settings, fingerprint = single.encoding_, single.part().header["encoder"]["fingerprint"]
    if precision_in(fingerprint) != FULL:
        raise UsageError("export-precision", own=precision_in(fingerprint))
    engine = torch_engine(settings, torch.device("cpu"), notify)
    if engine.fingerprint != fingerprint:
        raise DetectorFileError("export-other-weights", encoder=settings.name)
    graph = Graph(engine.model, view, single.levels()).eval()
    size = sum(
        each.numel() * each.element_size() for each in [*graph.parameters(), *graph.buffers()]
    )
    if size > MAX_GRAPH_BYTES:
        raise UsageError("export-too-large", gigabytes=size / 1e9, most=MAX_GRAPH_BYTES / 1e9)
    with locked_file(target), atomic_folder(target) as folder:
        _write_graph(graph, kind, folder)
        code = Path(preprocess.__file__).read_text(encoding="utf-8")
        (folder / "preprocess.py").write_text(code, encoding="utf-8")
        card = _card(single, view, graph.outputs, folder, kind)
        _write_card(folder, card)
        card["checked"] = _deviation(ExportedModel(folder), engine, view)
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
    cpu = torch.device("cpu")
    return detector, view if view.bank.cls.device == cpu else view.fitted(view.bank.to(cpu))


def _write_graph(graph: Graph, kind: str, folder: Path) -> None:
    side = graph.model.settings.resolution
    onnx, outputs = folder / GRAPHS["onnx"], graph.outputs
    each_image = {"pixels", *outputs} - {*THRESHOLD_OUTPUTS.values()}
    try:
        with (
            torch.no_grad(),
            quiet_transformers(),
            constant_positions(graph.model),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # of branches on shapes, which are fixed here
            graph.model(torch.zeros(1, 3, side, side))  # from here on, positions are constants
            torch.onnx.export(
                graph,
                # one image would be taken for a constant
                (torch.zeros(2, side, side, 3, dtype=torch.uint8),),
                onnx,
                dynamo=False,  # the other exporter needs another package
                opset_version=OPSET,
                input_names=["pixels"],
                output_names=outputs,
                dynamic_axes={name: {0: "images"} for name in each_image},
                do_constant_folding=False,  # it would keep the memory twice, once turned
            )
        if kind == "openvino":
            # what `openvino.convert_model` does too; but that one sends telemetry
            openvino = import_openvino()
            core = openvino.Core()
            core.set_property({"ENABLE_MMAP": False})
            model = core.read_model(onnx)
            openvino.save_model(model, folder / GRAPHS["openvino"], compress_to_fp16=False)
            onnx.unlink()
    except (RuntimeError, torch.onnx.OnnxExporterError) as error:
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


def _deviation(model: ExportedModel, engine: TorchEngine, view: WholeView) -> dict[str, float]:
    """How far the model is from the detector on a picture of noise; too far is refused."""
    side, settings = model.card.side, view.rules.settings
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    seen = normalised(pixels.astype(np.float32), settings.mean, settings.std)
    (expected,) = view.score_tokens(Tokens(*engine.tokens(seen[None])))
    found = model(pixels[None])
    off = {
        "score": abs(float(found["score"][0]) - expected.score),
        "map": float(np.abs(found["map"][0] - expected.anomaly_map).max()),
    }
    if not max(off.values()) <= GRAPH_TOLERANCE:
        raise HyperfsadError("export-differs", by=max(off.values()), most=GRAPH_TOLERANCE)
    return off
