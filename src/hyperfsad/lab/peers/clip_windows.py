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
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ...encoders import runtime, weights
from ...encoders.devices import import_torch
from ...encoders.encoder import Encoder
from ...encoders.folders import explained_weights
from ...encoders.specs import EncoderSettings, EncoderSpec, Hub
from ...errors import EncoderError, UnreachableError, UsageError
from ...messages import Notify

if TYPE_CHECKING:
    from .clip_engine import WindowEngine


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

    def own_encoder(self, device: str, notify: Notify) -> "WindowEncoder":
        """Both towers of a CLIP, fetched first where that is needed."""
        import_torch()
        from .clip_engine import WindowEngine

        folder, words = checkpoint(self, notify)
        windows = [window_patches(self.grid, scale) for scale in self.scales]
        return WindowEncoder(self, WindowEngine(folder, words, windows, device), device)


class WindowEncoder(Encoder):
    """A CLIP that sees windows of patches, and reads."""

    def __init__(self, settings: WindowSettings, engine: "WindowEngine", device: str) -> None:
        super().__init__(settings, engine, device)
        self.reader = engine


def window_patches(grid: int, scale: int) -> NDArray[np.int64]:
    """The patches of each window of scale × scale, (windows, scale²), the upper left one first."""
    places = np.arange(grid * grid).reshape(grid, grid)
    return sliding_window_view(places, (scale, scale)).reshape(-1, scale * scale)


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


def checkpoint(settings: WindowSettings, notify: Notify) -> tuple[Path, Path]:
    """The folders of the weights of both towers, and of the tokenizer."""
    spec = runtime.find_spec(settings.name)
    require_text(spec)
    try:
        folder = weights.fetch(spec, notify=notify)
    except EncoderError as error:  # it names encoders that cannot read
        reasons = error.facts.get("reasons", {})
        raise EncoderError("winclip-unavailable", encoder=spec.name, reasons=reasons) from error
    if not _has_text_tower(folder):
        raise EncoderError("winclip-without-text", encoder=folder)
    return folder, _tokenizer_folder(spec, folder)


def _has_text_tower(folder: Path) -> bool:
    from safetensors import safe_open

    for path in runtime.weight_files(folder):
        with explained_weights(path), safe_open(path, framework="np") as file:
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
