"""OpenVINO, imported without its telemetry. Nothing here needs torch."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from ..errors import EncoderError


class ConversionError(EncoderError):
    """A model that OpenVINO cannot run, or not exactly enough."""


def import_openvino() -> Any:
    """OpenVINO without its telemetry: the import alone would call a statistics server and leave
    files in the user's home folder."""
    if "openvino" in sys.modules:
        return sys.modules["openvino"]
    try:
        with without_telemetry():
            import openvino
    except (ImportError, OSError) as error:
        raise ConversionError(f"OpenVINO cannot be loaded: {last_line(error)}.") from error
    return openvino


@contextlib.contextmanager
def without_telemetry() -> Iterator[None]:
    """OpenVINO and NNCF go without where the package of their telemetry is not installed."""
    name = "openvino_telemetry"
    there = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
        if there is not None:
            sys.modules[name] = there


def last_line(error: Exception) -> str:
    """OpenVINO names places in its source first, and the reason last."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip().rstrip(".") if lines else type(error).__name__
