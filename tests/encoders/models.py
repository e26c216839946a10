"""Small random encoders of every family, in the format of Hugging Face, written without torch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from hyperfsad.encoders.families import Tower

_DINOV2 = {"hidden_size": 48, "num_attention_heads": 3, "mlp_ratio": 2, "patch_size": 14}
_DINOV3 = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 96, "patch_size": 16}
SMALL: dict[str, dict[str, Any]] = {
    "dinov2": _DINOV2,
    "dinov2_with_registers": {**_DINOV2, "num_register_tokens": 4},
    "dinov3_vit": {**_DINOV3, "num_register_tokens": 4},
    "clip_vision_model": {**_DINOV3, "hidden_size": 48, "num_attention_heads": 3},
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{family: (family, {}) for family in SMALL},
    "dinov2 gated": ("dinov2", {"use_swiglu_ffn": True}),
    "dinov2 without biases": ("dinov2", {"qkv_bias": False}),
    "dinov3 gated": ("dinov3_vit", {"use_gated_mlp": True, "hidden_act": "silu"}),
    "dinov3 with all biases": ("dinov3_vit", {"key_bias": True}),
    "dinov3 without registers": ("dinov3_vit", {"num_register_tokens": 0}),
    "clip with gelu": ("clip_vision_model", {"hidden_act": "gelu"}),
}
"""What the towers of a family may differ in: family, and what its config says."""


def saved_model(family: str, folder: Path, depth: int = 8, trained: int = 4, **more: Any) -> Path:
    """A random model, trained on `trained` × `trained` patches; norms and scales matter too."""
    config = {**SMALL[family], "num_hidden_layers": depth, "model_type": family, **more}
    config["image_size"] = trained * config["patch_size"]
    config["layer_norm_eps"] = config.get("layer_norm_eps", 1e-5)
    tower = Tower.of(family, config)
    rng = np.random.default_rng(1)
    shapes = {name: _shape(name, tower, config) for name in tower.tensors(depth)}
    tensors = {name: _random(rng, name, shape) for name, shape in shapes.items()}
    if family != "clip_vision_model":
        shape = (1, 1, tower.width) if family == "dinov3_vit" else (1, tower.width)
        tensors["embeddings.mask_token"] = np.zeros(shape, np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def _shape(name: str, tower: Tower, config: dict[str, Any]) -> tuple[int, ...]:
    width, patch = tower.width, tower.patch
    hidden = config.get("intermediate_size", 2 * width)
    if config.get("use_swiglu_ffn"):
        hidden = (hidden * 2 // 3 + 7) // 8 * 8
    positions = 1 + (config["image_size"] // patch) ** 2
    if name == tower.layout.positions:
        return (positions, width) if name.endswith("weight") else (1, positions, width)
    if name == tower.layout.registers:
        return 1, tower.registers, width
    if name == "embeddings.cls_token":
        return 1, 1, width
    if name == f"{tower.layout.patch}.weight":
        return width, 3, patch, patch
    module, _, kind = name.rpartition(".")
    product = module.rpartition(".")[2]
    if product in ("fc1", "up_proj", "gate_proj"):
        return (hidden, width) if kind == "weight" else (hidden,)
    if kind == "weight" and product in ("fc2", "down_proj"):
        return width, hidden
    return (width, width) if kind == "weight" and product.endswith("_proj") else (width,)


def _random(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    values = rng.standard_normal(shape, np.float32)
    values *= np.float32(0.1 if len(shape) == 1 else 0.2)
    if len(shape) == 1 and not name.endswith("bias") and "class" not in name:
        values += 1
    return values
