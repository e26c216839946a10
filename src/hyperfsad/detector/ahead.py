"""The encoder of a detector file, begun while torch is being imported; nothing here needs torch."""

import importlib.util
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..disk.tensors import read_head, read_json
from ..encoders.runtime import FULL, CompileOptions, named_engine, precision_in, start_compiling
from ..encoders.specs import REGISTRY, EncoderSettings
from .keys import KEY

BOUNDS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that bound torch's threads."""


def begin_encoder(path: str, *, device: str, engine: str, threads: int | None) -> None:
    """Begins to load the encoder that the file at a path names, if that can be told by now.

    The file is not checked yet, so nothing of it is believed but the name of an encoder of ours: at
    worst a model of our own cache folder is compiled for nothing.
    """
    wanted = device in ("auto", "cpu") and named_engine(engine) in ("auto", "openvino")
    if not wanted or importlib.util.find_spec("openvino") is None or not os.path.isfile(path):
        return
    cores = os.cpu_count() or 1
    if threads is None and any(os.environ.get(name) for name in BOUNDS):
        return
    if threads is not None and not 1 <= threads <= cores:
        return
    try:
        header = read_json(str(read_head(Path(path)).metadata[KEY]))
        encoder = (header["products"][0] if "products" in header else header)["encoder"]
        stored: dict[str, Any] = {
            field.name: tuple(value) if isinstance(value, list) else value
            for field in fields(EncoderSettings)
            if (value := encoder.get(field.name)) is not None
        }
        settings = EncoderSettings(**stored)
        known = settings.name in REGISTRY and precision_in(str(encoder["fingerprint"])) == FULL
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return  # told when the file is read
    if known:
        start_compiling(settings, CompileOptions(threads or cores))
