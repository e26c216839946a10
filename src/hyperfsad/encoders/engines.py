"""Engines compute an encoder's tokens. All give the same ones but for rounding, unless their name
says a precision (`runtime`)."""

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from .specs import FAMILIES, EncoderSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel


TOKEN_FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "unit": partial(torch.nn.functional.normalize, dim=-1),
    "raw": lambda layers: layers,
    "mean": lambda layers: layers.mean(dim=1, keepdim=True),
}
"""From the tokens of the layers (images, layers, tokens, D) to what leaves the encoder."""


class TokenEngine(Protocol):
    """A frozen model, ready to run."""

    name: str

    @property
    def is_broken(self) -> bool:
        """Whether the process was forked since loading, and it would hang."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies weights and precision, whatever engine runs them."""
        ...

    @property
    def width(self) -> int:
        """D, the numbers of a token."""
        ...

    def tokens(self, pixels: NDArray[np.float32]) -> tuple[torch.Tensor, torch.Tensor]:
        """From (images, 3, side, side) to patch tokens (images, planes, patches, D) and CLS tokens
        (images, planes, D), of length 1 unless the settings say otherwise."""
        ...


class TokenModel(torch.nn.Module):
    """A model of `transformers` with all that follows it: from pixels to tokens."""

    def __init__(self, model: "PreTrainedModel", family: str, settings: EncoderSettings) -> None:
        super().__init__()
        self.model = model
        self.family = FAMILIES[family]
        self.settings = settings
        self.prefix = 1 + int(getattr(model.config, "num_register_tokens", 0) or 0)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        output = self.model(pixel_values=pixels, output_hidden_states=True, **self.family.forward)
        layers = torch.stack([output.hidden_states[layer] for layer in self.settings.layers], dim=1)
        norm = getattr(self.model, self.family.norm)
        if self.settings.final_norm:
            layers = norm(layers)
        elif self.settings.last_norm:
            layers = torch.cat([layers[:, :-1], norm(layers[:, -1:])], dim=1)
        tokens = TOKEN_FORMS[self.settings.form](layers)
        return tokens[:, :, self.prefix :], tokens[:, :, 0]


class TorchEngine:
    """Runs on any device of torch."""

    name = "torch"
    is_broken = False

    def __init__(self, model: TokenModel, device: torch.device) -> None:
        self.model = model.to(device)
        self._device = device

    @torch.inference_mode()
    def tokens(self, pixels: NDArray[np.float32]) -> tuple[torch.Tensor, torch.Tensor]:
        """All images as one batch."""
        patches, cls = self.model(torch.from_numpy(pixels).to(self._device))
        return patches, cls

    @property
    def width(self) -> int:
        """D, the numbers of a token."""
        return int(self.model.model.config.hidden_size)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the weights that tokens depend on."""
        return model_fingerprint(self.model.model, self.model.family.unused)


def model_fingerprint(model: "PreTrainedModel", unused: Collection[str] = ()) -> str:
    """A hash of every vector and of the first row of every matrix."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if name not in unused:
            part = tensor.reshape(tensor.shape[0], -1)[0] if tensor.ndim > 1 else tensor
            digest.update(name.encode())
            digest.update(part.float().cpu().numpy().tobytes())
    return digest.hexdigest()


@contextlib.contextmanager
def constant_positions(model: TokenModel) -> Iterator[None]:
    """Positions depend on the size alone: computed at the first call, they are constants later.

    So they get into a graph as torch has them; OpenVINO interpolates position tables
    differently, and tokens would be off by a hundredth.
    """
    owner, _, name = model.family.positions.rpartition(".")
    holder = model.model.get_submodule(owner)
    compute = getattr(holder, name)
    known: list[Any] = []

    def once(*inputs: Any) -> Any:
        if not known:
            known.append(compute(*inputs))
        return known[0]

    setattr(holder, name, once)
    try:
        yield
    finally:
        delattr(holder, name)
