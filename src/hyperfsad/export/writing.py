"""Writes a detector as a graph, with its card and the code that prepares its input beside it."""

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..detector.cascade import CascadeDetector
from ..detector.hyperfsad import HyperFSAD
from ..detector.products import ProductDetector
from ..disk.files import atomic_folder
from ..encoders.encoder import torch_engine
from ..encoders.engines import TorchEngine
from ..encoders.folders import quiet_transformers
from ..encoders.positions import constant_positions
from ..encoders.quiet_openvino import import_openvino, last_line
from ..encoders.tokens import Tokens
from ..errors import DetectorFileError, HyperfsadError, UsageError
from ..messages import Notify, silent
from ..version import __version__
from ..views.whole import WholeView
from . import preprocess
from .card import CARD, FORMAT, GRAPHS, file_sha256
from .graph import Graph
from .runtime import ExportedModel

OPSET = 18
TOLERANCE = 1e-4
"""How far scores and maps may be from the detector's."""
LARGEST = 1_900_000_000
"""Bytes of constants: a file of ONNX holds 2 GB."""


def export(
    detector: "HyperFSAD | ProductDetector | CascadeDetector",
    target: Path,
    kind: str,
    notify: Notify = silent,
) -> dict[str, Any]:
    """Writes the folder of an exported model and returns its card."""
    if kind not in GRAPHS:
        raise UsageError(f"A detector is exported to {' or '.join(GRAPHS)}, not to {kind!r}.")
    if target.exists():
        raise UsageError(f"{target} is there already; remove it or give another name.")
    single, view = require_exportable(detector)
    settings = single.settings
    engine = torch_engine(settings, torch.device("cpu"), notify)
    header = single.header()
    if engine.fingerprint != header["encoder"]["fingerprint"]:
        raise DetectorFileError(
            f"This detector was made with other weights of {settings.name} than those on this"
            " machine; its scores would be wrong. Fit it again."
        )
    graph = Graph(engine.model, view, single.levels()).eval()
    _require_room(graph)
    with atomic_folder(target) as folder:
        _write_graph(graph, settings.resolution, folder, kind)
        code = Path(preprocess.__file__).read_text(encoding="utf-8")
        (folder / "preprocess.py").write_text(code, encoding="utf-8")
        card = _card(single, graph, header, folder, kind)
        _write_card(folder, card)
        card["checked"] = _checked(ExportedModel(folder), engine, view)
        _write_card(folder, card)
    return card


def require_exportable(
    detector: "HyperFSAD | ProductDetector | CascadeDetector",
) -> tuple[HyperFSAD, WholeView]:
    """Refuses what a graph cannot hold, in one sentence."""
    if isinstance(detector, CascadeDetector):
        raise UsageError(
            "A graph holds one detector, and this file holds a fast one and a full one; fit it"
            " without --fast."
        )
    if not isinstance(detector, HyperFSAD):
        raise UsageError(
            "A graph holds one product, and this detector knows several; fit a detector of one."
        )
    detector.require_fitted()
    view = detector.view_
    if not isinstance(view, WholeView):
        raise UsageError(
            "A graph takes whole pictures of a fixed size, and this detector cuts them into tiles;"
            " fit one without --tiles."
        )
    if detector.roi is not None:
        raise UsageError(
            "A region of interest is cut out of pictures before they are resized, which a graph"
            " cannot do; fit a detector without --roi."
        )
    if detector.core_ is not None:
        raise UsageError(
            "A graph compares with the whole memory, and this detector with a part of it; fit one"
            " without --memory compact."
        )
    if detector.lookup != "sparsemax":
        raise UsageError(
            f"A graph looks patches up with sparsemax, and this detector with {detector.lookup};"
            " fit one without --lookup."
        )
    if len({len(entries) for entries in view.bank.entries}) != 1:
        raise UsageError(
            "The good parts of this detector are remembered in different numbers of orientations;"
            " fit it again."
        )
    cpu = torch.device("cpu")
    return detector, view if view.bank.cls.device == cpu else view.fitted(view.bank.to(cpu))


def _require_room(graph: Graph) -> None:
    tensors = [*graph.parameters(), *graph.buffers()]
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if size > LARGEST:
        raise UsageError(
            f"The model would have {size / 1e9:.1f} GB, and a graph holds"
            f" {LARGEST / 1e9:.1f}; fit a detector on fewer good parts or orientations."
        )


@torch.no_grad()
def _write_graph(graph: Graph, side: int, folder: Path, kind: str) -> None:
    pixels = torch.zeros(2, side, side, 3, dtype=torch.uint8)  # one would be taken for a constant
    onnx = folder / GRAPHS["onnx"]
    batch = {0: "images"}
    alone = ("threshold", "map_threshold")
    axes = {name: batch for name in ("pixels", *graph.outputs) if name not in alone}
    try:
        with constant_positions(graph.model), quiet_transformers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of branches on shapes, which are fixed here
            graph.model(torch.zeros(1, 3, side, side))  # from here on, positions are constants
            torch.onnx.export(
                graph,
                (pixels,),
                onnx,
                dynamo=False,  # the other exporter needs another package
                opset_version=OPSET,
                input_names=["pixels"],
                output_names=graph.outputs,
                dynamic_axes=axes,
                do_constant_folding=False,  # it would keep the memory twice, once turned
            )
        if kind == "openvino":
            openvino = import_openvino()
            # what `openvino.convert_model` does too; but that one sends telemetry
            core = openvino.Core()
            core.set_property({"ENABLE_MMAP": False})
            model = core.read_model(onnx)
            openvino.save_model(model, folder / GRAPHS[kind], compress_to_fp16=False)
            onnx.unlink()
    except (RuntimeError, torch.onnx.OnnxExporterError) as error:
        raise HyperfsadError(f"The detector cannot be exported: {last_line(error)}.") from error


def _card(
    detector: HyperFSAD, graph: Graph, header: dict[str, Any], folder: Path, kind: str
) -> dict[str, Any]:
    settings, levels, view = detector.settings, detector.levels(), detector.view_
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
        "outputs": graph.outputs,
        "grid": settings.grid,
        "branches": dict(view.scoring.weights),
        "levels": {
            "threshold": levels.threshold,
            "map_threshold": levels.map_threshold,
            "threshold_from": levels.threshold_from,
            "regions_decide": levels.regions_decide,
            "calibration": header["calibration"],
            "foreign": levels.foreign,
            "scale": list(levels.scale),
        },
        "encoder": header["encoder"],
        "recipe": detector.recipe,
        "method": {
            name: header[name]
            for name in ("lookup", "sharpness", "scales", "smooth", "pooling", "lambda", "missing")
        }
        | {name: header[name] for name in ("rotations", "tentative")},
        "normal_images": [asdict(image) for image in detector.support_],
        "identity": detector.identity(),
    }


def _write_card(folder: Path, card: dict[str, Any]) -> None:
    text = json.dumps(card, indent=2, ensure_ascii=False)
    (folder / CARD).write_text(text + "\n", encoding="utf-8")


def _checked(model: ExportedModel, engine: TorchEngine, view: WholeView) -> dict[str, float]:
    """How far the model is from the detector on a picture of noise; too far is refused."""
    side = model.card.side
    pixels = np.random.default_rng(0).integers(0, 256, (1, side, side, 3), dtype=np.uint8)
    (expected,) = view.score_tokens(Tokens(*engine.tokens(_normalised(pixels, view))))
    found = model(pixels)
    off = {
        "score": abs(float(found["score"][0]) - expected.score),
        "map": float(np.abs(found["map"][0] - expected.anomaly_map).max()),
    }
    if not max(off.values()) <= TOLERANCE:
        raise HyperfsadError(
            f"The exported model is off by {max(off.values()):.1g} on this machine, where at most"
            f" {TOLERANCE:g} is rounding; nothing was written."
        )
    return off


def _normalised(pixels: NDArray[np.uint8], view: WholeView) -> NDArray[np.float32]:
    settings = view.rules.settings
    centred = pixels.astype(np.float32) / 255 - np.asarray(settings.mean, dtype=np.float32)
    values = centred / np.asarray(settings.std, dtype=np.float32)
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2))
