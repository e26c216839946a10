"""Runs an exported folder with ONNX Runtime or OpenVINO alone; torch is never imported.

>>> model = ExportedModel("model/")
>>> model(pixels)["score"]                 # pixels: (images, side, side, 3), uint8
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..encoders.runtime import import_openvino, last_line
from ..errors import DetectorFileError, UsageError
from .card import Card, read_card

Outputs: TypeAlias = Mapping[str, NDArray[Any]]
Run: TypeAlias = Callable[[NDArray[np.uint8]], Outputs]


class ExportedModel:
    """The graph of an exported folder, ready to run."""

    def __init__(self, folder: str | os.PathLike[str], *, threads: int | None = None) -> None:
        """`threads` bounds the CPU cores that it takes; None takes all."""
        self.card: Card = read_card(Path(folder))
        start = {"onnx": _onnx, "openvino": _openvino}[self.card.kind]
        try:
            self._run = start(self.card, threads)
        except ImportError as error:
            name = {"onnx": "onnxruntime", "openvino": "openvino"}[self.card.kind]
            raise UsageError("runtime-missing", folder=folder, package=name) from error
        except RuntimeError as error:
            raise DetectorFileError(
                "export-not-runnable", folder=folder, reason=last_line(error)
            ) from error

    def __call__(self, pixels: NDArray[np.uint8]) -> Outputs:
        """What the graph says of images (images, side, side, 3), by the names of its outputs."""
        side = self.card.side
        if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[1:] != (side, side, 3):
            raise UsageError("pixels-shape", side=side, type=pixels.dtype, shape=pixels.shape)
        return self._run(np.ascontiguousarray(pixels))


def _onnx(card: Card, threads: int | None) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            os.fspath(card.graph), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # which are classes of its own, derived from Exception
        raise RuntimeError(str(error)) from error
    names = card.outputs
    return lambda pixels: dict(zip(names, session.run(names, {"pixels": pixels}), strict=True))


def _openvino(card: Card, threads: int | None) -> Run:
    openvino = import_openvino()
    core = openvino.Core()
    options = {
        # a CPU with fast half precision would take it by default
        "INFERENCE_PRECISION_HINT": "f32",
        "EXECUTION_MODE_HINT": "ACCURACY",
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,
    }
    if threads is not None:
        options["INFERENCE_NUM_THREADS"] = threads
    compiled = core.compile_model(core.read_model(card.graph), "CPU", options)

    def run(pixels: NDArray[np.uint8]) -> Outputs:
        found = compiled({"pixels": pixels})
        # by their order: an output that equals another has the names of both
        return {name: np.array(found[place]) for place, name in enumerate(card.outputs)}

    return run
