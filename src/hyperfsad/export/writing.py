"""Writes a detector as a graph, with its card and the code that prepares its input beside it."""

import contextlib
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

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
from .card import CARD, FORMAT, GRAPHS
from .graph import Graph, Judge
from .joining import joined
from .runtime import ExportedModel

OPSET = 18
TOLERANCE = 1e-4
"""How far scores and maps may be from the detector's."""
ROUGH = 0.1
"""The same for an encoder of 8 bits, where the last bit of a float decides between two steps; on
real parts 0.026 was seen (docs/export.md)."""
LARGEST = 1_900_000_000
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
        raise UsageError(f"A detector is exported to {' or '.join(GRAPHS)}, not to {kind!r}.")
    if target.exists():
        raise UsageError(f"{target} is there already; remove it or give another name.")
    single, view = require_exportable(detector)
    settings, header = single.encoding_, single.part().header
    own = precision_in(header["encoder"]["fingerprint"])
    _require_precision(own, precision, kind)
    judge = Judge(view, single.levels()).eval()
    engine: TokenEngine
    if single.quantised_ is None:
        exact = engine = torch_engine(settings, torch.device("cpu"), notify)
        if engine.fingerprint != header["encoder"]["fingerprint"]:
            raise DetectorFileError(
                f"This detector was made with other weights of {settings.name} than those on this"
                " machine; its scores would be wrong. Fit it again."
            )
        graph = Graph(exact.model, judge).eval()
        _require_room(graph)
        write = partial(_write_graph, graph, kind)
    else:
        quantised = single.quantised_
        engine = load_quantised(quantised, settings.resolution, False)
        _require_room(judge)
        write = partial(_write_joined, judge, quantised, settings, engine.width)
    with atomic_folder(target) as folder:
        write(folder)
        code = Path(preprocess.__file__).read_text(encoding="utf-8")
        (folder / "preprocess.py").write_text(code, encoding="utf-8")
        card = _card(single, judge, header, folder, kind)
        _write_card(folder, card)
        tolerance = TOLERANCE if own == FULL else ROUGH
        card["checked"] = _checked(ExportedModel(folder), engine, view, tolerance)
        _write_card(folder, card)
    return card


def _require_precision(own: str, asked: str | None, kind: str) -> None:
    """Refuses what would not be the detector that was fitted."""
    if asked not in (None, own):
        raise UsageError(
            f"This detector was fitted in {own}, and its memory and thresholds hold for that alone;"
            f" fit it with --engine {engine_in(asked)}, then export it."
        )
    if own not in (FULL, INT8):
        raise UsageError(
            f"A graph computes in one kind of floating number, and matching needs float32: {own} is"
            " for engines alone; export a detector that was fitted with openvino or openvino-int8."
        )
    if own == INT8 and kind != "openvino":
        raise UsageError(f"An encoder in int8 runs with OpenVINO, not with {kind}; take openvino.")


def require_exportable(detector: Detector) -> tuple[HyperFSAD, WholeView]:
    """Refuses what a graph cannot hold, in one sentence."""
    detector.require_fitted()
    detector.check("export")
    single = detector.products_[""]
    assert isinstance(single, HyperFSAD)  # which alone passes that check
    view = single.view_
    assert isinstance(view, WholeView)
    if len({len(entries) for entries in view.bank.entries}) != 1:
        raise UsageError(
            "The good parts of this detector are remembered in different numbers of orientations;"
            " fit it again."
        )
    cpu = torch.device("cpu")
    return single, view if view.bank.cls.device == cpu else view.fitted(view.bank.to(cpu))


def _require_room(graph: "Graph | Judge") -> None:
    tensors = [*graph.parameters(), *graph.buffers()]
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if size > LARGEST:
        raise UsageError(
            f"The model would have {size / 1e9:.1f} GB, and a graph holds"
            f" {LARGEST / 1e9:.1f}; fit a detector on fewer good parts or orientations."
        )


def _write_graph(graph: Graph, kind: str, folder: Path) -> None:
    side = graph.model.settings.resolution
    pixels = torch.zeros(2, side, side, 3, dtype=torch.uint8)  # one would be taken for a constant
    onnx = folder / GRAPHS["onnx"]
    with _exporting(), constant_positions(graph.model):
        graph.model(torch.zeros(1, 3, side, side))  # from here on, positions are constants
        _write_onnx(graph, {"pixels": pixels}, graph.judge.outputs, onnx)
        if kind == "openvino":
            # what `openvino.convert_model` does too; but that one sends telemetry
            _save(_core().read_model(onnx), folder)
            onnx.unlink()


def _write_joined(
    judge: Judge, quantised: Quantised, settings: EncoderSettings, width: int, folder: Path
) -> None:
    """The quantised encoder of a detector, and all that follows it in float32."""
    onnx, layers = folder / GRAPHS["onnx"], len(settings.layers)
    tokens = {
        "patches": torch.nn.functional.normalize(torch.ones(2, layers, settings.grid**2, width)),
        "cls": torch.nn.functional.normalize(torch.ones(2, layers, width)),
    }
    with _exporting():
        _write_onnx(judge, tokens, judge.outputs, onnx)
        core = _core()
        _save(joined(quantised.model(core), core.read_model(onnx), settings), folder)
        onnx.unlink()


@contextlib.contextmanager
def _exporting() -> Iterator[None]:
    try:
        with torch.no_grad(), quiet_transformers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of branches on shapes, which are fixed here
            yield
    except (RuntimeError, torch.onnx.OnnxExporterError) as error:
        raise HyperfsadError(f"The detector cannot be exported: {last_line(error)}.") from error


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
    detector: HyperFSAD, judge: Judge, header: dict[str, Any], folder: Path, kind: str
) -> dict[str, Any]:
    settings, levels, view = detector.encoding_, detector.levels(), detector.view_
    assert isinstance(view, WholeView)
    return {
        "format": FORMAT,
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
        "outputs": judge.outputs,
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
        raise HyperfsadError(
            f"The exported model is off by {max(off.values()):.1g} on this machine, where at most"
            f" {tolerance:g} is rounding; nothing was written."
        )
    return off


def _normalised(pixels: NDArray[np.uint8], view: WholeView) -> NDArray[np.float32]:
    settings = view.rules.settings
    centred = pixels.astype(np.float32) / 255 - np.asarray(settings.mean, dtype=np.float32)
    values = centred / np.asarray(settings.std, dtype=np.float32)
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2))
