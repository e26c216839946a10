"""WinCLIP against plain loops: windows, text, harmonic means, references, scores."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from hyperfsad.encoders import find_spec
from hyperfsad.encoders.encoder import Tokens, load_encoder
from hyperfsad.errors import EncoderError, UsageError
from hyperfsad.images.loading import load_image
from hyperfsad.lab.peers import WinCLIP, make_peer
from hyperfsad.lab.peers.clip_windows import WindowEncoder, WindowSettings, can_read
from hyperfsad.lab.peers.winclip import (
    ANOMALOUS,
    NORMAL,
    TEMPLATES,
    class_words,
    covering_mean,
    prompts,
)
from tests.codes import raises
from tests.conftest import make_picture
from tests.lab.peers.clip import GRID, PROJECTED, RESOLUTION, save_clip

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

Vector = NDArray[np.float64]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    """The folder of a CLIP, and its model in float64."""
    folder = tmp_path_factory.mktemp("clip") / "tiny-clip"
    return str(folder), save_clip(folder).double()


def pixels_of(folder: str, seed: int, side: int = RESOLUTION) -> Any:
    spec = find_spec(folder)
    array = load_image(make_picture(seed)).to_array(side, spec.mean, spec.std)
    return torch.from_numpy(array).double()[None]


def unit(vector: Any) -> Vector:
    values: Vector = vector.detach().numpy()
    length = float(np.linalg.norm(values))
    return values / length


def embedded(model: Any, pixels: Any) -> Any:
    """CLS and patch tokens with their positions, before the first block."""
    found: Any = model.vision_model.embeddings(pixels, interpolate_pos_encoding=True)[0]
    return found


def run_tower(model: Any, tokens: Any) -> Any:
    """All blocks, one after the other, on one sequence of tokens."""
    tower = model.vision_model
    states = tower.pre_layrnorm(tokens[None])
    for layer in tower.encoder.layers:
        states = layer(states, attention_mask=None)
    last: Any = states[0]
    return last


def project(model: Any, cls: Any) -> Vector:
    return unit(model.visual_projection(model.vision_model.post_layernorm(cls)))


def window_by_hand(model: Any, tokens: Any, row: int, column: int, scale: int) -> Vector:
    """A window alone: its CLS token and its patches, picked one by one."""
    grid = round((len(tokens) - 1) ** 0.5)
    seen = [tokens[0]]
    for down in range(scale):
        for across in range(scale):
            seen.append(tokens[1 + (row + down) * grid + column + across])
    window: Vector = project(model, run_tower(model, torch.stack(seen))[0])
    return window


def text_by_hand(model: Any, folder: str, states: tuple[str, ...], name: str) -> Vector:
    """Each prompt on its own, without padding."""
    tokenizer = transformers.CLIPTokenizer.from_pretrained(folder)
    total: Vector = np.zeros(PROJECTED)
    for state in states:
        for template in TEMPLATES:
            ids = tokenizer(template.format(state.format(name)), return_tensors="pt")["input_ids"]
            total += unit(model.text_projection(model.text_model(input_ids=ids).pooler_output)[0])
    total /= np.linalg.norm(total)  # the length of a mean says nothing
    return total


class ByHand:
    """The whole method in loops."""

    def __init__(self, saved: tuple[str, Any], name: str, grid: int = GRID) -> None:
        self.folder, self.model = saved
        self.grid = grid
        self.normal = text_by_hand(self.model, self.folder, NORMAL, name)
        self.anomalous = text_by_hand(self.model, self.folder, ANOMALOUS, name)
        self.references: list[dict[int, dict[tuple[int, int], Vector]]] = []

    def look(self, pixels: Any) -> tuple[Vector, dict[int, dict[tuple[int, int], Vector]]]:
        """The embedding of the image, and by scale those of patches (1) and windows."""
        tokens = embedded(self.model, pixels)
        states = run_tower(self.model, tokens)
        size = range(self.grid)
        planes = {1: {(r, c): unit(states[1 + r * self.grid + c]) for r in size for c in size}}
        for scale in (2, 3):
            fit = range(self.grid - scale + 1)
            planes[scale] = {
                (r, c): window_by_hand(self.model, tokens, r, c, scale) for r in fit for c in fit
            }
        return project(self.model, states[0]), planes

    def text(self, embedding: Vector) -> float:
        sharpness = np.exp(2.0)
        normal = np.exp(sharpness * embedding @ self.normal)
        anomalous = np.exp(sharpness * embedding @ self.anomalous)
        return float(anomalous / (normal + anomalous))

    def spread(self, scores: dict[tuple[int, int], float], scale: int) -> Vector:
        found = np.zeros((self.grid, self.grid))
        for row in range(self.grid):
            for column in range(self.grid):
                over = [
                    score
                    for (r, c), score in scores.items()
                    if r <= row < r + scale and c <= column < c + scale
                ]
                found[row, column] = len(over) / sum(1 / score for score in over)
        return found

    def zero_shot(self, pixels: Any) -> tuple[float, Vector]:
        image, planes = self.look(pixels)
        score = self.text(image)
        maps = [
            self.spread({place: self.text(each) for place, each in planes[scale].items()}, scale)
            for scale in (2, 3)
        ]
        return score, 3 / (1 / score + 1 / maps[0] + 1 / maps[1])

    def association(self, pixels: Any) -> Vector:
        _, planes = self.look(pixels)
        maps = []
        for scale in (1, 2, 3):
            known = [each for image in self.references for each in image[scale].values()]
            nearest = {
                place: min((1 - float(query @ each)) / 2 for each in known)
                for place, query in planes[scale].items()
            }
            maps.append(self.spread(nearest, scale))
        mean: Vector = np.mean(maps, axis=0)
        return mean


def test_the_prompts_are_the_published_ones() -> None:
    assert (len(NORMAL), len(ANOMALOUS), len(set(TEMPLATES))) == (7, 4, 22)
    assert (len(prompts(NORMAL, "nut")), len(prompts(ANOMALOUS, "nut"))) == (154, 88)
    assert "a cropped photo of the flawless nut." in prompts(NORMAL, "nut")
    assert "a photo of a small nut without damage." in prompts(NORMAL, "nut")
    assert "a photo of the nut with flaw for anomaly detection." in prompts(ANOMALOUS, "nut")
    assert [class_words(name) for name in ("metal_nut", "pcb1", "01")] == [
        "metal nut",
        "pcb1",
        "object",
    ]


def test_a_projection_wider_than_the_tower_fits_too(tmp_path: Path) -> None:
    save_clip(tmp_path, projected=40)
    result = WinCLIP(str(tmp_path), device="cpu").fit(make_picture(1)).predict(make_picture(2))
    assert result.anomaly_map.shape == (GRID, GRID)


def test_a_prompt_longer_than_the_tower_reads_is_cut(saved: tuple[str, Any]) -> None:
    text, _ = WinCLIP(saved[0], class_name="very " * 60 + "long", device="cpu").text_
    assert np.isfinite(text).all()


def test_a_window_without_distance_leaves_none() -> None:
    scores = np.full(9, 0.5, dtype=np.float32)
    scores[0] = 0
    found = covering_mean(scores, 3, 2)
    assert found.tolist() == [0, 0, 0.5, 0, 0, 0.5, 0.5, 0.5, 0.5]


@pytest.mark.parametrize("grid", [GRID, 4])
def test_zero_shot_is_the_loops(
    grid: int, saved: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the trained size and at another, with windows in one batch or in many."""
    folder, _ = saved
    side = 8 * grid
    options: dict[str, Any] = {"class_name": "metal_nut", "resolution": side, "device": "cpu"}
    detector = WinCLIP(folder, **options)
    score, anomaly_map = ByHand(saved, "metal nut", grid).zero_shot(pixels_of(folder, 4, side))
    result = detector.predict(make_picture(4))  # before any normal image
    assert np.allclose(result.anomaly_map, anomaly_map, atol=1e-5)
    assert result.score == pytest.approx(score, abs=1e-5)
    blind = WinCLIP(folder, references=False, **options).fit(make_picture(1))
    monkeypatch.setattr("hyperfsad.lab.peers.clip_engine.WINDOW_TOKENS", 1)
    again = blind.predict(make_picture(4))
    assert np.allclose(again.anomaly_map, result.anomaly_map, atol=1e-6)
    assert again.score == pytest.approx(result.score, abs=1e-6)


@pytest.mark.parametrize("shots", [1, 2])
def test_few_shot_is_the_loops(shots: int, saved: tuple[str, Any]) -> None:
    folder, _ = saved
    loops = ByHand(saved, "bottle")
    loops.references = [loops.look(pixels_of(folder, seed))[1] for seed in range(1, 1 + shots)]
    detector = WinCLIP(folder, class_name="bottle", device="cpu")
    detector.fit([make_picture(seed) for seed in range(1, 1 + shots)])
    query = pixels_of(folder, 7)
    text, zero_shot = loops.zero_shot(query)
    reference = loops.association(query)
    image = next(detector.encoder_.encode([load_image(make_picture(7))]).images())
    assert np.allclose(detector.association(image).reshape(GRID, GRID), reference, atol=1e-5)
    result = detector.predict(make_picture(7))
    assert np.allclose(result.anomaly_map, (zero_shot + reference) / 2, atol=1e-5)
    assert result.score == pytest.approx((text + reference.max()) / 2, abs=1e-5)


def test_places_without_a_window_are_no_references(saved: tuple[str, Any]) -> None:
    """Windows that look away from all references are farther than nothing would be."""
    detector = WinCLIP(saved[0], device="cpu").fit(make_picture(1))
    tokens = detector.encoder_.encode([load_image(make_picture(1))])
    away = next(Tokens(-tokens.patches, tokens.cls).images())
    assert not away.patches[1].any(axis=-1).all()
    assert float(detector.association(away).min()) > 0.5


@pytest.mark.parametrize("backbone", ["clip-vitb16", "dinov2-vits14", "tiny"])
def test_an_encoder_without_text_is_refused(backbone: str, tiny: str) -> None:
    name = tiny if backbone == "tiny" else backbone
    with pytest.raises(UsageError) as caught:
        WinCLIP(name)
    sentence = str(caught.value)
    assert sentence.startswith(f"{name} has no text tower; WinCLIP needs a CLIP with both towers")
    assert "clip-vitb16-text" in sentence
    assert "tokenizer files" in sentence
    assert WinCLIP.rows(name) == {}


def test_a_folder_that_lacks_a_part_is_named(tmp_path: Path) -> None:
    save_clip(tmp_path)
    (tmp_path / "merges.txt").rename(tmp_path / "merges.kept")
    assert not can_read(find_spec(str(tmp_path)))
    with raises(EncoderError, "tokenizer-missing"):
        WinCLIP(str(tmp_path)).text_  # noqa: B018
    (tmp_path / "merges.kept").rename(tmp_path / "merges.txt")
    assert can_read(find_spec(str(tmp_path)))
    assert set(WinCLIP.rows(str(tmp_path))) == {"winclip", "winclip, zero-shot"}
    weights = load_file(tmp_path / "model.safetensors")
    seeing = {name: each for name, each in weights.items() if not name.startswith("text_model")}
    save_file(seeing, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert not can_read(find_spec(str(tmp_path)))
    with raises(EncoderError, "winclip-without-text"):
        WinCLIP(str(tmp_path)).text_  # noqa: B018
    (tmp_path / "vocab.json").write_text(json.dumps(["no", "vocabulary"]))
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with raises(EncoderError, "tokenizer-unreadable"):
        WinCLIP(str(tmp_path)).text_  # noqa: B018


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"resolution": 16}, "winclip-resolution"),
        ({"class_name": " "}, "peer-option-range"),
        ({"rotations": 8}, "peer-option-unknown"),
    ],
)
def test_bad_options_are_refused(
    options: dict[str, object], code: str, saved: tuple[str, Any]
) -> None:
    with raises(UsageError, code):
        make_peer("winclip", saved[0], **options)


def test_the_encoder_reads_only_in_this_form(saved: tuple[str, Any]) -> None:
    spec = find_spec(saved[0])
    assert not isinstance(load_encoder(spec.settings(), device="cpu"), WindowEncoder)
    settings = spec.settings_of(WindowSettings, (3,))
    assert settings.planes == ("patches", "2x2", "3x3")
    assert isinstance(load_encoder(settings, device="cpu", engine="openvino"), WindowEncoder)
