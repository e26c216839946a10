"""Weights under other names, turned into what `transformers` reads: a config and a state dict.

Each function takes the file as its authors published it. Heavy libraries are imported inside.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import EncoderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Checkpoint: TypeAlias = "tuple[dict[str, Any], dict[str, NDArray[np.float32]]]"
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]


def dinov2_onnx(content: bytes) -> Checkpoint:
    """A DINOv2 model without registers in ONNX: vectors under Meta's names, matrices without one.

    A matrix is named by the node that multiplies with it. The exporter wrote equal tensors once:
    the position of the CLS token is an Identity of the CLS token. It left out the mask token, which
    no token depends on; zeros stand in for it.
    """
    import numpy as np

    from .onnx_graph import read_graph

    graph = read_graph(content)
    arrays: dict[str, NDArray[Any]] = dict(graph.tensors)
    for node in graph.nodes:
        if node.operation == "Identity" and node.inputs[0] in arrays:
            arrays[node.outputs[0]] = arrays[node.inputs[0]]
    prefix = "model."
    weights = {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    for node in graph.nodes:
        if node.operation == "MatMul" and node.inputs[1] in arrays:
            module = node.name.strip("/").replace("/", ".").removesuffix(".MatMul")
            # ONNX multiplies from the right
            weights[f"{module}.weight"] = arrays[node.inputs[1]].T
    positions = [arrays["onnx::Concat_1367"], arrays["onnx::Reshape_1360"]]  # CLS, patches
    weights["pos_embed"] = np.concatenate(positions, axis=1)
    weights["mask_token"] = np.zeros((1, weights["cls_token"].shape[-1]), np.float32)
    dim = weights["cls_token"].shape[-1]
    patch = weights["patch_embed.proj.weight"].shape[-1]
    side = int((weights["pos_embed"].shape[1] - 1) ** 0.5)
    config = _config("dinov2", "Dinov2Model", dim, _depth(weights, "blocks."), patch) | {
        "mlp_ratio": weights["blocks.0.mlp.fc1.weight"].shape[0] // dim,
        "image_size": side * patch,
        "layer_norm_eps": 1e-6,
    }
    names = {
        r"(cls_token|mask_token)": r"embeddings.\1",
        r"pos_embed": r"embeddings.position_embeddings",
        r"patch_embed\.proj\.(\w+)": r"embeddings.patch_embeddings.projection.\1",
        r"blocks\.(\d+)\.attn\.qkv\.(\w+)": r"encoder.layer.\1.attention.{}_proj.\2",
        r"blocks\.(\d+)\.attn\.proj\.(\w+)": r"encoder.layer.\1.attention.o_proj.\2",
        r"blocks\.(\d+)\.ls([12])\.gamma": r"encoder.layer.\1.layer_scale\2.lambda1",
        r"blocks\.(\d+)\.((?:norm|mlp).*)": r"encoder.layer.\1.\2",
        r"norm\.(\w+)": r"layernorm.\1",
    }
    state: dict[str, NDArray[np.float32]] = {}
    for name, parts in renamed(weights, names).items():
        state |= zip(parts, np.split(weights[name], len(parts)), strict=True)
    return config, state


def timm_dinov3(shapes: Shapes) -> tuple[dict[str, Any], dict[str, list[str]], Shapes]:
    """A DINOv3 file under timm's names (fused qkv, `gamma_1`, `reg_token`), by its shapes alone.

    The config; of each tensor the names of what it holds, row after row; and what is not there:
    timm drops the biases of q and v, zero in the published files, which `transformers` keeps.
    """
    dim, patch = shapes["cls_token"][-1], shapes["patch_embed.proj.weight"][-1]
    depth = _depth(shapes, "blocks.")
    config = _config("dinov3_vit", "DINOv3ViTModel", dim, depth, patch) | {
        "intermediate_size": shapes["blocks.0.mlp.fc1.weight"][0],
        "num_register_tokens": shapes["reg_token"][1],
        "layer_norm_eps": 1e-5,
        "rope_theta": 100.0,
    }
    names = {
        r"cls_token": r"embeddings.cls_token",
        r"reg_token": r"embeddings.register_tokens",
        r"patch_embed\.proj\.(\w+)": r"embeddings.patch_embeddings.\1",
        r"blocks\.(\d+)\.attn\.qkv\.(\w+)": r"model.layer.\1.attention.{}_proj.\2",
        r"blocks\.(\d+)\.attn\.proj\.(\w+)": r"model.layer.\1.attention.o_proj.\2",
        r"blocks\.(\d+)\.attn\.([qv])_bias": r"model.layer.\1.attention.\2_proj.bias",
        r"blocks\.(\d+)\.gamma_([12])": r"model.layer.\1.layer_scale\2.lambda1",
        r"blocks\.(\d+)\.(norm.*)": r"model.layer.\1.\2",
        r"blocks\.(\d+)\.mlp\.fc1\.(\w+)": r"model.layer.\1.mlp.up_proj.\2",
        r"blocks\.(\d+)\.mlp\.fc2\.(\w+)": r"model.layer.\1.mlp.down_proj.\2",
        r"norm\.(\w+)": r"norm.\1",
    }
    found = renamed(shapes, names)
    held = {part for parts in found.values() for part in parts}
    biases = [
        f"model.layer.{block}.attention.{part}_proj.bias" for block in range(depth) for part in "qv"
    ]
    missing = {name: (dim,) for name in biases if name not in held}
    return config, found, missing


def clip_onnx_int8(content: bytes) -> Checkpoint:
    """The image tower of a CLIP model in ONNX with int8 matrices, dequantised to float32.

    The graph itself is never run: its 8-bit products saturate on CPUs without VNNI.
    """
    from .onnx_graph import read_graph

    graph = read_graph(content)
    arrays: dict[str, NDArray[Any]] = dict(graph.tensors)
    prefix = "vision_model."
    state = {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    for node in graph.nodes:
        module = node.name.strip("/").replace("/", ".")
        if node.operation != "MatMulInteger" or not module.startswith(prefix):
            continue
        matrix, zero = arrays[node.inputs[1]], arrays[node.inputs[3]]
        scale = arrays[node.inputs[1].replace("_quantized", "_scale")]
        # ONNX multiplies from the right: columns are outputs, and so are the scales
        dequantised = (matrix.astype("float32") - zero.astype("float32")) * scale
        name = module.removeprefix(prefix).rpartition(".")[0] + ".weight"
        state[name] = dequantised.T
    dim, _, patch, _ = state["embeddings.patch_embedding.weight"].shape
    side = int((state["embeddings.position_embedding.weight"].shape[0] - 1) ** 0.5)
    depth = _depth(state, "encoder.layers.")
    config = _config("clip_vision_model", "CLIPVisionModel", dim, depth, patch) | {
        "intermediate_size": state["encoder.layers.0.mlp.fc1.bias"].shape[0],
        "image_size": side * patch,
        "hidden_act": "quick_gelu",
    }
    return config, {prefix + name: array for name, array in state.items()}


def _config(family: str, model: str, dim: int, depth: int, patch: int) -> dict[str, Any]:
    return {
        "model_type": family,
        "architectures": [model],
        "hidden_size": dim,
        "num_hidden_layers": depth,
        # 64 numbers a head in all published sizes but DINOv3's 7B model, which has 128
        "num_attention_heads": dim // (128 if dim >= 4096 else 64),
        "patch_size": patch,
    }


def _depth(names: Iterable[str], prefix: str) -> int:
    found = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return 1 + max(int(name.partition(".")[0]) for name in found)


def renamed(given: Iterable[str], names: Mapping[str, str]) -> dict[str, list[str]]:
    """What each tensor is called here; one with {} holds q, k and v, row after row."""
    result: dict[str, list[str]] = {}
    for name in given:
        known = [pattern for pattern in names if re.fullmatch(pattern, name)]
        if not known:
            raise EncoderError("tensor-unknown", tensor=name)
        found = re.sub(known[0], names[known[0]], name)
        fused = "{}" in found
        result[name] = [found.format(part) for part in "qkv"] if fused else [found]
    return result
