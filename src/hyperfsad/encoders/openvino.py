"""OpenVINO on the CPU: the same model, converted once and kept in the user's cache folder.

The graph reaches from pixels to unit tokens. With it neither `transformers` nor the weights are
read at later starts. The cache holds OpenVINO's own format in float32, not the compiled blob: that
is as large and no faster to load (0.71 s against 0.72 s on two cores).

Its tokens do not depend on the number of threads and are the same bits in every run on a machine;
those of torch differ from them by rounding (at most 2e-5 on the default encoder and on CLIP).
In half precision, where a CPU has it, the same model gives other tokens.
"""

import contextlib
import json
import os
import shutil
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..disk.files import atomic_folder
from ..errors import ConversionError, HyperfsadError, UsageError, first_line
from ..messages import Notice, Notify, silent
from . import weights
from .engines import TorchEngine, constant_positions
from .folders import quiet_transformers
from .runtime import (
    FULL,
    GRAPH,
    NOTES,
    CompileOptions,
    cached_folder,
    capabilities,
    engine_in,
    find_spec,
    fingerprint_in,
    import_openvino,
    last_line,
    model_home,
    model_seal,
    read_model,
)
from .specs import EncoderSettings

MAX_DEVIATION = 3e-4
"""How far a token's entries may be from those of torch; half precision is worse than that."""
UNUSED_DAYS = 30


def load_engine(
    settings: EncoderSettings,
    load_torch: Callable[[], TorchEngine],
    notify: Notify = silent,
    *,
    parallel: bool = False,
    precision: str = FULL,
) -> "OpenVINOEngine":
    """The engine from the cache, or converted from torch's model and kept there."""
    _refuse_after_fork()
    core = import_openvino().Core()
    if precision != FULL and precision.upper() not in capabilities(core):
        # the CPU would compute in float32, under the name of another precision
        raise UsageError("precision-unsupported", precision=precision)
    spec = find_spec(settings.name)
    home = model_home(settings, cached_folder(spec) or weights.fetch(spec, notify=notify), core)
    how = CompileOptions(torch.get_num_threads(), parallel, precision)
    cached = read_model(core, home, how)
    if cached is not None:
        with contextlib.suppress(OSError):
            os.utime(home)  # unused models are removed after a while
        fingerprint, compiled = cached
        return OpenVINOEngine(compiled, fingerprint_in(fingerprint, precision), precision)
    notify(Notice("openvino-preparing", encoder=os.path.basename(settings.name)))
    graph = convert(load_torch())
    core.set_property({"ENABLE_MMAP": False})  # or Windows would not rename what was read
    try:
        # models for other versions, files or settings, and what killed runs left
        weights.remove_unused(home.parent.glob("*"), UNUSED_DAYS * 86400)
        shutil.rmtree(home, ignore_errors=True)  # damaged, or it would have been read
        with atomic_folder(home) as temporary:
            return _write(core, graph, temporary, how)
    except ConversionError:
        raise
    except (HyperfsadError, OSError) as error:
        notify(Notice("openvino-not-kept", error=error))
    try:
        with tempfile.TemporaryDirectory() as elsewhere:
            return _write(core, graph, Path(elsewhere), how)
    except OSError as error:
        raise ConversionError("openvino-disk", reason=first_line(error)) from error


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

    def __init__(self, compiled: Any, fingerprint: str, precision: str = FULL) -> None:
        """`compiled` is OpenVINO's own object, and the fingerprint names the precision too."""
        self.name = engine_in(precision)
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
        return int(self.compiled.outputs[1].get_partial_shape()[-1].get_length())

    def tokens(self, pixels: NDArray[np.float32]) -> tuple[torch.Tensor, torch.Tensor]:
        """Image by image: as fast on a CPU, and no token depends on the rest of a batch."""
        _refuse_after_fork()
        if not hasattr(self._own, "request"):  # a request serves one thread at a time
            self._own.request = self.compiled.create_infer_request()
        found = [self._own.request.infer({0: pixels[[place]]}) for place in range(len(pixels))]
        patches, cls = (np.concatenate([image[output] for image in found]) for output in (0, 1))
        return torch.from_numpy(patches), torch.from_numpy(cls)


class ConvertedModel(NamedTuple):
    """A converted model, with a picture of noise and torch's tokens of it to check it by."""

    source: TorchEngine
    model: Any
    pixels: NDArray[np.float32]
    tokens: tuple[torch.Tensor, torch.Tensor]


def _write(core: Any, graph: ConvertedModel, folder: Path, how: CompileOptions) -> OpenVINOEngine:
    """Writes a converted model, reads it as later starts will, and checks its tokens.

    The engine computes in the precision asked for, on a model that was found to be exact.
    """
    name, fingerprint = graph.source.model.settings.name, graph.source.fingerprint
    try:
        import_openvino().save_model(graph.model, folder / GRAPH, compress_to_fp16=False)
    except RuntimeError as error:
        raise OSError(f"{folder} cannot be written, perhaps the disk is full") from error
    notes = {"fingerprint": fingerprint, "seal": model_seal(folder, fingerprint)}
    (folder / NOTES).write_text(json.dumps(notes) + "\n", encoding="utf-8")
    try:
        exact = replace(how, precision=FULL).compile(core, core.read_model(folder / GRAPH))
        engine = OpenVINOEngine(exact, fingerprint)
        pairs = zip(engine.tokens(graph.pixels), graph.tokens, strict=True)
        deviation = max(float((ours - theirs).abs().max()) for ours, theirs in pairs)
    except RuntimeError as error:
        raise ConversionError("openvino-failed", encoder=name, reason=last_line(error)) from error
    if not deviation <= MAX_DEVIATION:
        raise ConversionError("openvino-inexact", encoder=name, deviation=deviation)
    if how.precision == FULL:
        return engine
    own = fingerprint_in(fingerprint, how.precision)
    return OpenVINOEngine(how.compile(core, graph.model), own, how.precision)


@torch.no_grad()
def convert(source: TorchEngine, images: int = 1) -> ConvertedModel:
    """What `openvino.convert_model` does too, without its telemetry. -1 images: any number."""
    openvino = import_openvino()
    name, side = source.model.settings.name, source.model.settings.resolution
    noise = np.random.default_rng(0).standard_normal((1, 3, side, side), dtype=np.float32)
    pixels = torch.from_numpy(noise)
    try:
        from openvino import passes
        from openvino.frontend import FrontEndManager
        from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

        with constant_positions(source.model), quiet_transformers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of branches on shapes, which are fixed here
            tokens = source.model(pixels)
            decoder = TorchScriptPythonDecoder(
                source.model, example_input=(pixels,), trace_kwargs={"check_trace": False}
            )
        frontend = FrontEndManager().load_by_framework("pytorch")
        model = frontend.convert(frontend.load(decoder))
        model.reshape({0: openvino.PartialShape([images, *pixels.shape[1:]])})
        manager = passes.Manager()
        manager.register_pass(passes.ConstantFolding())  # all shapes are known now
        manager.run_passes(model)
    except Exception as error:  # whatever another version of these libraries stumbles over
        raise ConversionError("openvino-failed", encoder=name, reason=last_line(error)) from error
    return ConvertedModel(source, model, noise, tokens)
