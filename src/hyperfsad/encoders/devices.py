"""What computes: the CPU, a graphics card or an NPU, through OpenVINO or torch.

torch is imported only where it could matter: for its devices by name, and for `auto` on a machine
with a driver of NVIDIA and a torch that can use it.
"""

import ctypes
import importlib.util
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import ConversionError, UsageError, first_line
from .runtime import named_engine, openvino_core
from .specs import F16, FULL, HALF, INT8

WITH_OPENVINO = ("cpu", "gpu", "npu")
WITH_TORCH = ("cuda", "mps")


def choose_device(name: str) -> str:
    """The device asked for, if it is here. auto is CUDA where torch has it, otherwise the CPU."""
    kind = kind_of(name)
    if kind == "auto":
        return "cuda" if torch_may_have_cuda() and _holds(_of_torch(), "cuda") else "cpu"
    if kind == "cpu":
        return kind
    if kind in WITH_TORCH:
        import_torch()
    if not _holds(_of_torch() if kind in WITH_TORCH else _of_openvino(), name):
        raise UsageError("device-unavailable", device=name, available=list(available()))
    return name


def _holds(found: Iterable[str], name: str) -> bool:
    """Whether a device is among others; the first of its kind needs no number, or 0."""
    kind, _, number = name.partition(":")
    return name in found or (number in ("", "0") and kind in map(kind_of, found))


def kind_of(device: str) -> str:
    """A device without its number."""
    return device.partition(":")[0]


def choose_engine(name: str, device: str) -> str:
    """auto is OpenVINO, and torch on the devices of torch."""
    if name == "auto":
        return "torch" if kind_of(device) in WITH_TORCH else "openvino"
    if not runs_on(name, device):
        raise UsageError("engine-with-device", engine=name, device=device)
    if name == "torch":
        import_torch()
    return name


def runs_on(engine: str, device: str) -> bool:
    """Whether an engine can be had on a device, both as they are asked for."""
    asked, kind = named_engine(engine), kind_of(device)
    possible = ("cpu", *WITH_TORCH) if asked == "torch" else WITH_OPENVINO
    return "auto" in (asked, kind) or kind in possible


_FASTEST = {("openvino", "cpu"): (HALF, INT8), ("torch", "cuda"): (HALF,)}
"""What is faster than float32 and neither ranks nor classifies worse, the best first
(docs/measurements/precision.md)."""
_CAPABILITY = {FULL: "FP32", HALF: "BF16", F16: "FP16"}


def choose_precision(name: str, engine: str, device: str, made_in: str | None = None) -> str:
    """What an engine computes in on a device. auto is the precision of the memory, if there is one,
    otherwise the fastest; where the device has not got it, float32, and float16 on an NPU."""
    if name != "auto":
        return name
    kind = kind_of(device)
    wanted = (made_in,) if made_in else _FASTEST.get((engine, kind), ())
    possible = (each for each in wanted if computes_in(each, engine, device))
    return next(possible, F16 if kind == "npu" else FULL)


def computes_in(precision: str, engine: str, device: str) -> bool:
    """Whether this machine computes in a precision, and not just under its name."""
    kind = kind_of(device)
    if engine == "torch":
        has_half = kind == "cpu" or (kind == "cuda" and import_torch().cuda.is_bf16_supported())
        return precision == FULL or (precision == HALF and has_half)
    core = openvino_core()
    if precision == INT8:
        from .eight_bits import has_eight_bits

        return kind == "cpu" and has_eight_bits(core)
    return _CAPABILITY[precision] in core.get_property(
        openvino_name(device), "OPTIMIZATION_CAPABILITIES"
    )


def has_precision(name: str, engine: str, device: str) -> bool:
    """Whether a precision may be had with an engine and a device, all as they are asked for: torch
    has float32 and bf16 alone. What else a device has shows when it is used."""
    on_torch = named_engine(engine) == "torch" or kind_of(device) in WITH_TORCH
    return not on_torch or name in ("auto", FULL, HALF)


def available() -> dict[str, str]:
    """The devices of this machine that can be asked for, and what each is."""
    return {**_of_openvino(), **_of_torch()}


def openvino_name(device: str) -> str:
    """What OpenVINO calls a device: GPU, or GPU.1."""
    return device.upper().replace(":", ".")


def _of_openvino() -> dict[str, str]:
    try:
        core = openvino_core()
        names = {each.lower().replace(".", ":"): each for each in core.available_devices}
        return {
            name: str(core.get_property(each, "FULL_DEVICE_NAME")).strip()
            for name, each in sorted(names.items())
            if kind_of(name) in WITH_OPENVINO
        }
    except (ConversionError, RuntimeError):
        return {}


def _of_torch() -> dict[str, str]:
    try:
        torch = import_torch()
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        cards = [torch.cuda.get_device_name(place) for place in range(count)]
        more = {"mps": "Apple"} if torch.backends.mps.is_available() else {}
    except Exception:  # of a torch that is damaged, or of the driver below it
        return {}
    names = ["cuda"] if count == 1 else [f"cuda:{place}" for place in range(count)]
    return {**dict(zip(names, cards, strict=True)), **more}


def import_torch() -> Any:
    """torch, or a UsageError that says how to install it."""
    if not _installed("torch") or not _installed("transformers"):
        raise UsageError("torch-not-installed")
    try:
        import torch
    except Exception as error:  # a damaged installation raises anything
        raise UsageError("torch-broken", reason=first_line(error)) from error
    return torch


def has_torch() -> bool:
    """Whether torch is here and can be loaded."""
    try:
        import_torch()
    except UsageError:
        return False
    return True


def torch_may_have_cuda() -> bool:
    """Whether importing torch could show a CUDA device: it is made for one, and a driver is here.

    The import takes a second, and most machines without a card have no need of it.
    """
    if "torch" in sys.modules:
        return True
    found = _installed("torch")
    if not found or not _installed("transformers"):
        return False
    try:
        text = (Path(found).parent / "version.py").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return True
    made_for = re.findall(r"^(cuda|hip)\b.*= *(?!None)\S", text, re.MULTILINE)
    return "hip" in made_for or ("cuda" in made_for and _has_driver())


def _has_driver() -> bool:
    """Whether NVIDIA's driver is here."""
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return False
    return True


def _installed(package: str) -> str | None:
    """Where a package lies, which is not imported."""
    try:
        found = importlib.util.find_spec(package)
    except ValueError:  # of a module that something put in its place
        return None
    return found.origin if found is not None else None
