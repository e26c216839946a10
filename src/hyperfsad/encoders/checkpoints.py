"""Weights under other names, turned into what `transformers` reads: a config and a state dict.

Each function takes the file as its authors published it. Heavy libraries are imported inside.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import EncoderError

if TYPE_CHECKING:
    import torch

Checkpoint: TypeAlias = "tuple[dict[str, Any], dict[str, torch.Tensor]]"


def dinov2_onnx(content: bytes) -> Checkpoint:
    """A DINOv2 model without registers in ONNX: vectors under Meta's names, matrices without one.

    A matrix is named by the node that multiplies with it. The exporter wrote equal tensors once:
    the position of the CLS token is an Identity of the CLS token. It left out the mask token, which
    no token depends on; zeros stand in for it.
    """
    import onnx
    import torch

    graph = onnx.load_model_from_string(content).graph
    arrays = {
        tensor.name: torch.tensor(onnx.numpy_helper.to_array(tensor))
        for tensor in graph.initializer
    }
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in arrays:
            arrays[node.output[0]] = arrays[node.input[0]]
    prefix = "model."
    weights = {
        name.removeprefix(prefix): tensor
        for name, tensor in arrays.items()
        if name.startswith(prefix)
    }
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in arrays:
            module = node.name.strip("/").replace("/", ".").removesuffix(".MatMul")
            # ONNX multiplies from the right
            weights[f"{module}.weight"] = arrays[node.input[1]].T.contiguous()
    positions = [arrays["onnx::Concat_1367"], arrays["onnx::Reshape_1360"]]  # CLS, patches
    weights["pos_embed"] = torch.cat(positions, dim=1)
    weights["mask_token"] = torch.zeros(1, weights["cls_token"].shape[-1])
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
    return config, _renamed(weights, names)


def timm_dinov3(weights: "Mapping[str, torch.Tensor]") -> Checkpoint:
    """A DINOv3 state dict under timm's names (fused qkv, `gamma_1`, `reg_token`).

    timm drops the biases of q and v, zero in the published files; `transformers` keeps them.
    """
    import torch

    dim = weights["cls_token"].shape[-1]
    depth = _depth(weights, "blocks.")
    patch = weights["patch_embed.proj.weight"].shape[-1]
    config = _config("dinov3_vit", "DINOv3ViTModel", dim, depth, patch) | {
        "intermediate_size": weights["blocks.0.mlp.fc1.weight"].shape[0],
        "num_register_tokens": weights["reg_token"].shape[1],
        "layer_norm_eps": 1e-5,
        "rope_theta": 100.0,
    }
    names = {
        r"cls_token": r"embeddings.cls_token",
        r"reg_token": r"embeddings.register_tokens",
        r"patch_embed\.proj\.(\w+)": r"embeddings.patch_embeddings.\1",
        r"blocks\.(\d+)\.attn\.qkv\.(\w+)": r"layer.\1.attention.{}_proj.\2",
        r"blocks\.(\d+)\.attn\.proj\.(\w+)": r"layer.\1.attention.o_proj.\2",
        r"blocks\.(\d+)\.attn\.([qv])_bias": r"layer.\1.attention.\2_proj.bias",
        r"blocks\.(\d+)\.gamma_([12])": r"layer.\1.layer_scale\2.lambda1",
        r"blocks\.(\d+)\.(norm.*)": r"layer.\1.\2",
        r"blocks\.(\d+)\.mlp\.fc1\.(\w+)": r"layer.\1.mlp.up_proj.\2",
        r"blocks\.(\d+)\.mlp\.fc2\.(\w+)": r"layer.\1.mlp.down_proj.\2",
        r"norm\.(\w+)": r"norm.\1",
    }
    state = _renamed(weights, names)
    state["embeddings.mask_token"] = torch.zeros(1, 1, dim)
    for block in range(depth):
        for part in "qv":
            state.setdefault(f"layer.{block}.attention.{part}_proj.bias", torch.zeros(dim))
    return config, state


def clip_onnx_int8(content: bytes) -> Checkpoint:
    """The image tower of a CLIP model in ONNX with int8 matrices, dequantised to float32.

    The graph itself is never run: its 8-bit products saturate on CPUs without VNNI.
    """
    import onnx
    import torch

    model = onnx.load_model_from_string(content)
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    prefix = "vision_model."
    state = {
        name.removeprefix(prefix): torch.tensor(array)
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    for node in model.graph.node:
        module = node.name.strip("/").replace("/", ".")
        if node.op_type != "MatMulInteger" or not module.startswith(prefix):
            continue
        matrix, zero = arrays[node.input[1]], arrays[node.input[3]]
        scale = arrays[node.input[1].replace("_quantized", "_scale")]
        # ONNX multiplies from the right: columns are outputs, and so are the scales
        dequantised = (matrix.astype("float32") - zero.astype("float32")) * scale
        name = module.removeprefix(prefix).rpartition(".")[0] + ".weight"
        state[name] = torch.tensor(dequantised.T.copy())
    dim, _, patch, _ = state["embeddings.patch_embedding.weight"].shape
    side = int((state["embeddings.position_embedding.weight"].shape[0] - 1) ** 0.5)
    depth = _depth(state, "encoder.layers.")
    config = _config("clip_vision_model", "CLIPVisionModel", dim, depth, patch) | {
        "intermediate_size": state["encoder.layers.0.mlp.fc1.bias"].shape[0],
        "image_size": side * patch,
        "hidden_act": "quick_gelu",
    }
    return config, {prefix + name: tensor for name, tensor in state.items()}


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


def _depth(weights: "Mapping[str, torch.Tensor]", prefix: str) -> int:
    found = [name.removeprefix(prefix) for name in weights if name.startswith(prefix)]
    return 1 + max(int(name.partition(".")[0]) for name in found)


def _renamed(
    weights: "Mapping[str, torch.Tensor]", names: dict[str, str]
) -> "dict[str, torch.Tensor]":
    """The weights under new names; one with {} stands for a fused q, k and v, which are split."""
    result: dict[str, torch.Tensor] = {}
    for name, tensor in weights.items():
        known = [pattern for pattern in names if re.fullmatch(pattern, name)]
        if not known:
            raise EncoderError("tensor-unknown", tensor=name)
        renamed = re.sub(known[0], names[known[0]], name)
        if "{}" in renamed:
            for part, third in zip("qkv", tensor.chunk(3), strict=True):
                result[renamed.format(part)] = third.clone()
        else:
            result[renamed] = tensor
    return result
