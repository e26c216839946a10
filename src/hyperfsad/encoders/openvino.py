"""OpenVINO on the CPU: the same model, converted once and kept in the user's cache folder.

The graph reaches from pixels to unit tokens. With it neither `transformers` nor the weights are
read at later starts. Kept is OpenVINO's own format in float32, not the compiled blob: that one is
as large and no faster to load (0.71 s against 0.72 s on two cores).

Its tokens do not depend on the number of threads and are the same bits in every run on a machine;
those of torch differ from them by rounding (at most 2e-5 on the default encoder and on CLIP).
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..disk.files import atomic_folder
from ..errors import EncoderError, HyperfsadError, first_line
from ..messages import Notify, silent
from ..version import __version__
from . import store
from .engines import TokenModel, TorchEngine
from .specs import EncoderSettings, weight_files
from .store import find_spec

GRAPH, CONSTANTS, NOTES = "model.xml", "model.bin", "notes.json"
TOLERANCE = 3e-4
"""How far a token's entries may be from those of torch; half precision is worse than that."""
UNUSED_DAYS = 30


class OpenVINOEngine:
    """Runs a converted model in float32, one image after the other.

    It takes as many threads as torch has when it is made; in parallel, each caller gets one of
    them.
    """

    name = "openvino"

    def __init__(self, core: Any, model: Any, fingerprint: str, *, parallel: bool = False) -> None:
        self.fingerprint = fingerprint
        threads = torch.get_num_threads()
        self._compiled = core.compile_model(
            model,
            "CPU",
            {
                # a CPU with fast half precision would take it by default
                "INFERENCE_PRECISION_HINT": "f32",
                "EXECUTION_MODE_HINT": "ACCURACY",
                "PERFORMANCE_HINT": "THROUGHPUT" if parallel else "LATENCY",
                "INFERENCE_NUM_THREADS": threads,
                "NUM_STREAMS": threads if parallel else 1,
                # two processes would be pinned to the same cores
                "ENABLE_CPU_PINNING": False,
            },
        )
        self._own = threading.local()

    def tokens(self, pixels: NDArray[np.float32]) -> tuple[torch.Tensor, torch.Tensor]:
        """Image by image: as fast on a CPU, and no token depends on its company."""
        if not hasattr(self._own, "request"):  # a request serves one thread at a time
            self._own.request = self._compiled.create_infer_request()
        found = [self._own.request.infer({0: pixels[[place]]}) for place in range(len(pixels))]
        patches, cls = (np.concatenate([image[output] for image in found]) for output in (0, 1))
        return torch.from_numpy(patches), torch.from_numpy(cls)


def load_engine(
    settings: EncoderSettings,
    load_torch: Callable[[], TorchEngine],
    notify: Notify = silent,
    *,
    parallel: bool = False,
) -> OpenVINOEngine:
    """The engine from the cache, or converted from torch's model and kept there."""
    core = import_openvino().Core()
    folder = store.weights_folder(find_spec(settings.name), notify)
    home = store.cache_root() / "openvino" / _key(settings, folder, core)
    kept = _read(core, home, parallel)
    if kept is not None:
        with contextlib.suppress(OSError):
            os.utime(home)  # what is not used for long is removed
        return kept
    notify(f"Preparing {os.path.basename(settings.name)} for OpenVINO (once).")
    graph = convert(load_torch())
    core.set_property({"ENABLE_MMAP": False})  # or Windows would not rename what was read
    try:
        _remove_unused(home.parent)
        shutil.rmtree(home, ignore_errors=True)  # damaged, or it would have been read
        with atomic_folder(home) as temporary:
            return _checked(core, graph, temporary, parallel)
    except ConversionError:
        raise
    except (HyperfsadError, OSError) as error:
        notify(f"The model for OpenVINO is not kept, and is prepared at every start: {error}")
    try:
        with tempfile.TemporaryDirectory() as elsewhere:
            return _checked(core, graph, Path(elsewhere), parallel)
    except OSError as error:
        raise ConversionError(f"OpenVINO needs room for a file: {first_line(error)}.") from error


def _key(settings: EncoderSettings, folder: Path, core: Any) -> str:
    """Names a kept model after all that it depends on; a changed file gives another key."""
    values = [
        [_stamp(path) for path in (folder / "config.json", *weight_files(folder))],
        [settings.layers, settings.resolution, settings.final_norm],
        [__version__, import_openvino().get_version(), torch.__version__],
        [importlib.metadata.version("transformers"), core.get_property("CPU", "FULL_DEVICE_NAME")],
    ]
    digest = hashlib.sha256(json.dumps(values).encode()).hexdigest()
    return f"{os.path.basename(settings.name)[:60]}-{settings.resolution}-{digest[:16]}"


def _stamp(path: Path) -> list[str | int]:
    """Name, size, time and some of the content of a file, since a copy may keep its time."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            for place in range(0, status.st_size, max(status.st_size // 64, 1)):
                file.seek(place)
                digest.update(file.read(4096))
    except OSError as error:
        raise EncoderError(f"{path} cannot be read: {first_line(error)}.") from error
    return [path.name, status.st_size, status.st_mtime_ns, digest.hexdigest()]


def _read(core: Any, home: Path, parallel: bool) -> OpenVINOEngine | None:
    """The engine of a kept model; none where it is damaged."""
    try:
        notes = json.loads((home / NOTES).read_text(encoding="utf-8"))
        fingerprint = str(notes["fingerprint"])
        if notes["seal"] != _seal(home, fingerprint):
            return None
        return OpenVINOEngine(core, core.read_model(home / GRAPH), fingerprint, parallel=parallel)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return None


def _checked(core: Any, graph: "Graph", folder: Path, parallel: bool) -> OpenVINOEngine:
    """Writes a converted model, and reads it as later starts will: tokens are the same bits."""
    try:
        import_openvino().save_model(graph.model, folder / GRAPH, compress_to_fp16=False)
    except RuntimeError as error:
        raise OSError(f"{folder} cannot be written, perhaps the disk is full.") from error
    notes = {"fingerprint": graph.fingerprint, "seal": _seal(folder, graph.fingerprint)}
    (folder / NOTES).write_text(json.dumps(notes) + "\n", encoding="utf-8")
    try:
        model = core.read_model(folder / GRAPH)
        engine = OpenVINOEngine(core, model, graph.fingerprint, parallel=parallel)
        pairs = zip(engine.tokens(graph.pixels), graph.tokens, strict=True)
        off = max(float((ours - theirs).abs().max()) for ours, theirs in pairs)
    except RuntimeError as error:
        raise ConversionError(f"OpenVINO cannot run {graph.name}: {last_line(error)}.") from error
    if not off <= TOLERANCE:
        raise ConversionError(
            f"OpenVINO does not compute the tokens of {graph.name} exactly on this machine"
            f" (off by {off:.1g})."
        )
    return engine


def _seal(home: Path, fingerprint: str) -> str:
    """A hash over all that is kept, so that damage is noticed rather than computed with."""
    parts = [fingerprint, *(store.file_sha256(home / name) for name in (GRAPH, CONSTANTS))]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def _remove_unused(root: Path) -> None:
    """Models for other versions, files or settings, and what killed runs left."""
    for folder in root.glob("*") if root.is_dir() else ():
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > UNUSED_DAYS * 86400:
                shutil.rmtree(folder, ignore_errors=True)


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
