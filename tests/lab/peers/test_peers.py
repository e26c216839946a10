"""What holds for every peer: the registry, the public door, determinism, the colour scale."""

from pathlib import Path

import numpy as np
import pytest

from hyperfsad import UsageError
from hyperfsad.encoders.encoder import Tokens
from hyperfsad.lab.peers import PEERS, SAME_TOKENS, make_peer
from hyperfsad.lab.peers.peer import Peer
from hyperfsad.method.memory import MemoryBank
from tests.codes import raises
from tests.conftest import make_picture
from tests.lab.peers.samples import GRID, PATCHES, image_of, of_length_1, random_bank

SMOOTHING = {"nearest": 4.0, "patchcore": 4.0, "subspace": 4.0, "fastrecon": 4.0, "rad": 1.0}
SMOOTHING |= {"subspace-authors": 0.31, "fastrecon-authors": 4.0, "winclip": 0.0, "musc": 0.0}


def peer(name: str, tiny: str, **options: object) -> Peer:
    return make_peer(name, tiny, resolution=84, device="cpu", **options)


def test_the_registry() -> None:
    assert {name: kind.smoothing for name, kind in PEERS.items()} == SMOOTHING


@pytest.mark.parametrize("name", [*SAME_TOKENS, "subspace-authors", "fastrecon-authors"])
def test_through_the_public_door(name: str, tiny: str, photos: Path) -> None:
    detector = peer(name, tiny).fit([photos / "0.png", photos / "1.png"])
    result = detector.predict(photos / "2.png")
    assert result.anomaly_map.shape == (GRID, GRID)
    assert result.anomaly_map.dtype == np.float32
    assert np.isfinite(result.anomaly_map).all()
    assert result.anomaly_map.min() >= 0
    assert 0 < result.score == result.score_map <= result.anomaly_map.max() + 1e-6
    assert result.score_cls == 0.0
    np.random.seed(1)
    twin = peer(name, tiny).fit([photos / "0.png", photos / "1.png"])
    again = twin.predict(photos / "2.png")
    assert np.array_equal(result.anomaly_map, again.anomaly_map)
    assert result.score == again.score


@pytest.mark.parametrize("name", SAME_TOKENS)
@pytest.mark.parametrize("shots", [1, 2, 4])
def test_a_strange_spot_stands_out(name: str, shots: int, tiny: str) -> None:
    """Images of one texture; then one with 3×3 patches of another kind."""
    generator = np.random.default_rng(3)
    texture = np.eye(16, dtype=np.float32)[0]

    def textured(images: int) -> Tokens:
        noise = generator.standard_normal((images, 4, PATCHES, 16), dtype=np.float32)
        tokens = of_length_1(texture + 0.05 * noise)
        return Tokens(tokens, tokens[:, :, 0])

    support = random_bank(shots).images
    detector = peer(name, tiny).remember(MemoryBank.of(textured(shots), support))
    good = textured(1)
    bad = good.patches.copy()
    spot = [row * GRID + column for row in (1, 2, 3) for column in (1, 2, 3)]
    bad[:, :, spot] = of_length_1(np.arange(16, dtype=np.float32) - 7)
    calm, wild = detector.score_tokens(good)[0], detector.score_tokens(Tokens(bad, good.cls))[0]
    assert int(wild.anomaly_map.argmax()) in spot
    assert wild.score > 2 * calm.score


@pytest.mark.parametrize("name", SAME_TOKENS)
@pytest.mark.parametrize("resolution", [14, 42])
def test_small_and_odd_grids(name: str, resolution: int, tiny: str) -> None:
    detector = make_peer(name, tiny, resolution=resolution, device="cpu").fit(make_picture(1))
    assert np.isfinite(detector.predict(make_picture(2)).anomaly_map).all()


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("nearest", {"rotations": 4}, "peer-option-range"),
        ("subspace", {"rotations": 2}, "peer-option-range"),
        ("subspace", {"variance": 1.0}, "peer-option-range"),
        ("patchcore", {"fraction": 0.0}, "peer-option-range"),
        ("patchcore", {"neighbours": 1}, "peer-option-range"),
        ("fastrecon", {"fraction": 1.5}, "peer-option-range"),
        ("fastrecon", {"regularisation": -1.0}, "peer-option-range"),
        ("rad", {"retrieved": 0}, "peer-option-range"),
        ("rad", {"radius": -1}, "peer-option-range"),
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
