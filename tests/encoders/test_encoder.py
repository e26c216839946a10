"""Encoders from folders: their settings, fingerprints, batches and refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hyperfsad.encoders import REGISTRY, find_spec
from hyperfsad.encoders.encoder import load_encoder
from hyperfsad.errors import HyperfsadError, UsageError
from hyperfsad.images.loading import load_image
from tests.codes import raises
from tests.conftest import make_picture
from tests.encoders.models import SMALL, saved_model


def test_a_clip_folder_with_both_towers_gives_its_image_tower(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch: hyperfsad[torch]")
    transformers = pytest.importorskip("transformers", reason="hyperfsad[torch]")
    torch.manual_seed(2)
    vision = {**SMALL["clip_vision_model"], "num_hidden_layers": 4, "image_size": 64}
    text = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 99}
    text |= {"intermediate_size": 32, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = transformers.CLIPConfig(vision_config=vision, text_config=text, projection_dim=16)
    model = transformers.CLIPModel(config).eval()
    model.save_pretrained(tmp_path)
    spec = find_spec(str(tmp_path))
    assert (spec.layers, spec.resolution, spec.patch) == ((1, 2, 3, 4), 64, 16)
    image = load_image(make_picture(4))

    tokens = load_encoder(spec.settings(), device="cpu").encode([image])

    pixels = torch.from_numpy(image.to_array(64, spec.mean, spec.std))[None]
    with torch.inference_mode():
        states = model.vision_model(pixel_values=pixels, output_hidden_states=True).hidden_states
    expected = torch.nn.functional.normalize(states[4], dim=-1)
    assert np.allclose(tokens.patches[0, 3], expected[0, 1:].numpy(), atol=1e-6)


def test_the_mean_of_a_folder_s_own_processor_is_used(tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path, depth=2)
    (tmp_path / "preprocessor_config.json").write_text(
        '{"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}'
    )
    settings = find_spec(str(tmp_path)).settings()
    assert (settings.mean, settings.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))


@pytest.mark.parametrize("layers", [(0,), (5,), ()])
def test_layers_outside_the_model_are_refused(tiny: str, layers: tuple[int, ...]) -> None:
    with raises(UsageError, "layers-range", depth=4):
        find_spec(tiny).settings(layers=layers)


def test_a_resolution_off_the_patch_grid_is_refused_with_its_neighbours(tiny: str) -> None:
    with raises(UsageError, "resolution-multiple", patch=14, given=100, lower=98, upper=112):
        find_spec(tiny).settings(resolution=100)


@pytest.mark.parametrize("resolution", [224, 672])
def test_the_default_encoder_takes_every_resolution_of_the_paper(
    default_encoder: Any, resolution: int
) -> None:
    settings = find_spec("dinov2-vits14").settings(layers=(2,), resolution=resolution)
    encoder = load_encoder(settings, device="cpu")
    tokens = encoder.encode([load_image(make_picture(6))])
    assert tokens.patches.shape == (1, 1, (resolution // 14) ** 2, 384)
    assert np.allclose(np.linalg.norm(tokens.patches, axis=-1), 1, atol=1e-5)


def test_the_fingerprint_tells_weights_apart(tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path / "a", depth=2)
    saved_model("dinov2", tmp_path / "b", depth=2)
    weights = load_file(tmp_path / "b" / "model.safetensors")
    name = next(name for name in weights if "fc1.weight" in name)
    weights[name] = weights[name] + np.float32(0.001)
    save_file(weights, tmp_path / "b" / "model.safetensors")
    prints = [
        load_encoder(find_spec(str(tmp_path / part)).settings(), device="cpu").fingerprint
        for part in ("a", "a", "b")
    ]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("family", [name for name in SMALL if name.startswith("dino")])
def test_the_mask_token_changes_no_token_and_no_fingerprint(family: str, tmp_path: Path) -> None:
    saved_model(family, tmp_path, depth=2)
    settings = find_spec(str(tmp_path)).settings()
    before = load_encoder(settings, device="cpu")
    weights = load_file(tmp_path / "model.safetensors")
    weights["embeddings.mask_token"] = weights["embeddings.mask_token"] + 1
    save_file(weights, tmp_path / "model.safetensors")
    after = load_encoder(settings, device="cpu")
    images = [load_image(make_picture(3))]
    assert np.array_equal(before.encode(images).patches, after.encode(images).patches)
    assert before.fingerprint == after.fingerprint


def test_a_batch_gives_the_tokens_of_its_images(tiny: str) -> None:
    encoder = load_encoder(find_spec(tiny).settings(), device="cpu")
    images = [load_image(make_picture(seed)) for seed in range(3)]
    together = encoder.encode(images)
    for index, image in enumerate(images):
        alone = encoder.encode([image])
        assert np.allclose(alone.patches[0], together.patches[index], atol=1e-5)
        assert np.allclose(alone.cls[0], together.cls[index], atol=1e-5)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "encoder-folder"),
        ("{", "weights-unreadable"),
        ("[]", "config-type"),
        ('{"model_type": "bert"}', "model-type"),
    ],
)
def test_a_folder_without_a_config_of_an_encoder_is_refused(
    tmp_path: Path, content: str | None, code: str
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with raises(HyperfsadError, code):
        find_spec(str(tmp_path))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with raises(UsageError, "encoder-unknown", given="resnet", known=list(REGISTRY)):
        find_spec("resnet")
