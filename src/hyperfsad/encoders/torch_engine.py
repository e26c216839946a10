"""torch and `transformers`: for CUDA and MPS, and to check the graph of OpenVINO against.

All code of the encoders that needs the extra `[torch]` is here; `devices.import_torch` says how to
get it where it is missing.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import threads
from ..arrays import Array
from ..errors import EncoderError
from ..messages import Notify, log
from .folders import explained_weights, is_timm_dinov3, read_config, read_tower
from .runtime import find_spec, fingerprint_in
from .specs import FAMILIES, FULL, HALF, EncoderSettings
from .weights import from_sound_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOKEN_FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "unit": partial(torch.nn.functional.normalize, dim=-1),
    "raw": lambda layers: layers,
    "mean": lambda layers: layers.mean(dim=1, keepdim=True),
}
"""From the tokens of the layers (images, layers, tokens, D) to what leaves the encoder."""


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
        tokens = TOKEN_FORMS[self.settings.form](layers.float())
        return tokens[:, :, self.prefix :], tokens[:, :, 0]


class TorchEngine:
    """Runs on any device of torch."""

    name = "torch"
    is_broken = False

    def __init__(
        self, model: TokenModel, device: str, fingerprint: str, precision: str = FULL
    ) -> None:
        self._kind = torch.bfloat16 if precision == HALF else torch.float32
        self.model = model.to(device, self._kind)
        self.fingerprint = fingerprint_in(fingerprint, precision)
        self._device = device

    @torch.inference_mode()
    def tokens(self, pixels: NDArray[np.float32]) -> tuple[Array, Array]:
        """All images as one batch; on a CPU, arrays of numpy."""
        torch.set_num_threads(threads.for_torch())
        patches, cls = self.model(torch.from_numpy(pixels).to(self._device, self._kind))
        if self._device == "cpu":
            return patches.contiguous().numpy(), cls.contiguous().numpy()
        return patches, cls

    @property
    def width(self) -> int:
        """D, the numbers of a token."""
        return int(self.model.model.config.hidden_size)


def load_engine(
    settings: EncoderSettings,
    device: str = "cpu",
    notify: Notify = log,
    *,
    precision: str = FULL,
) -> TorchEngine:
    """The model of `transformers` with its weights, ready to run or to be exported."""
    spec, depth = find_spec(settings.name), settings.layers[-1]

    def load(folder: Path) -> TorchEngine:
        torch.set_num_threads(threads.for_torch())
        model = load_model(folder, spec.family, depth)
        fingerprint = read_tower(folder, spec.family, depth).fingerprint(depth)
        tokens = TokenModel(model, spec.family, settings)
        return TorchEngine(tokens, device, fingerprint, precision)

    return from_sound_folder(spec, load, notify)


def load_model(folder: Path, family: str, depth: int) -> "PreTrainedModel":
    """The model with its first `depth` blocks only, in float32; later blocks are not even read."""
    import transformers

    known = getattr(transformers, FAMILIES[family].model)
    if is_timm_dinov3(folder):
        weights = read_tower(folder, family, depth)
        with explained_weights(folder):
            names = weights.tower.tensors(depth)
            state = {name: torch.from_numpy(weights[name]) for name in names}
        state["embeddings.mask_token"] = torch.zeros(1, 1, weights.tower.width)
        config = known.config_class(**read_config(folder))
        return load_pretrained(known, folder, depth, config, state_dict=state)
    with explained_weights(folder):
        config = known.config_class.from_pretrained(folder, local_files_only=True)
    return load_pretrained(known, folder, depth, config)


def load_pretrained(
    kind: Any, folder: Path, depth: int | None = None, config: Any = None, **state: Any
) -> "PreTrainedModel":
    """A model of `transformers` in float32, frozen; each of its weights was in the folder."""
    from safetensors import SafetensorError

    options: dict[str, Any] = {"local_files_only": True, "use_safetensors": True}
    if depth is not None:
        config.num_hidden_layers = depth
        options["config"] = config
    with explained_weights(folder), quiet_transformers():
        try:
            model, report = kind.from_pretrained(
                None if state else folder,
                dtype="float32",
                output_loading_info=True,
                **options,
                **state,
            )
        except SafetensorError as error:
            raise ValueError(str(error)) from error
    missing = sorted(report["missing_keys"])
    if missing:  # transformers would fill them with random numbers
        raise EncoderError(
            "weights-incomplete", folder=folder, tensor=missing[0], count=len(missing)
        )
    frozen: PreTrainedModel = model.float().eval().requires_grad_(False)
    return frozen


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keeps `transformers` from reporting what is meant to be: blocks left out, no training."""
    from transformers import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()


def model_fingerprint(model: "PreTrainedModel") -> str:
    """A hash of every vector and of the first row of every matrix."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        part = tensor.reshape(tensor.shape[0], -1)[0] if tensor.ndim > 1 else tensor
        digest.update(name.encode())
        digest.update(part.float().cpu().numpy().tobytes())
    return digest.hexdigest()
