"""Models for OpenVINO in the cache folder: where they lie, whether they are sound, how they are
compiled. Nothing here needs torch, so a command can compile a model while it imports torch.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import EncoderError, HyperfsadError, first_line
from ..version import __version__
from . import store
from .folders import weight_files
from .precisions import FULL, hint_for
from .quiet_openvino import import_openvino
from .specs import FAMILIES, EncoderSettings

GRAPH, CONSTANTS, NOTES = "model.xml", "model.bin", "notes.json"


@dataclass(frozen=True)
class Compiling:
    """How a model is compiled."""

    threads: int
    parallel: bool = False
    """Whether several callers ask at once, each on one of the threads."""
    precision: str = FULL

    def __call__(self, core: Any, model: Any) -> Any:
        """OpenVINO's own object, ready to be asked."""
        hint = hint_for(self.precision, capabilities(core))
        options = {
            # a CPU with fast half precision would take it by default
            "INFERENCE_PRECISION_HINT": hint,
            "EXECUTION_MODE_HINT": "ACCURACY" if hint == "f32" else "PERFORMANCE",
            "PERFORMANCE_HINT": "THROUGHPUT" if self.parallel else "LATENCY",
            "INFERENCE_NUM_THREADS": self.threads,
            "NUM_STREAMS": self.threads if self.parallel else 1,
            # two processes would be pinned to the same cores
            "ENABLE_CPU_PINNING": False,
        }
        return core.compile_model(model, "CPU", options)


class Kept(NamedTuple):
    """A kept model, compiled."""

    weights: str
    """The fingerprint of its weights."""
    compiled: Any


def capabilities(core: Any) -> list[str]:
    """What this CPU computes in: FP32, perhaps BF16, FP16, INT8."""
    found: list[str] = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return found


def home_of(settings: EncoderSettings, weights: Path, core: Any) -> Path:
    """The folder of a model, named after all that it depends on; a changed file gives another."""
    family = FAMILIES[store.find_spec(settings.name).family]
    libraries = [importlib.metadata.version(name) for name in ("torch", "transformers")]
    depends_on = [
        [_stamp(path) for path in (weights / "config.json", *weight_files(weights))],
        [settings.layers, settings.resolution, settings.final_norm, settings.last_norm],
        [getattr(family.resize_positions, "__name__", None), family.unused_in_fingerprint],
        [__version__, import_openvino().get_version(), *libraries],
        [core.get_property("CPU", "FULL_DEVICE_NAME")],
    ]
    digest = hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()
    name = f"{os.path.basename(settings.name)[:60]}-{settings.resolution}-{digest[:16]}"
    return store.cache_root() / "openvino" / name


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


def seal(home: Path, fingerprint: str) -> str:
    """A hash over all that is kept, so that damage is noticed rather than computed with."""
    hashes = [fingerprint, *(store.file_sha256(home / name) for name in (GRAPH, CONSTANTS))]
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def read(core: Any, home: Path, how: Compiling) -> Kept | None:
    """A kept model; none where it is damaged or not there. One that was begun is taken, once."""
    begun = _begun.pop(home, None)
    if begun is not None and begun[0] == how:
        return begun[1].result()
    return _read(core, home, how)


def _read(core: Any, home: Path, how: Compiling) -> Kept | None:
    try:
        notes = json.loads((home / NOTES).read_text(encoding="utf-8"))
        fingerprint = str(notes["fingerprint"])
        if notes["seal"] != seal(home, fingerprint):
            return None
        return Kept(fingerprint, how(core, core.read_model(home / GRAPH)))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return None


_begun: dict[Path, tuple[Compiling, "Future[Kept | None]"]] = {}


def begin(settings: EncoderSettings, how: Compiling) -> None:
    """Begins to compile a kept model, for whoever loads the same encoder next; nothing is fetched
    or converted, and what goes wrong is told when it is loaded."""
    with contextlib.suppress(HyperfsadError, RuntimeError):
        weights = store.cached_folder(store.find_spec(settings.name))
        if weights is None:
            return
        core = import_openvino().Core()
        home = home_of(settings, weights, core)
        if (home / NOTES).exists():
            pool = ThreadPoolExecutor(1, thread_name_prefix="hyperfsad-compiling")
            _begun[home] = how, pool.submit(_read, core, home, how)
            pool.shutdown(wait=False)
