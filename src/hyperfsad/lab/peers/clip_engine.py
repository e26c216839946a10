"""Both towers of a CLIP on torch: windows of patches and prompts in, embeddings out."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize, pad

from ...arrays import Array
from ...encoders.torch_engine import load_pretrained, model_fingerprint, quiet_transformers
from ...errors import EncoderError, first_line

WINDOW_TOKENS = 1 << 12
"""Tokens of windows that pass the image tower at once."""


class WindowEngine:
    """Runs both towers of a CLIP on torch."""

    name = "torch"
    is_broken = False

    def __init__(
        self, folder: Path, words: Path, windows: Sequence[NDArray[np.int64]], device: str
    ) -> None:
        """`windows` are, for each scale, the patches of each window, the upper left one first."""
        model: Any = load_pretrained(transformers.CLIPModel, folder)
        self.model = model.to(device)
        self._tokenizer = _tokenizer(words)
        self._windows_of = [torch.tensor(index, device=device) for index in windows]
        self._device = device
        self._texts: dict[tuple[str, ...], Array] = {}

    @property
    def width(self) -> int:
        """D, the numbers of a token: of a patch or of a window, whichever has more."""
        config = self.model.config
        return max(int(config.vision_config.hidden_size), int(config.projection_dim))

    @torch.inference_mode()
    def tokens(self, pixels: NDArray[np.float32]) -> tuple[Array, Array]:
        """The planes of all images as one batch."""
        tower = self.model.vision_model
        embedded = tower.embeddings(
            torch.from_numpy(pixels).to(self._device), interpolate_pos_encoding=True
        )
        states = self._blocks(embedded)
        image = normalize(self._projected(states[:, 0]), dim=-1)
        planes = [normalize(states[:, 1:], dim=-1)]
        for index in self._windows_of:
            plane = image.new_zeros(len(image), planes[0].shape[1], image.shape[-1])
            plane[:, index[:, 0]] = normalize(self._windows(embedded, index), dim=-1)
            planes.append(plane)
        size = self.width
        patches = torch.stack([pad(plane, (0, size - plane.shape[-1])) for plane in planes], dim=1)
        cls = pad(image, (0, size - image.shape[-1]))[:, None].expand(-1, len(planes), -1)
        return self._given(patches), self._given(cls.contiguous())

    def _windows(self, embedded: Tensor, index: Tensor) -> Tensor:
        """The projected CLS token of each window, (images, windows, D), some windows at a time."""
        found = []
        count = max(1, WINDOW_TOKENS // ((1 + index.shape[1]) * len(embedded)))
        for part in torch.split(index, count):
            seen = torch.cat([torch.zeros_like(part[:, :1]), part + 1], dim=1)  # CLS, then patches
            states = self._blocks(embedded[:, seen].flatten(0, 1))
            cls = self._projected(states[:, 0])
            found.append(cls.reshape(len(embedded), len(part), -1))
        return torch.cat(found, dim=1)

    def _blocks(self, embedded: Tensor) -> Tensor:
        tower = self.model.vision_model
        states: Tensor = tower.encoder(inputs_embeds=tower.pre_layrnorm(embedded)).last_hidden_state
        return states

    def _projected(self, cls: Tensor) -> Tensor:
        normed = self.model.vision_model.post_layernorm(cls)
        projected: Tensor = self.model.visual_projection(normed)
        return projected

    @torch.inference_mode()
    def text(self, prompts: tuple[str, ...]) -> Array:
        """The embedding of each prompt, (prompts, D), of length 1; asked again, it is not computed
        again."""
        if prompts not in self._texts:
            longest = self.model.config.text_config.max_position_embeddings
            read = self._tokenizer(
                list(prompts),
                padding=True,
                truncation=True,
                max_length=longest,
                return_tensors="pt",
            ).to(self._device)
            pooled = self.model.text_model(
                input_ids=read["input_ids"], attention_mask=read["attention_mask"]
            ).pooler_output
            found = normalize(self.model.text_projection(pooled), dim=-1)
            self._texts[prompts] = self._given(found)
        return self._texts[prompts]

    def _given(self, tensor: Tensor) -> Array:
        """As all tokens are: of numpy on the CPU, of torch on its devices."""
        return tensor.numpy() if self._device == "cpu" else tensor

    @cached_property
    def sharpness(self) -> float:
        """1/τ, as the model has learnt it: what it multiplies cosines by before a softmax."""
        return float(self.model.logit_scale.exp())

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the weights of both towers."""
        return model_fingerprint(self.model)


def _tokenizer(folder: Path) -> transformers.CLIPTokenizer:
    try:
        with quiet_transformers():
            return transformers.CLIPTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the library behind it raises all kinds on damaged files
        reason = first_line(error)
        raise EncoderError("tokenizer-unreadable", folder=folder, reason=reason) from error
