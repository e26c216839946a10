"""`info --machine`: what this machine computes with, so that what makes it slow can be seen."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..version import __version__
from ..wording import as_rows, count

PACKAGES = ("numpy", "openvino", "pillow", "torch", "transformers", "onnxruntime")
"""Those whose version may explain a figure or a speed."""


def machine() -> dict[str, Any]:
    """The devices, the kernel, the threads and the versions, as JSON shows them."""
    from .. import threads
    from ..encoders.devices import available, choose_device, choose_engine, choose_precision
    from ..encoders.runtime import cache_root
    from ..method import kernel

    device = choose_device("auto")
    return {
        "hyperfsad": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "devices": available(),
        "auto": device,
        "precision": choose_precision("auto", choose_engine("auto", device), device),
        "kernel": kernel.instruction_set(),
        "cores": threads.cores(),
        "threads": threads.count(),
        "versions": {name: _version(name) for name in PACKAGES},
        "cache": str(cache_root()),
    }


def machine_text(found: dict[str, Any]) -> str:
    """The same for people, a row each."""
    slow = "not compiled: matching is slower; install a C compiler, then hyperfsad again"
    versions = {"python": found["python"], **found["versions"]}
    rows = [
        ("hyperfsad", found["hyperfsad"]),
        ("system", found["system"]),
        *((name, text) for name, text in found["devices"].items()),
        ("auto", f"--device auto is {found['auto']}, --precision auto {found['precision']}"),
        ("kernel", found["kernel"] or slow),
        ("threads", f"{found['threads']} of {count(found['cores'], 'core')}"),
        *((name, number or "not installed") for name, number in versions.items()),
        ("cache", found["cache"]),
    ]
    return as_rows(f"{name:12} {text}" for name, text in rows)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
