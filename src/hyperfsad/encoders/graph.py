"""From torch's model to OpenVINO's graph, and OpenVINO itself without its telemetry."""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import EncoderError
from .engines import TokenModel, TorchEngine


class ConversionError(EncoderError):
    """A model that OpenVINO cannot run, or not exactly enough."""


def import_openvino() -> Any:
    """OpenVINO without its telemetry: the import alone would call a statistics server and leave
    files in the user's home folder. OpenVINO goes without where that package is not installed."""
    if "openvino" in sys.modules:
        return sys.modules["openvino"]
    name = "openvino_telemetry"
    there = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        import openvino
    except (ImportError, OSError) as error:
        raise ConversionError(f"OpenVINO cannot be loaded: {last_line(error)}.") from error
    finally:
        del sys.modules[name]
        if there is not None:
            sys.modules[name] = there
    return openvino


@dataclass(frozen=True)
class Graph:
    """A converted model, with a picture of noise and torch's tokens of it to check it by."""

    name: str
    model: Any
    fingerprint: str
    pixels: NDArray[np.float32]
    tokens: tuple[torch.Tensor, torch.Tensor]


@torch.no_grad()
def convert(source: TorchEngine) -> Graph:
    """What `openvino.convert_model` does too; but that one sends telemetry."""
    openvino = import_openvino()
    name, side = source.model.settings.name, source.model.settings.resolution
    noise = np.random.default_rng(0).standard_normal((1, 3, side, side), dtype=np.float32)
    pixels = torch.from_numpy(noise)
    try:
        from openvino import passes
        from openvino.frontend import FrontEndManager
        from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

        with _constant_positions(source.model), _quiet():
            tokens = source.model(pixels)
            decoder = TorchScriptPythonDecoder(
                source.model, example_input=(pixels,), trace_kwargs={"check_trace": False}
            )
        frontend = FrontEndManager().load_by_framework("pytorch")
        model = frontend.convert(frontend.load(decoder))
        model.reshape({0: openvino.PartialShape(list(pixels.shape))})
        manager = passes.Manager()
        manager.register_pass(passes.ConstantFolding())  # all shapes are known now
        manager.run_passes(model)
    except Exception as error:  # whatever another version of these libraries stumbles over
        raise ConversionError(f"OpenVINO cannot convert {name}: {last_line(error)}.") from error
    return Graph(name, model, source.fingerprint, noise, tokens)


def last_line(error: Exception) -> str:
    """OpenVINO names places in its source first, and the reason last."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip().rstrip(".") if lines else type(error).__name__


@contextlib.contextmanager
def _constant_positions(model: TokenModel) -> Iterator[None]:
    """Positions depend on the size alone: computed at the first call, they are constants later.

    So they get into the graph as torch has them; OpenVINO interpolates position tables
    differently, and tokens would be off by a hundredth.
    """
    owner, _, name = model.family.positions.rpartition(".")
    holder = model.model.get_submodule(owner)
    compute = getattr(holder, name)
    known: list[Any] = []

    def once(*inputs: Any) -> Any:
        if not known:
            known.append(compute(*inputs))
        return known[0]

    setattr(holder, name, once)
    try:
        yield
    finally:
        delattr(holder, name)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Tracing warns of branches on shapes, which are fixed here, and of an unset training loss."""
    from transformers import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
