"""Local folders with weights: Hugging Face's format, or timm's for DINOv3."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EncoderError, UsageError, first_line
from .checkpoints import timm_dinov3
from .specs import FAMILIES, EncoderSpec, make_spec

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

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
    if is_timm_dinov3(path):
        config, _ = timm_dinov3(_timm_weights(path, device="meta"))
        model_type = config["model_type"]
    else:
        whole = _read_json(path / "config.json")
        model_type = whole.get("model_type")
        config = {**whole, **whole.get("vision_config", {})}  # a CLIP file holds both towers
    if model_type not in FAMILIES:
        raise UsageError("model-type", folder=folder, given=model_type, known=list(FAMILIES))
    processor = path / "preprocessor_config.json"
    norm = _read_json(processor) if processor.is_file() else {}
    return make_spec(
        folder,
        model_type,
        _int(config.get("patch_size", 16)),
        depth=config.get("num_hidden_layers", 12),
        resolution=_int(config.get("image_size", 224)),
        mean=tuple(norm.get("image_mean", FAMILIES[model_type].mean)),
        std=tuple(norm.get("image_std", FAMILIES[model_type].std)),
    )


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


def load_model(folder: Path, family: str, depth: int) -> "PreTrainedModel":
    """The model with its first `depth` blocks only, in float32; later blocks are not even read."""
    import transformers

    known = getattr(transformers, FAMILIES[family].model)
    if is_timm_dinov3(folder):
        found, state = timm_dinov3(_timm_weights(folder))
        config = known.config_class(**found)
        return load_pretrained(known, folder, depth, config, state_dict=state)
    with explained_weights(folder):
        config = known.config_class.from_pretrained(folder, local_files_only=True)
    return load_pretrained(known, folder, depth, config)


def load_pretrained(
    kind: Any, folder: Path, depth: int | None = None, config: Any = None, **state: Any
) -> "PreTrainedModel":
    """A model of `transformers` in float32, frozen; each of its weights was in the folder."""
    options: dict[str, Any] = {"local_files_only": True, "use_safetensors": True}
    if depth is not None:
        config.num_hidden_layers = depth
        options["config"] = config
    with explained_weights(folder), quiet_transformers():
        model, report = kind.from_pretrained(
            None if state else folder, dtype="float32", output_loading_info=True, **options, **state
        )
    missing = sorted(report["missing_keys"])
    if missing:  # transformers would fill them with random numbers
        raise EncoderError(
            "weights-incomplete", folder=folder, tensor=missing[0], count=len(missing)
        )
    frozen: PreTrainedModel = model.float().eval().requires_grad_(False)
    return frozen


@contextlib.contextmanager
def explained_weights(path: Path) -> Iterator[None]:
    """Turns what safetensors and `transformers` raise on damaged files into an EncoderError."""
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
        raise EncoderError("weights-unreadable", path=path, reason=first_line(error)) from error


def write_folder(folder: Path, config: dict[str, Any], state: "dict[str, torch.Tensor]") -> None:
    """Config and weights in Hugging Face's format."""
    from safetensors.torch import save_file

    contiguous = {name: tensor.float().contiguous() for name, tensor in state.items()}
    save_file(contiguous, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def is_timm_dinov3(folder: Path) -> bool:
    """Whether a folder holds timm's copy of a DINOv3 model."""
    config = _read_json(folder / "config.json")
    return "model_type" not in config and "dinov3" in str(config.get("architecture", ""))


def _timm_weights(folder: Path, device: str = "cpu") -> "dict[str, torch.Tensor]":
    """The tensors of the one file; on the device `meta` their shapes alone, which costs nothing."""
    import torch
    from safetensors import safe_open

    files = list(folder.glob("*.safetensors"))
    if len(files) != 1:
        raise EncoderError("weights-files", folder=folder, count=len(files))
    with explained_weights(files[0]), safe_open(files[0], framework="pt") as file:
        names = list(file.keys())
        if device == "meta":
            shapes = {name: file.get_slice(name).get_shape() for name in names}
            return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
        return {name: file.get_tensor(name).float() for name in names}


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
    return value if isinstance(value, int) else value[0]
