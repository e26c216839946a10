"""Our graphs give the tokens that `transformers` gives, for every family and size."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from hyperfsad.encoders import REGISTRY, SUBSTITUTE, find_spec
from hyperfsad.encoders.encoder import Encoder, Tokens, load_encoder
from hyperfsad.encoders.specs import FAMILIES, EncoderSettings, MeanSettings, RawSettings
from hyperfsad.encoders.towers import resized, rotary
from hyperfsad.errors import EncoderError
from hyperfsad.images.loading import load_image
from tests.codes import raises
from tests.conftest import make_picture
from tests.encoders.models import SMALL, VARIANTS, saved_model

IMAGES = [load_image(make_picture(seed)) for seed in range(2)]


def of_transformers(folder: Path, settings: EncoderSettings) -> Tokens:
    """What the model of `transformers` itself gives, without any code of ours behind it."""
    torch = pytest.importorskip("torch", reason="compares with torch: hyperfsad[torch]")
    transformers = pytest.importorskip("transformers", reason="hyperfsad[torch]")
    family = find_spec(str(folder)).family
    known = FAMILIES[family]
    model = getattr(transformers, known.model).from_pretrained(folder).eval()
    pixels = [image.to_array(settings.resolution, settings.mean, settings.std) for image in IMAGES]
    with torch.inference_mode():
        given = torch.from_numpy(np.stack(pixels))
        states = model(pixel_values=given, output_hidden_states=True, **known.forward)
        layers = torch.stack([states.hidden_states[layer] for layer in settings.layers], dim=1)
        norm = getattr(model, known.norm)
        if settings.final_norm:
            layers = norm(layers)
        if settings.last_norm:
            layers[:, -1] = norm(layers[:, -1])
        if settings.form == "unit":
            layers = torch.nn.functional.normalize(layers, dim=-1)
        if settings.form == "mean":
            layers = layers.mean(dim=1, keepdim=True)
    prefix = 1 + int(getattr(model.config, "num_register_tokens", 0))
    return Tokens(layers[:, :, prefix:].numpy(), layers[:, :, 0].numpy())


def encoded(settings: EncoderSettings, **machine: Any) -> Tokens:
    return load_encoder(settings, "cpu", **{"engine": "openvino", **machine}).encode(IMAGES)


def require_close(found: Tokens, expected: Tokens, tolerance: float = 1e-5) -> None:
    assert found.patches.shape == expected.patches.shape
    assert found.cls.shape == expected.cls.shape
    assert np.abs(found.patches - expected.patches).max() < tolerance
    assert np.abs(found.cls - expected.cls).max() < tolerance


@pytest.mark.parametrize("grid", [3, 4, 6])
@pytest.mark.parametrize("variant", VARIANTS)
def test_tokens_are_those_of_transformers(variant: str, grid: int, tmp_path: Path) -> None:
    """At the trained size, below it and above it."""
    family, more = VARIANTS[variant]
    saved_model(family, tmp_path, **more)
    side = grid * SMALL[family]["patch_size"]
    settings = find_spec(str(tmp_path)).settings((2, 5, 8), side)
    require_close(encoded(settings), of_transformers(tmp_path, settings))


@pytest.mark.parametrize("family", SMALL)
def test_the_last_block_may_pass_the_final_norm(family: str, tmp_path: Path) -> None:
    saved_model(family, tmp_path, depth=4)
    settings = find_spec(str(tmp_path)).settings((2, 4), last_norm=True)
    assert settings.last_norm == (not FAMILIES[family].final_norm)
    require_close(encoded(settings), of_transformers(tmp_path, settings))


@pytest.mark.parametrize("kind", [RawSettings, MeanSettings])
@pytest.mark.parametrize("family", SMALL)
def test_peers_get_tokens_in_their_form(
    family: str, kind: type[EncoderSettings], tmp_path: Path
) -> None:
    saved_model(family, tmp_path, depth=4)
    settings = find_spec(str(tmp_path)).settings_of(kind, (2, 4))
    expected = of_transformers(tmp_path, settings)
    require_close(encoded(settings), expected, 1e-5 * float(np.abs(expected.patches).max()))


@pytest.mark.parametrize("family", SMALL)
def test_both_engines_give_the_same_tokens_and_fingerprint(family: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="compares with torch: hyperfsad[torch]")
    saved_model(family, tmp_path, depth=4)
    settings = find_spec(str(tmp_path)).settings((1, 3))
    ours, theirs = (load_encoder(settings, "cpu", engine=name) for name in ("openvino", "torch"))
    require_close(ours.encode(IMAGES), theirs.encode(IMAGES))
    assert ours.fingerprint == theirs.fingerprint
    assert isinstance(theirs.encode(IMAGES).patches, np.ndarray)


def test_the_default_encoder_has_the_tokens_of_transformers(default_encoder: Encoder) -> None:
    pytest.importorskip("torch", reason="compares with torch: hyperfsad[torch]")
    settings = REGISTRY[SUBSTITUTE].settings()
    ours, theirs = (load_encoder(settings, "cpu", engine=name) for name in ("openvino", "torch"))
    require_close(ours.encode(IMAGES), theirs.encode(IMAGES), 2e-5)
    assert ours.fingerprint == theirs.fingerprint


def test_blocks_past_the_last_layer_are_neither_read_nor_built(tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path)
    settings = find_spec(str(tmp_path)).settings(layers=(1, 3))
    expected = encoded(settings)
    weights = load_file(tmp_path / "model.safetensors")
    later = tuple(f"encoder.layer.{block}." for block in range(3, 8))
    needed = {name: tensor for name, tensor in weights.items() if not name.startswith(later)}
    assert len(needed) < len(weights)
    save_file(needed, tmp_path / "model.safetensors")
    assert np.array_equal(encoded(settings).patches, expected.patches)
    with raises(EncoderError, "weights-incomplete"):
        encoded(find_spec(str(tmp_path)).settings(layers=(1, 4)))


def older(name: str) -> str:
    """The names of the official files of DINOv2."""
    for new, old in (("q", "query"), ("k", "key"), ("v", "value")):
        name = name.replace(f"attention.{new}_proj", f"attention.attention.{old}")
    name = name.replace("attention.o_proj", "attention.output.dense")
    return name.replace("mlp.down_proj", "mlp.weights_out")


def test_older_names_are_read(tmp_path: Path) -> None:
    """Those of DINOv2's giant, whose gate and first product are one matrix."""
    saved_model("dinov2", tmp_path / "new", depth=3, use_swiglu_ffn=True)
    expected = encoded(find_spec(str(tmp_path / "new")).settings())
    weights = load_file(tmp_path / "new" / "model.safetensors")
    for block in range(3):
        for kind in ("weight", "bias"):
            mlp = f"encoder.layer.{block}.mlp."
            parts = [weights.pop(f"{mlp}{part}_proj.{kind}") for part in ("gate", "up")]
            weights[f"{mlp}weights_in.{kind}"] = np.concatenate(parts)
    (tmp_path / "old").mkdir()
    config = (tmp_path / "new" / "config.json").read_text()
    (tmp_path / "old" / "config.json").write_text(config)
    renamed = {older(name): tensor for name, tensor in weights.items()}
    assert not renamed.keys() & {"encoder.layer.0.attention.q_proj.weight"}
    save_file(renamed, tmp_path / "old" / "model.safetensors")
    found = encoded(find_spec(str(tmp_path / "old")).settings())
    assert np.array_equal(found.patches, expected.patches)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 50},
        {"hidden_size": "wide"},
        {"num_attention_heads": 0},
        {"num_attention_heads": 5},
        {"hidden_act": "unheard of"},
        {"patch_size": 7},
        {"patch_size": []},
    ],
)
def test_a_config_that_does_not_fit_is_one_error(change: dict[str, Any], tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path, depth=2)
    settings = find_spec(str(tmp_path)).settings(resolution=56)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with raises(EncoderError, "weights-unreadable"):
        encoded(settings)


def test_a_table_of_positions_that_is_no_square_is_refused(tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path, depth=2)
    weights = load_file(tmp_path / "model.safetensors")
    table: NDArray[np.float32] = weights["embeddings.position_embeddings"]
    weights["embeddings.position_embeddings"] = table[:, :-1].copy()
    save_file(weights, tmp_path / "model.safetensors")
    with raises(EncoderError, "weights-unreadable", reason="a table of 15 positions is no square"):
        encoded(find_spec(str(tmp_path)).settings(resolution=56))


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(
    ("trained", "side"), [(37, 32), (16, 32), (16, 5), (4, 9), (14, 20), (7, 7)]
)
def test_tables_are_resized_as_torch_does_it(trained: int, side: int, antialias: bool) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch: hyperfsad[torch]")
    table = np.random.default_rng(0).standard_normal((trained**2, 6), np.float32)
    grid = torch.from_numpy(table.reshape(1, trained, trained, 6)).permute(0, 3, 1, 2)
    expected = torch.nn.functional.interpolate(
        grid, (side, side), mode="bicubic", align_corners=False, antialias=antialias
    )
    expected = expected.permute(0, 2, 3, 1).reshape(side * side, 6).numpy()
    found = resized(table, side, antialias)
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() < 5e-6  # torch weighs in float32; 4e-7 from 37 to 32


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("side", [5, 24])
def test_what_is_even_stays_even_and_rows_are_no_columns(side: int, antialias: bool) -> None:
    rows = np.repeat(np.arange(12, dtype=np.float32), 12)
    found = resized(np.stack([rows, np.ones_like(rows)], axis=-1), side, antialias)
    found = found.reshape(side, side, 2)
    assert np.allclose(found[..., 1], 1, atol=1e-6)
    assert np.allclose(found[..., 0], found[:, :1, 0], atol=1e-5)
    assert (np.diff(found[:, 0, 0]) > 0).all()


def test_a_table_that_is_no_square_is_refused() -> None:
    with pytest.raises(ValueError, match="15 positions"):
        resized(np.zeros((15, 2), np.float32), 4)


def test_angles_turn_patches_and_nothing_else() -> None:
    cosine, sine = rotary(3, 8, 100.0, prefix=2)
    assert cosine.shape == sine.shape == (2 + 9, 8)
    assert (cosine[:2] == 1).all()
    assert (sine[:2] == 0).all()
    # the centre of the picture is the origin; the first patch lies at (-2/3, -2/3)
    assert np.allclose(cosine[2 + 4], 1)
    first = 2 * np.pi * -2 / 3 / 100.0 ** np.array([0, 0.5])
    assert np.allclose(sine[2], np.sin(np.tile(first, 4)), atol=1e-6)
