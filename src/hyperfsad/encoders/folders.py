"""Local folders with weights: Hugging Face's format, or timm's for DINOv3."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import EncoderError, UsageError, first_line
from .checkpoints import Shapes, timm_dinov3
from .families import LAYOUTS, Tower
from .specs import FAMILIES, EncoderSpec, make_spec
from .tensors import Arrays, NoArray, TowerWeights, named_arrays, our_names, stored_arrays

CONFIG_FILES = ("config.json", "preprocessor_config.json", "*.safetensors.index.json")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
)
"""Of models that read text; others have none."""
HUB_FILES = [*CONFIG_FILES, *TOKENIZER_FILES, "model*.safetensors"]


def read_spec(folder: str) -> EncoderSpec:
    """What a folder says of its model; layers at the quarter depths, the rest as it is there."""
    path = Path(folder)
    config = read_config(path)
    model_type = config.get("model_type")
    if model_type not in FAMILIES:
        raise UsageError("model-type", folder=folder, given=model_type, known=list(FAMILIES))
    processor = path / "preprocessor_config.json"
    norm = _read_json(processor) if processor.is_file() else {}
    with explained_weights(path / "config.json"):
        return make_spec(
            folder,
            model_type,
            _int(config.get("patch_size", 16)),
            depth=_int(config.get("num_hidden_layers", 12)),
            resolution=_int(config.get("image_size", 224)),
            mean=tuple(norm.get("image_mean", FAMILIES[model_type].mean)),
            std=tuple(norm.get("image_std", FAMILIES[model_type].std)),
        )


def read_config(folder: Path) -> dict[str, Any]:
    """The config of a folder's vision tower, in the terms of `transformers`."""
    whole = _read_json(folder / "config.json")
    if is_timm_dinov3(folder):
        return _timm(folder)[0]
    tower = whole.get("vision_config", {})  # of a file that holds both towers
    return {**whole, **tower, "model_type": whole.get("model_type")}


def read_tower(folder: Path, family: str, depth: int) -> TowerWeights:
    """The tower of a folder and where its tensors lie; all that its first `depth` blocks and the
    final norm need is there, and nothing of it is read yet."""
    config = read_config(folder)
    with explained_weights(folder):
        tower = Tower.of(family, config)
        found = TowerWeights(tower, _arrays(folder, family))
        missing = [name for name in tower.tensors(depth) if name not in found.arrays]
    if missing:
        raise EncoderError(
            "weights-incomplete", folder=folder, tensor=missing[0], count=len(missing)
        )
    return found


def _arrays(folder: Path, family: str) -> Arrays:
    """The tensors of a folder under our names."""
    stored = stored_arrays(folder)
    if is_timm_dinov3(folder):
        _, names, missing = _timm(folder)
        zeros = {name: NoArray(shape) for name, shape in missing.items()}
        return {**zeros, **named_arrays(stored, names)}
    renames = LAYOUTS[family].renames
    return named_arrays(stored, {name: our_names(name, renames) for name in stored})


def _timm(folder: Path) -> tuple[dict[str, Any], dict[str, list[str]], Shapes]:
    with explained_weights(folder):
        stored = stored_arrays(folder)
        return timm_dinov3({name: array.shape for name, array in stored.items()})


@contextlib.contextmanager
def explained_weights(path: Path) -> Iterator[None]:
    """Turns what is raised on damaged files into an EncoderError."""
    try:
        yield
    except (OSError, ValueError, TypeError, LookupError, RuntimeError) as error:
        raise EncoderError("weights-unreadable", path=path, reason=first_line(error)) from error


def write_folder(
    folder: Path, config: dict[str, Any], state: Mapping[str, NDArray[np.float32]]
) -> None:
    """Config and weights in Hugging Face's format."""
    from safetensors.numpy import save_file

    whole = {name: np.ascontiguousarray(array, np.float32) for name, array in state.items()}
    save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def is_timm_dinov3(folder: Path) -> bool:
    """Whether a folder holds timm's copy of a DINOv3 model."""
    config = _read_json(folder / "config.json")
    return "model_type" not in config and "dinov3" in str(config.get("architecture", ""))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EncoderError("encoder-folder", folder=path.parent, name=path.name) from None
    except (OSError, ValueError) as error:
        raise EncoderError("weights-unreadable", path=path, reason=first_line(error)) from error
    if not isinstance(content, dict):
        raise EncoderError("config-type", path=path)
    return content


def _int(value: "int | list[int]") -> int:
    return int(value if isinstance(value, int) else value[0])
