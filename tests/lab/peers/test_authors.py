"""SubspaceAD and FastRecon with their authors' settings, against plain numpy on raw tokens."""

from dataclasses import fields

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.encoders import EncoderSettings, find_spec
from hyperfsad.encoders.encoder import load_encoder
from hyperfsad.encoders.specs import MeanSettings, RawSettings
from hyperfsad.encoders.weights import fetch
from hyperfsad.images.geometry import rotate
from hyperfsad.images.loading import load_image
from hyperfsad.lab.peers import FastReconAuthors, SubspaceADAuthors
from hyperfsad.lab.peers.authors import at_same_depth
from hyperfsad.lab.peers.features import greedy_coreset
from tests.conftest import make_picture

torch = pytest.importorskip("torch")

Array = NDArray[np.float64]


def raw_states(tiny: str, seed: int, layers: tuple[int, ...], side: int, angle: float = 0) -> Array:
    """Hidden states of `transformers` as they are, without CLS and registers: (layers, N, D)."""
    from hyperfsad.encoders.torch_engine import load_model

    spec = find_spec(tiny)
    model = load_model(fetch(spec), spec.family, spec.depth)
    image = rotate(load_image(make_picture(seed)), angle)
    pixels = torch.from_numpy(image.to_array(side, spec.mean, spec.std))[None]
    with torch.inference_mode():
        states = model(pixel_values=pixels, output_hidden_states=True).hidden_states
    return np.stack([states[layer][0, 5:].double().numpy() for layer in layers])


def test_the_blocks_are_as_deep_as_theirs() -> None:
    theirs = tuple(range(23, 30))
    assert at_same_depth(theirs, 40, 40) == theirs
    assert at_same_depth(theirs, 40, 12) == (7, 8, 9)
    assert at_same_depth((2, 3), 4, 12) == (6, 9)
    assert at_same_depth(theirs, 40, 1) == (1,)


def test_their_settings_on_the_substitute() -> None:
    subspace, fastrecon = SubspaceADAuthors(), FastReconAuthors()
    assert isinstance(subspace.encoding_, MeanSettings)
    assert (subspace.encoding_.layers, subspace.encoding_.resolution) == ((7, 8, 9), 672)
    assert len(subspace.encoding_.planes) == 1
    assert isinstance(fastrecon.encoding_, RawSettings)
    assert (fastrecon.encoding_.layers, fastrecon.encoding_.grid) == ((6, 9), 28)
    assert (subspace.variance, fastrecon.fraction, fastrecon.regularisation) == (0.99, 0.15, 2.0)
    assert len(subspace.angles) == 31
    assert subspace.angles[0] == 0
    assert all(0 < angle < 345 for angle in subspace.angles[1:])
    assert FastReconAuthors("clip-vitb16").encoding_.resolution == 448


def test_a_row_says_that_the_encoder_is_not_theirs() -> None:
    for kind in (SubspaceADAuthors, FastReconAuthors):
        (label,) = kind.rows("dinov2-vits14")
        assert label.endswith("authors' settings on another encoder")


def test_other_forms_are_no_part_of_what_detectors_store(tiny: str) -> None:
    spec = find_spec(tiny)
    stored = {each.name for each in fields(EncoderSettings)}
    for kind in (MeanSettings, RawSettings):
        assert {each.name for each in fields(kind)} == stored
        assert spec.settings_of(kind, (1, 2)) != spec.settings((1, 2))


@pytest.mark.parametrize("kind", [MeanSettings, RawSettings])
def test_tokens_keep_the_length_that_the_model_gave_them(
    kind: type[EncoderSettings], tiny: str
) -> None:
    settings = find_spec(tiny).settings_of(kind, (2, 4), 84)
    found = load_encoder(settings, device="cpu", engine="openvino").encode(
        [load_image(make_picture(3))]
    )
    expected = raw_states(tiny, 3, (2, 4), 84)
    if kind is MeanSettings:
        expected = expected.mean(axis=0, keepdims=True)
    assert np.allclose(found.patches[0], expected, atol=1e-4)
    assert np.linalg.norm(expected, axis=-1).std() > 0.1


def test_subspace_is_the_textbook_on_31_views_of_raw_tokens(tiny: str) -> None:
    detector = SubspaceADAuthors(tiny, layers=(2, 3), resolution=84, variance=0.9, device="cpu")
    detector.fit([make_picture(1), make_picture(2)])
    assert len(detector.memory_) == 62
    views = [
        raw_states(tiny, seed, (2, 3), 84, angle).mean(axis=0)
        for seed in (1, 2)
        for angle in detector.angles
    ]
    normal = np.concatenate(views)
    mean = normal.mean(axis=0)
    _, lengths, axes = np.linalg.svd(normal - mean, full_matrices=False)
    share = np.cumsum(lengths**2) / np.sum(lengths**2)
    kept = axes[: int(np.argmax(share >= 0.9)) + 1]
    centred = raw_states(tiny, 9, (2, 3), 84).mean(axis=0) - mean
    expected = ((centred - centred @ kept.T @ kept) ** 2).sum(axis=1).reshape(6, 6)
    result = detector.predict(make_picture(9))
    assert np.allclose(result.anomaly_map, expected, rtol=1e-3, atol=1e-4)
    large = by_hand(expected, 84)
    hundredth = np.sort(large.ravel())[-(84 * 84 // 100) :].mean()
    assert result.score == pytest.approx(hundredth, rel=1e-3)


def by_hand(small: Array, size: int) -> Array:
    """Bilinear with half-pixel centres, then 3×3 weights of a Gaussian, mirrored at the border."""
    side = len(small)
    large = np.zeros((size, size))
    spots = [min(max((i + 0.5) * side / size - 0.5, 0), side - 1) for i in range(size)]
    for i, y in enumerate(spots):
        for j, x in enumerate(spots):
            top, left = int(y), int(x)
            bottom, right = min(top + 1, side - 1), min(left + 1, side - 1)
            down, across = y - top, x - left
            upper = (1 - across) * small[top, left] + across * small[top, right]
            lower = (1 - across) * small[bottom, left] + across * small[bottom, right]
            large[i, j] = (1 - down) * upper + down * lower
    edge = np.exp(-1 / 32)
    weights = np.array([edge, 1, edge]) / (1 + 2 * edge)
    padded = np.pad(large, 1, mode="reflect")
    result = np.zeros_like(large)
    for i in range(3):
        for j in range(3):
            result += weights[i] * weights[j] * padded[i : i + size, j : j + size]
    return result


def test_fastrecon_is_the_closed_form_on_raw_tokens(tiny: str) -> None:
    detector = FastReconAuthors(tiny, resolution=84, fraction=0.2, device="cpu")
    assert detector.encoding_.layers == (2, 3)
    detector.fit([make_picture(1), make_picture(2)])

    def features(seed: int) -> Array:
        sides = []
        for layer in raw_states(tiny, seed, (2, 3), 84):
            framed = np.pad(layer.reshape(6, 6, -1), ((1, 1), (1, 1), (0, 0)))
            sums = sum(framed[i : i + 6, j : j + 6] for i in range(3) for j in range(3))
            sides.append(np.asarray(sums).reshape(36, -1) / 9)
        return np.concatenate(sides, axis=1)

    normal = np.concatenate([features(1), features(2)])
    picked = greedy_coreset(normal.astype(np.float32), int(0.2 * len(normal)))
    support = normal[picked]
    mean = normal.reshape(2, 36, -1).mean(axis=0)
    query = features(9)
    gram = support @ support.T
    weights = (query @ support.T + 2 * mean @ support.T) @ np.linalg.inv(3 * gram)
    expected = np.linalg.norm(query - weights @ support, axis=1)
    result = detector.predict(make_picture(9))
    assert np.allclose(result.anomaly_map.ravel(), expected, rtol=1e-3)
    assert result.score == pytest.approx(expected.max(), rel=1e-3)
