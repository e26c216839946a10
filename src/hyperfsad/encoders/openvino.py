"""OpenVINO: the graph of an encoder, built from its weights at every start and compiled.

Building and compiling takes half a second, less than to read and check a kept copy of the graph.
Tokens do not depend on the number of threads and are the same bits in every run on a machine; those
of torch differ from them by rounding (at most 2e-5 on the default encoder and on CLIP). In half
precision, where a device has it, the same model gives other tokens.
"""

import contextlib
import os
import threading
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import threads
from ..errors import ConversionError, HyperfsadError
from ..messages import Notify, log
from . import folders
from .devices import openvino_name
from .folders import TowerWeights
from .runtime import (
    CompileOptions,
    cached_folder,
    find_spec,
    fingerprint_in,
    import_openvino,
    last_line,
    openvino_core,
)
from .specs import FULL, INT8, EncoderSettings
from .towers import token_model
from .weights import from_sound_folder

MAX_DEVIATION = 3e-4
"""How far a token's entries may be from those of the CPU; half precision is worse than that."""


class CompiledGraph(NamedTuple):
    """An encoder from pixels to tokens, ready to run."""

    compiled: Any
    fingerprint: str
    """Of the weights."""


def load_engine(
    settings: EncoderSettings,
    notify: Notify = log,
    *,
    device: str = "cpu",
    parallel: bool = False,
    precision: str = FULL,
) -> "OpenVINOEngine":
    """The engine, from the weights of the encoder."""
    _refuse_after_fork()
    how = CompileOptions(threads.count(), parallel, precision, openvino_name(device))
    spec = find_spec(settings.name)
    found = from_sound_folder(spec, lambda folder: _started(folder, settings, how), notify)
    own = fingerprint_in(found.fingerprint, precision)
    engine = OpenVINOEngine(found.compiled, own)
    if how.device != "CPU" and precision == FULL:
        _require_exact(engine, settings)
    return engine


def load_tower(settings: EncoderSettings, notify: Notify = log) -> TowerWeights:
    """The tower of an encoder with its weights, to draw a graph of (`towers`)."""
    spec = find_spec(settings.name)
    return from_sound_folder(spec, lambda folder: _tower(folder, settings), notify)


def _tower(folder: Path, settings: EncoderSettings) -> TowerWeights:
    return folders.read_tower(folder, find_spec(settings.name).family, settings.layers[-1])


def _compiled(folder: Path, settings: EncoderSettings, how: CompileOptions) -> CompiledGraph:
    weights = _tower(folder, settings)
    with folders.explained_weights(folder):
        model = token_model(weights, settings, eight_bits=how.precision == INT8)
        fingerprint = weights.fingerprint(settings.layers[-1])
    try:
        return CompiledGraph(how.compile(openvino_core(), model), fingerprint)
    except RuntimeError as error:
        name = settings.name
        raise ConversionError("openvino-failed", encoder=name, reason=last_line(error)) from error


_Wanted = tuple[Path, EncoderSettings, CompileOptions]
_compiling: "dict[_Wanted, Future[CompiledGraph]]" = {}


def start_compiling(settings: EncoderSettings, how: CompileOptions) -> None:
    """Starts to build and compile an encoder, for whoever loads the same one next.

    Nothing is fetched, and errors are raised when the encoder is loaded.
    """
    with contextlib.suppress(HyperfsadError):
        folder = cached_folder(find_spec(settings.name))
        if folder is None:
            return
        import_openvino()
        pool = ThreadPoolExecutor(1, thread_name_prefix="hyperfsad-compiling")
        _compiling[folder, settings, how] = pool.submit(_compiled, folder, settings, how)
        pool.shutdown(wait=False)


def _started(folder: Path, settings: EncoderSettings, how: CompileOptions) -> CompiledGraph:
    """What `start_compiling` began, once; otherwise it is compiled now."""
    started = _compiling.pop((folder, settings, how), None)
    _compiling.clear()
    return started.result() if started is not None else _compiled(folder, settings, how)


_process: int | None = None
"""The process that runs OpenVINO."""
_engines: "weakref.WeakSet[OpenVINOEngine]" = weakref.WeakSet()
_inherited: "list[OpenVINOEngine]" = []
"""Of the process that this one was forked from: to end them here would abort it."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _inherited.extend(_engines))


def _refuse_after_fork() -> None:
    """In a process that was forked from one that runs OpenVINO, it hangs or aborts."""
    if _process not in (None, os.getpid()):
        raise ConversionError("openvino-forked")


class OpenVINOEngine:
    """Runs a compiled model, one image after the other; in parallel, each caller gets a thread."""

    name = "openvino"

    def __init__(self, compiled: Any, fingerprint: str) -> None:
        """`compiled` is OpenVINO's own object, and the fingerprint names the precision too."""
        self.fingerprint = fingerprint
        global _process
        _process = self._process = os.getpid()
        _engines.add(self)
        self.compiled = compiled
        """OpenVINO's own object, to profile or inspect."""
        self._own = threading.local()

    @property
    def is_broken(self) -> bool:
        """Whether the process was forked since: its threads are its parent's."""
        return self._process != os.getpid()

    @property
    def width(self) -> int:
        """D, the numbers of a token."""
        return self._shape(1)[-1]

    def tokens(
        self, pixels: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Image by image: as fast on a CPU, and no token depends on the rest of a batch."""
        _refuse_after_fork()
        if not hasattr(self._own, "request"):  # a request serves one thread at a time
            self._own.request = self.compiled.create_infer_request()
        patches, cls = (
            np.empty((len(pixels), *self._shape(output)), np.float32) for output in (0, 1)
        )
        for place in range(len(pixels)):
            given = {0: pixels[place : place + 1]}
            found = self._own.request.infer(given, share_inputs=True, share_outputs=True)
            patches[place], cls[place] = found[0][0], found[1][0]
        return patches, cls

    def _shape(self, output: int) -> list[int]:
        """Of what comes out for one image."""
        shape = self.compiled.outputs[output].get_partial_shape()
        return [length.get_length() for length in shape][1:]


def _require_exact(engine: OpenVINOEngine, settings: EncoderSettings) -> None:
    """Refuses a device that does not give the CPU's tokens, on a picture of noise."""
    side = settings.resolution
    noise = np.random.default_rng(0).standard_normal((1, 3, side, side), dtype=np.float32)
    pairs = zip(engine.tokens(noise), load_engine(settings).tokens(noise), strict=True)
    deviation = max(float(np.abs(ours - theirs).max()) for ours, theirs in pairs)
    if not deviation <= MAX_DEVIATION:
        raise ConversionError("openvino-inexact", encoder=settings.name, deviation=deviation)
