"""An encoder in 8 bits: activations and weights, quantised after training with NNCF.

The ranges of the activations come from pictures of good parts. The graph is kept with the detector
that it was made for, so it runs wherever OpenVINO runs, without NNCF and without the weights.
"""

import contextlib
import hashlib
import io
import logging
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import threads
from ..errors import ConversionError, DetectorFileError, UsageError
from ..messages import Notice, Notify, log
from .openvino import OpenVINOEngine, load_tower
from .runtime import (
    INT8,
    CompileOptions,
    fingerprint_in,
    import_openvino,
    last_line,
    openvino_core,
    without_telemetry,
)
from .specs import EncoderSettings
from .towers import token_model

SMOOTHING = 0.65
"""How much of an outlier in the activations moves into the weights, from 0 to 1."""
FRAGILE = r".*\blayers?\.[0-2]\.mlp\.(fc2|down_proj)/.*"
"""Products that are not quantised: the second ones of the MLPs in the first three blocks. Of 72
these 3 make half of the error (docs/speed.md)."""


@dataclass(frozen=True)
class Quantised:
    """A quantised graph from pixels (images, 3, side, side) to unit tokens, as OpenVINO writes
    it."""

    weights: str
    """The fingerprint of the weights that were quantised."""
    graph: bytes
    constants: bytes

    @cached_property
    def fingerprint(self) -> str:
        """Names the weights and this graph."""
        digest = hashlib.sha256(self.graph)
        digest.update(self.constants)
        return fingerprint_in(self.weights, INT8, digest.hexdigest()[:16])


def load_quantised(quantised: Quantised, side: int, parallel: bool) -> OpenVINOEngine:
    """The engine of a quantised graph."""
    openvino = import_openvino()
    core = openvino_core()
    constants = openvino.Tensor(np.frombuffer(quantised.constants, dtype=np.uint8))
    try:
        model = core.read_model(quantised.graph, constants)
        model.reshape([1, 3, side, side])
        how = CompileOptions(threads.count(), parallel, INT8)
        return OpenVINOEngine(how.compile(core, model), quantised.fingerprint, INT8)
    except RuntimeError as error:
        raise DetectorFileError("int8-unusable", reason=last_line(error)) from error


def quantise(
    settings: EncoderSettings, pictures: Sequence[NDArray[np.float32]], notify: Notify = log
) -> Quantised:
    """Quantises an encoder by what it sees of good parts, each (3, side, side)."""
    import_openvino()
    try:
        with without_telemetry():
            import nncf
    except ImportError as error:
        raise UsageError("nncf-not-installed") from error
    name = os.path.basename(settings.name)
    notify(Notice("quantising", encoder=name, pictures=len(pictures)))
    weights = load_tower(settings, notify)
    data = nncf.Dataset([np.ascontiguousarray(picture[None]) for picture in pictures])
    logging.getLogger("nncf").setLevel(logging.ERROR)  # it logs each step and draws bars
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            model = nncf.quantize(
                token_model(weights, settings),
                data,
                # what was tried stands in docs/speed.md
                model_type=nncf.ModelType.TRANSFORMER,
                subset_size=len(pictures),
                # the patches' own projection sees pixels, which are 8 bits on another grid: half of
                # the error in early layers, for a hundredth of the time
                ignored_scope=nncf.IgnoredScope(
                    types=["Convolution"], patterns=[FRAGILE], validate=False
                ),
                advanced_parameters=nncf.AdvancedQuantizationParameters(
                    # NNCF's own 0.95 leaves all outliers to the weights
                    smooth_quant_alphas=nncf.AdvancedSmoothQuantParameters(matmul=SMOOTHING),
                    # it takes a third of the time and moved no token's error in the third digit
                    disable_bias_correction=True,
                ),
            )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.xml"
            import_openvino().save_model(model, path, compress_to_fp16=False)
            graph, constants = path.read_bytes(), path.with_suffix(".bin").read_bytes()
    except (RuntimeError, OSError, ValueError) as error:
        raise ConversionError("quantising-failed", encoder=name, reason=last_line(error)) from error
    return Quantised(weights.fingerprint(settings.layers[-1]), graph, constants)
