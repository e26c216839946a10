"""Windows of patches as WinCLIP sees them (Jeong et al., CVPR 2023), and the text beside them.

A window is embedded by running the image tower on the CLS token and the patches of the window
alone, each with its position in the whole image; the embedding is the CLS token after the last
block, normed and projected to where images and texts meet. All windows of one size are one batch.

What leaves the encoder are grids of unit vectors, one for each plane of the settings: the patches
after the last block, not projected, then the windows of each scale at the place of their upper left
patch, zeros where none fits; shorter vectors end with zeros. The CLS token of every plane is the
embedding of the whole image.
"""

import contextlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize, pad

from ...encoders import runtime, weights
from ...encoders.encoder import Encoder
from ...encoders.engines import model_fingerprint
from ...encoders.folders import (
    explained_weights,
    load_pretrained,
    quiet_transformers,
)
from ...encoders.specs import EncoderSettings, EncoderSpec, Hub
from ...errors import EncoderError, UnreachableError, UsageError, first_line
from ...messages import Notify

if TYPE_CHECKING:
    from transformers import CLIPModel, CLIPTokenizer

WINDOW_TOKENS = 1 << 12
"""Tokens of windows that pass the image tower at once."""


@dataclass(frozen=True)
class WindowSettings(EncoderSettings):
    """Windows of patches seen by a CLIP one at a time, and its patches."""

    form: ClassVar[str] = "windows"
    scales: ClassVar[tuple[int, ...]] = (2, 3)
    """Patches along the side of a window."""

    @property
    def planes(self) -> tuple[str, ...]:
        """The patches of the last block, then the windows of each scale."""
        return ("patches", *(f"{scale}x{scale}" for scale in self.scales))

    def own_encoder(self, device: torch.device, notify: Notify) -> "WindowEncoder":
        """Both towers of a CLIP, fetched first where that is needed."""
        return WindowEncoder(self, _load_windows(self, device, notify), device)


class WindowEngine:
    """Runs both towers of a CLIP on torch."""

    name = "torch"
    is_broken = False

    def __init__(
        self,
        model: "CLIPModel",
        tokenizer: "CLIPTokenizer",
        settings: WindowSettings,
        device: torch.device,
    ) -> None:
        self.model = model.to(device)
        self._tokenizer = tokenizer
        self._settings = settings
        self._device = device
        self._texts: dict[tuple[str, ...], Tensor] = {}

    @property
    def width(self) -> int:
        """D, the numbers of a token: of a patch or of a window, whichever has more."""
        config = self.model.config
        return max(int(config.vision_config.hidden_size), int(config.projection_dim))

    @torch.inference_mode()
    def tokens(self, pixels: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
        """The planes of all images as one batch."""
        tower, grid = self.model.vision_model, self._settings.grid
        embedded = tower.embeddings(
            torch.from_numpy(pixels).to(self._device), interpolate_pos_encoding=True
        )
        states = self._blocks(embedded)
        image = normalize(self._projected(states[:, 0]), dim=-1)
        planes = [normalize(states[:, 1:], dim=-1)]
        for scale in self._settings.scales:
            index = window_patches(grid, scale).to(self._device)
            plane = image.new_zeros(len(image), grid * grid, image.shape[-1])
            plane[:, index[:, 0]] = normalize(self._windows(embedded, index), dim=-1)
            planes.append(plane)
        size = self.width
        patches = torch.stack([pad(plane, (0, size - plane.shape[-1])) for plane in planes], dim=1)
        cls = pad(image, (0, size - image.shape[-1]))[:, None].expand(-1, len(planes), -1)
        return patches, cls.contiguous()

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
    def text(self, prompts: tuple[str, ...]) -> Tensor:
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
            self._texts[prompts] = normalize(self.model.text_projection(pooled), dim=-1)
        return self._texts[prompts]

    @cached_property
    def sharpness(self) -> float:
        """1/τ, as the model has learnt it: what it multiplies cosines by before a softmax."""
        return float(self.model.logit_scale.exp())

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the weights of both towers."""
        return model_fingerprint(self.model)


class WindowEncoder(Encoder):
    """A CLIP that sees windows of patches, and reads."""

    def __init__(
        self, settings: WindowSettings, engine: WindowEngine, device: torch.device
    ) -> None:
        super().__init__(settings, engine, device)
        self.reader = engine


def window_patches(grid: int, scale: int) -> Tensor:
    """The patches of each window of scale × scale, (windows, scale²), the upper left one first."""
    places = torch.arange(grid * grid).reshape(grid, grid)
    return places.unfold(0, scale, 1).unfold(1, scale, 1).reshape(-1, scale * scale)


def require_text(spec: EncoderSpec) -> None:
    """Refuses, before anything is fetched, an encoder that has no text tower."""
    if spec.family != "clip":
        raise UsageError("winclip-without-text", encoder=spec.name)


def can_read(spec: EncoderSpec) -> bool:
    """Whether an encoder has a text tower and a tokenizer; where its weights are not at hand yet,
    what its family promises."""
    folder = runtime.cached_folder(spec) if spec.family == "clip" else None
    if folder is None:
        return spec.family == "clip"
    try:
        return _has_text_tower(folder) and _tokenizer_folder(spec, folder).is_dir()
    except EncoderError:
        return False


def _load_windows(settings: WindowSettings, device: torch.device, notify: Notify) -> WindowEngine:
    import transformers

    spec = runtime.find_spec(settings.name)
    require_text(spec)
    try:
        folder = weights.fetch(spec, notify=notify)
    except EncoderError as error:  # it names encoders that cannot read
        reasons = error.facts.get("reasons", {})
        raise EncoderError("winclip-unavailable", encoder=spec.name, reasons=reasons) from error
    if not _has_text_tower(folder):
        raise EncoderError("winclip-without-text", encoder=folder)
    model: Any = load_pretrained(transformers.CLIPModel, folder)
    words = _tokenizer_folder(spec, folder)
    try:
        with quiet_transformers():
            tokenizer = transformers.CLIPTokenizer.from_pretrained(words, local_files_only=True)
    except Exception as error:  # the library behind it raises all kinds on damaged files
        reason = first_line(error)
        raise EncoderError("tokenizer-unreadable", folder=words, reason=reason) from error
    return WindowEngine(model, tokenizer, settings, device)


def _has_text_tower(folder: Path) -> bool:
    from safetensors import safe_open

    for path in runtime.weight_files(folder):
        with explained_weights(path), safe_open(path, framework="pt") as file:
            if any(name.startswith("text_model.") for name in file.keys()):  # noqa: SIM118
                return True
    return False


def _tokenizer_folder(spec: EncoderSpec, folder: Path) -> Path:
    """Where the tokenizer is; weights that were fetched for their image tower came without one."""
    if _has_tokenizer(folder):
        return folder
    for source in spec.sources:
        if isinstance(source, Hub):
            with contextlib.suppress(UnreachableError):
                found = weights.download_snapshot(source)
                if _has_tokenizer(found):
                    return found
    raise EncoderError("tokenizer-missing", folder=folder)


def _has_tokenizer(folder: Path) -> bool:
    pair = all((folder / name).is_file() for name in ("vocab.json", "merges.txt"))
    return pair or (folder / "tokenizer.json").is_file()
