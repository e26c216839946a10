"""Writes a detector as a graph, with its card and the code that prepares its input beside it."""

import contextlib
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from ..detector.detector import HyperFSAD
from ..detector.protocols import Detector
from ..disk.files import atomic_folder, file_sha256
from ..encoders import EncoderSettings
from ..encoders.encoder import Tokens, torch_engine
from ..encoders.engines import TokenEngine, constant_positions
from ..encoders.folders import quiet_transformers
from ..encoders.quantisation import Quantised, load_quantised
from ..encoders.runtime import FULL, INT8, engine_in, import_openvino, last_line, precision_in
from ..errors import DetectorFileError, HyperfsadError, UsageError
from ..messages import Notify, silent
from ..version import __version__
from ..views.whole import WholeView
from . import preprocess
from .card import CARD, CARD_FORMAT, GRAPHS
from .graph import Graph, ScoringGraph
from .runtime import ExportedModel

OPSET = 18
GRAPH_TOLERANCE = 1e-4
"""How far scores and maps may be from the detector's."""
INT8_TOLERANCE = 0.1
"""The same for an encoder of 8 bits, where the last bit of a float decides between two steps; on
real parts 0.026 was seen (docs/export.md)."""
MAX_GRAPH_BYTES = 1_900_000_000
"""Bytes of constants: a file of ONNX holds 2 GB."""


def export(
    detector: Detector,
    target: Path,
    kind: str,
    notify: Notify = silent,
    *,
    precision: str | None = None,
) -> dict[str, Any]:
    """Writes the folder of an exported model and returns its card.

    A precision that is not the detector's own is refused.
    """
    if kind not in GRAPHS:
        raise UsageError("export-kind", given=kind, known=" or ".join(GRAPHS))
    if target.exists():
        raise UsageError("export-exists", folder=target)
    single, view = require_exportable(detector)
    settings, header = single.encoding_, single.part().header
    own = precision_in(header["encoder"]["fingerprint"])
    _require_precision(own, precision, kind)
    scoring = ScoringGraph(view, single.levels()).eval()
    engine: TokenEngine
    if single.quantised_ is None:
        exact = engine = torch_engine(settings, torch.device("cpu"), notify)
        if engine.fingerprint != header["encoder"]["fingerprint"]:
            raise DetectorFileError("export-other-weights", encoder=settings.name)
        graph = Graph(exact.model, scoring).eval()
        _require_room(graph)
        write = partial(_write_graph, graph, kind)
    else:
        quantised = single.quantised_
        engine = load_quantised(quantised, settings.resolution, False)
        _require_room(scoring)
        write = partial(_write_joined, scoring, quantised, settings, engine.width)
    with atomic_folder(target) as folder:
        write(folder)
        code = Path(preprocess.__file__).read_text(encoding="utf-8")
        (folder / "preprocess.py").write_text(code, encoding="utf-8")
        card = _card(single, scoring, header, folder, kind)
        _write_card(folder, card)
        tolerance = GRAPH_TOLERANCE if own == FULL else INT8_TOLERANCE
        card["checked"] = _checked(ExportedModel(folder), engine, view, tolerance)
        _write_card(folder, card)
    return card


def _require_precision(own: str, asked: str | None, kind: str) -> None:
    """Refuses what would not be the detector that was fitted."""
    if asked not in (None, own):
        raise UsageError("export-precision", own=own, engine=engine_in(asked))
    if own not in (FULL, INT8):
        raise UsageError("export-half-precision", own=own)
    if own == INT8 and kind != "openvino":
        raise UsageError("export-int8-kind", kind=kind)


def require_exportable(detector: Detector) -> tuple[HyperFSAD, WholeView]:
    """Refuses what a graph cannot hold, in one sentence."""
    detector.require_fitted()
    detector.check("export")
    single = cast(HyperFSAD, detector)  # which alone passes that check
    view = single.view_
    assert isinstance(view, WholeView)
    if len({len(entries) for entries in view.bank.entries}) != 1:
        raise UsageError("export-uneven-orientations")
    cpu = torch.device("cpu")
    return single, view if view.bank.cls.device == cpu else view.fitted(view.bank.to(cpu))


def _require_room(graph: "Graph | ScoringGraph") -> None:
    tensors = [*graph.parameters(), *graph.buffers()]
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if size > MAX_GRAPH_BYTES:
        raise UsageError("export-too-large", gigabytes=size / 1e9, most=MAX_GRAPH_BYTES / 1e9)


def _write_graph(graph: Graph, kind: str, folder: Path) -> None:
    side = graph.model.settings.resolution
    pixels = torch.zeros(2, side, side, 3, dtype=torch.uint8)  # one would be taken for a constant
    onnx = folder / GRAPHS["onnx"]
    with _exporting(), constant_positions(graph.model):
        graph.model(torch.zeros(1, 3, side, side))  # from here on, positions are constants
        _write_onnx(graph, {"pixels": pixels}, graph.scoring.outputs, onnx)
        if kind == "openvino":
            # what `openvino.convert_model` does too; but that one sends telemetry
            _save(_core().read_model(onnx), folder)
            onnx.unlink()


def _write_joined(
    scoring: ScoringGraph, quantised: Quantised, settings: EncoderSettings, width: int, folder: Path
) -> None:
    """The quantised encoder of a detector, and all that follows it in float32."""
    onnx, layers = folder / GRAPHS["onnx"], len(settings.layers)
    tokens = {
        "patches": torch.nn.functional.normalize(torch.ones(2, layers, settings.grid**2, width)),
        "cls": torch.nn.functional.normalize(torch.ones(2, layers, width)),
    }
    with _exporting():
        _write_onnx(scoring, tokens, scoring.outputs, onnx)
        core = _core()
        _save(_joined(quantised.model(core), core.read_model(onnx), settings), folder)
        onnx.unlink()


def _joined(encoder: Any, scoring: Any, settings: EncoderSettings) -> Any:
    """The graph of a whole detector, in place of both.

    The encoder goes from (images, 3, side, side) to patch and CLS tokens, and `scoring` goes on
    from inputs of these names.
    """
    openvino = import_openvino()
    from openvino import opset13 as ops

    pixels = ops.parameter([-1, settings.resolution, settings.resolution, 3], np.uint8, "pixels")
    pixels.output(0).set_names({"pixels"})
    values = ops.divide(ops.convert(pixels, "f32"), np.float32(255))
    values = ops.subtract(values, np.asarray(settings.mean, dtype=np.float32))
    values = ops.divide(values, np.asarray(settings.std, dtype=np.float32))
    values = ops.transpose(values, np.array([0, 3, 1, 2]))
    encoder.get_parameters()[0].output(0).replace(values.output(0))
    places = {"patches": 0, "cls": 1}
    for parameter in scoring.get_parameters():
        tokens = encoder.get_results()[places[parameter.get_friendly_name()]]
        parameter.output(0).replace(tokens.input_value(0))
    return openvino.Model(scoring.get_results(), [pixels], "hyperfsad")


@contextlib.contextmanager
def _exporting() -> Iterator[None]:
    try:
        with torch.no_grad(), quiet_transformers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of branches on shapes, which are fixed here
            yield
    except (RuntimeError, torch.onnx.OnnxExporterError) as error:
        raise HyperfsadError("export-failed", reason=last_line(error)) from error


def _write_onnx(
    module: torch.nn.Module, inputs: dict[str, torch.Tensor], outputs: list[str], path: Path
) -> None:
    alone = ("threshold", "map_threshold")
    torch.onnx.export(
        module,
        tuple(inputs.values()),
        path,
        dynamo=False,  # the other exporter needs another package
        opset_version=OPSET,
        input_names=list(inputs),
        output_names=outputs,
        dynamic_axes={name: {0: "images"} for name in (*inputs, *outputs) if name not in alone},
        do_constant_folding=False,  # it would keep the memory twice, once turned
    )


def _core() -> Any:
    core = import_openvino().Core()
    core.set_property({"ENABLE_MMAP": False})
    return core


def _save(model: Any, folder: Path) -> None:
    import_openvino().save_model(model, folder / GRAPHS["openvino"], compress_to_fp16=False)


def _card(
    detector: HyperFSAD, scoring: ScoringGraph, header: dict[str, Any], folder: Path, kind: str
) -> dict[str, Any]:
    settings, levels, view = detector.encoding_, detector.levels(), detector.view_
    assert isinstance(view, WholeView)
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
            "shape": ["images", settings.resolution, settings.resolution, 3],
            "side": settings.resolution,
            "resize": "upright (EXIF), RGB, squashed to the square by Pillow's bicubic filter;"
            " preprocess.py does it",
        },
        "outputs": scoring.outputs,
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
        "precision": precision_in(header["encoder"]["fingerprint"]),
        "recipe": detector.settings.recipe,
        "method": {
            name: header["settings"][name]
            for name in ("lookup", "sharpness", "smooth", "pooling", "lam", "missing")
        }
        | {name: header[name] for name in ("rotations", "tentative")},
        "normal_images": [asdict(image) for image in detector.support_],
        "identity": detector.identity(),
    }


def _write_card(folder: Path, card: dict[str, Any]) -> None:
    text = json.dumps(card, indent=2, ensure_ascii=False)
    (folder / CARD).write_text(text + "\n", encoding="utf-8")


def _checked(
    model: ExportedModel, engine: TokenEngine, view: WholeView, tolerance: float
) -> dict[str, float]:
    """How far the model is from the detector on a picture of noise; too far is refused."""
    side = model.card.side
    pixels = np.random.default_rng(0).integers(0, 256, (1, side, side, 3), dtype=np.uint8)
    (expected,) = view.score_tokens(Tokens(*engine.tokens(_normalised(pixels, view))))
    found = model(pixels)
    off = {
        "score": abs(float(found["score"][0]) - expected.score),
        "map": float(np.abs(found["map"][0] - expected.anomaly_map).max()),
    }
    if not max(off.values()) <= tolerance:
        raise HyperfsadError("export-differs", by=max(off.values()), most=tolerance)
    return off


def _normalised(pixels: NDArray[np.uint8], view: WholeView) -> NDArray[np.float32]:
    settings = view.rules.settings
    centred = pixels.astype(np.float32) / 255 - np.asarray(settings.mean, dtype=np.float32)
    values = centred / np.asarray(settings.std, dtype=np.float32)
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2))
