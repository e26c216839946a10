"""The encoder of an 8-bit detector: quantised by its own good parts, and kept in its file."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..encoders import EncoderSettings
from ..encoders.encoder import prepare, torch_engine
from ..encoders.quantisation import Quantised, quantise
from ..encoders.runtime import weights_in
from ..errors import ImageError, UsageError
from ..images.loading import ImageSource, LoadedImage, load_image
from ..messages import Notify
from ..views import View
from . import storage

GRAPH, CONSTANTS = "quantised.graph", "quantised.constants"


def quantised_by(
    images: Iterable[ImageSource | LoadedImage],
    view: View,
    settings: EncoderSettings,
    notify: Notify,
) -> Quantised:
    """The encoder, quantised by a few good parts as a view sees them."""
    if view.needs_pictures:
        raise UsageError(
            "The engine openvino-int8 is calibrated on whole pictures, and this detector cuts them"
            " into tiles; fit it without --tiles, or with --engine openvino."
        )
    pictures: list[NDArray[np.float32]] = []
    for image in images:
        try:
            pictures.append(prepare(view.visible(load_image(image)), settings))
        except ImageError:  # named when it should be learnt
            continue
    if not pictures:
        raise UsageError("There is no normal image to learn from: none could be read.")
    return quantise(torch_engine(settings, torch.device("cpu"), notify), pictures, notify)


def tensors_of(quantised: Quantised | None) -> dict[str, torch.Tensor]:
    """What a detector file keeps of it."""
    if quantised is None:
        return {}
    content = {GRAPH: quantised.graph, CONSTANTS: quantised.constants}
    return {name: torch.tensor(np.frombuffer(part, np.uint8)) for name, part in content.items()}


def read_quantised(path: str, header: Mapping[str, Any], prefix: str = "") -> Quantised:
    """What the file of an 8-bit detector keeps of it, under names that begin with a prefix."""
    fingerprint = str(header["encoder"]["fingerprint"])
    parts = [
        storage.read_tensor(Path(path), dict(header), name, prefix) for name in (GRAPH, CONSTANTS)
    ]
    graph, constants = (part.numpy().tobytes() for part in parts)
    found = Quantised(weights_in(fingerprint), graph, constants)
    if found.fingerprint != fingerprint:
        raise ValueError("its quantised encoder is another one")
    return found
