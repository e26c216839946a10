"""A frozen encoder: pictures in, unit-length patch and CLS tokens of the selected layers out."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import EncoderError, UsageError
from ..images import LoadedImage
from . import folders, store
from .specs import FAMILIES, EncoderSettings, find_spec

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Tokens:
    """The tokens of a batch of images, each of length 1."""

    patches: torch.Tensor
    """(images, layers, patches, D), patches row by row."""
    cls: torch.Tensor
    """(images, layers, D)"""


class Encoder:
    """Runs a frozen model up to its last selected block."""

    def __init__(
        self, model: "PreTrainedModel", family: str, settings: EncoderSettings, device: torch.device
    ) -> None:
        self.settings = settings
        self.device = device
        self._family = FAMILIES[family]
        self._model = model.to(device)
        self._prefix = 1 + int(getattr(model.config, "num_register_tokens", 0) or 0)

    def encode(self, images: Sequence[LoadedImage]) -> Tokens:
        """The tokens of a few images, as one batch."""
        return self.encode_prepared([prepare(image, self.settings) for image in images])

    @torch.inference_mode()
    def encode_prepared(self, images: Sequence[NDArray[np.float32]]) -> Tokens:
        """The tokens of a few prepared images, as one batch."""
        settings = self.settings
        output = self._model(
            pixel_values=torch.from_numpy(np.stack(images)).to(self.device),
            output_hidden_states=True,
            **self._family.forward,
        )
        layers = torch.stack([output.hidden_states[layer] for layer in settings.layers], dim=1)
        if settings.final_norm:
            layers = getattr(self._model, self._family.norm)(layers)
        unit = torch.nn.functional.normalize(layers, dim=-1)
        return Tokens(unit[:, :, self._prefix :], unit[:, :, 0])

    @cached_property
    def fingerprint(self) -> str:
        """Tells weights apart: a hash of every vector and of the first row of every matrix."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self._model.state_dict().items()):
            part = tensor.reshape(tensor.shape[0], -1)[0] if tensor.ndim > 1 else tensor
            digest.update(name.encode())
            digest.update(part.float().cpu().numpy().tobytes())
        return digest.hexdigest()


def prepare(image: LoadedImage, settings: EncoderSettings) -> NDArray[np.float32]:
    """What an encoder sees of an image, (3, resolution, resolution); it need not be loaded yet."""
    return image.to_array(settings.resolution, settings.mean, settings.std)


def load_encoder(
    settings: EncoderSettings, device: str = "auto", notify: store.Notify = store.silent
) -> Encoder:
    """Loads the weights that the settings name, fetching them first where that is needed."""
    spec = find_spec(settings.name)
    depth = settings.layers[-1]
    folder = store.weights_folder(spec, notify)
    try:
        model = folders.load_model(folder, spec.family, depth)
    except EncoderError as error:
        if not store.discard(spec):
            raise
        notify(f"{error} Fetching them again.")
        model = folders.load_model(store.weights_folder(spec, notify), spec.family, depth)
    return Encoder(model, spec.family, settings, choose_device(device))


def choose_device(name: str) -> torch.device:
    """auto takes CUDA, then MPS, then the CPU."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(device for device, there in available.items() if there)
    if not available.get(name.partition(":")[0], False):
        there = ", ".join(device for device, found in available.items() if found)
        raise UsageError(f"The device {name} is not available here; there is: {there}.")
    return torch.device(name)
