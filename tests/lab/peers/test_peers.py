"""What holds for every peer: the registry, the public door, determinism, the colour scale."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hyperfsad import UsageError
from hyperfsad.encoders.encoder import Tokens
from hyperfsad.images.loading import NormalImage
from hyperfsad.lab.peers import PEERS, SAME_TOKENS, make_peer
from hyperfsad.lab.peers.peer import Peer, good_scores
from hyperfsad.method.memory import MemoryBank
from hyperfsad.views.view import SPAN
from tests.codes import raises
from tests.conftest import make_picture
from tests.lab.peers.samples import GRID, PATCHES, image_of, random_bank, random_image, unit

SMOOTHING = {"nearest": 4.0, "patchcore": 4.0, "subspace": 4.0, "fastrecon": 4.0, "rad": 1.0}
SMOOTHING |= {"subspace-authors": 0.31, "fastrecon-authors": 4.0, "winclip": 0.0}


def peer(name: str, tiny: str, **options: object) -> Peer:
    return make_peer(name, tiny, resolution=84, device="cpu", **options)


def test_the_registry() -> None:
    assert {name: kind.smoothing for name, kind in PEERS.items()} == SMOOTHING


@pytest.mark.parametrize("name", SAME_TOKENS)
def test_through_the_public_door(name: str, tiny: str, photos: Path) -> None:
    detector = peer(name, tiny).fit([photos / "0.png", photos / "1.png"])
    result = detector.predict(photos / "2.png")
    assert result.anomaly_map.shape == (GRID, GRID)
    assert result.anomaly_map.dtype == np.float32
    assert np.isfinite(result.anomaly_map).all()
    assert result.anomaly_map.min() >= 0
    assert 0 < result.score == result.score_map <= result.anomaly_map.max() + 1e-6
    assert result.score_cls == 0.0
    torch.manual_seed(1)  # nothing may depend on it
    twin = peer(name, tiny).fit([photos / "0.png", photos / "1.png"])
    again = twin.predict(photos / "2.png")
    assert np.array_equal(result.anomaly_map, again.anomaly_map)
    assert (result.score, detector.scale_) == (again.score, twin.scale_)


@pytest.mark.parametrize("name", SAME_TOKENS)
def test_extending_equals_fitting_at_once(name: str, tiny: str) -> None:
    pictures = [make_picture(seed) for seed in range(3)]
    whole = peer(name, tiny).fit(pictures).predict(make_picture(9))
    grown = peer(name, tiny).fit(pictures[:1]).extend(pictures[1:]).predict(make_picture(9))
    assert np.array_equal(whole.anomaly_map, grown.anomaly_map)
    assert whole.score == grown.score


@pytest.mark.parametrize("name", SAME_TOKENS)
@pytest.mark.parametrize("shots", [1, 2, 4])
def test_a_strange_spot_stands_out(name: str, shots: int, tiny: str) -> None:
    """Images of one texture; then one with 3×3 patches of another kind."""
    generator = torch.Generator().manual_seed(3)
    texture = torch.zeros(16)
    texture[0] = 1

    def textured(images: int) -> Tokens:
        noise = 0.05 * torch.randn(images, 4, PATCHES, 16, generator=generator)
        tokens = torch.nn.functional.normalize(texture + noise, dim=-1)
        return Tokens(tokens, tokens[:, :, 0])

    support = random_bank(shots).images
    detector = peer(name, tiny).remember(MemoryBank.of(textured(shots), support))
    good = textured(1)
    bad = good.patches.clone()
    spot = [row * GRID + column for row in (1, 2, 3) for column in (1, 2, 3)]
    bad[:, :, spot] = torch.nn.functional.normalize(torch.arange(16.0) - 7, dim=0)
    calm, wild = detector.score_tokens(good)[0], detector.score_tokens(Tokens(bad, good.cls))[0]
    assert int(wild.anomaly_map.argmax()) in spot
    assert wild.score > 2 * calm.score
    assert wild.anomaly_map[2, 2] > detector.scale_[0]


@pytest.mark.parametrize("name", SAME_TOKENS)
@pytest.mark.parametrize("shots", [1, 3])
def test_the_colour_scale_is_positive_and_leaves_the_detector_alone(
    name: str, shots: int, tiny: str
) -> None:
    detector = peer(name, tiny).remember(random_bank(shots))
    before = detector.patch_scores(random_image())
    low, high = detector.scale_
    assert 0 < low < high < np.inf
    assert high == SPAN * low
    assert torch.equal(detector.patch_scores(random_image()), before)
    assert len(detector.memory_) == shots


def test_the_colour_scale_leaves_each_image_out(tiny: str) -> None:
    bank = random_bank(3)
    detector = peer("nearest", tiny).remember(bank)
    scores = []
    for index in range(3):
        others = [i for i in range(3) if i != index]
        for patch in range(PATCHES):
            layers = []
            for layer in bank.patches:
                normal = torch.cat([layer[i * PATCHES : (i + 1) * PATCHES] for i in others])
                layers.append(1 - float((normal @ layer[index * PATCHES + patch]).max()))
            scores.append(sum(layers) / len(layers))
    assert detector.scale_[0] == pytest.approx(np.quantile(scores, 0.99), abs=1e-6)


@pytest.mark.parametrize("grid", [5, 6])
def test_the_colour_scale_of_a_lone_image_asks_one_half_of_the_other(grid: int, tiny: str) -> None:
    patches = unit(1, 4, grid * grid, 16, seed=0)
    bank = MemoryBank.of(Tokens(patches, patches[:, :, 0]), [NormalImage("part", "hash")])
    detector = make_peer("nearest", tiny, resolution=14 * grid, device="cpu").remember(bank)
    black = [i for i in range(grid * grid) if sum(divmod(i, grid)) % 2 == 0]
    white = [i for i in range(grid * grid) if sum(divmod(i, grid)) % 2 == 1]
    scores = [
        sum(1 - float((layer[black] @ layer[patch]).max()) for layer in bank.patches) / 4
        for patch in white
    ]
    found = good_scores(detector)
    assert np.allclose(sorted(found.tolist()), sorted(scores), atol=1e-6)
    assert detector.scale_[0] == pytest.approx(np.quantile(scores, 0.99), abs=1e-6)


def test_turned_views_of_an_image_are_left_out_with_it(tiny: str) -> None:
    """Two images of which one is there twice: its copy must not explain it."""
    bank = random_bank(2)
    doubled = MemoryBank.joined([bank, bank.without(1)])
    detector = peer("nearest", tiny)
    assert detector.remember(doubled).scale_ == detector.remember(bank).scale_


@pytest.mark.parametrize("name", SAME_TOKENS)
@pytest.mark.parametrize("resolution", [14, 42])
def test_small_and_odd_grids_have_a_scale(name: str, resolution: int, tiny: str) -> None:
    detector = make_peer(name, tiny, resolution=resolution, device="cpu").fit(make_picture(1))
    low, high = detector.scale_
    assert 0 < low < high < np.inf


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("nearest", {"rotations": 4}, "peer-rotations"),
        ("subspace", {"rotations": 2}, "peer-rotations"),
        ("subspace", {"variance": 1.0}, "variance-range"),
        ("patchcore", {"fraction": 0.0}, "coreset-fraction-range"),
        ("patchcore", {"neighbours": 1}, "neighbours-range"),
        ("fastrecon", {"fraction": 1.5}, "coreset-fraction-range"),
        ("fastrecon", {"regularisation": -1.0}, "regularisation-range"),
        ("rad", {"retrieved": 0}, "retrieved-range"),
        ("rad", {"radius": -1}, "rad-radius-range"),
        ("nearest", {"radius": 1}, "peer-option-unknown"),
        ("padim", {}, "peer-unknown"),
    ],
)
def test_bad_options_are_refused(
    name: str, options: dict[str, object], code: str, tiny: str
) -> None:
    with raises(UsageError, code):
        make_peer(name, tiny, **options)


@pytest.mark.parametrize(
    ("name", "options"), [("nearest", {}), ("patchcore", {"fraction": 1.0}), ("rad", {"radius": 0})]
)
@pytest.mark.parametrize("shots", [1, 2, 4])
def test_a_support_patch_has_no_distance(
    name: str, options: dict[str, object], shots: int, tiny: str
) -> None:
    bank = random_bank(shots)
    detector = peer(name, tiny, **options).remember(bank)
    for index in range(shots):
        scores = detector.patch_scores(image_of(bank, index))
        assert scores.shape == (PATCHES,)
        assert float(scores.max()) < 1e-5
