"""Nearest neighbour against a double loop, and support images in eight orientations."""

import numpy as np
import pytest
from PIL import Image

from hyperfsad.images.geometry import rotated_copies
from hyperfsad.images.loading import LoadedImage
from hyperfsad.lab.peers import NearestNeighbour
from hyperfsad.lab.peers.features import best_similarity, nearest_distance, top_percent
from hyperfsad.method import lookups
from tests.conftest import make_picture
from tests.lab.peers.samples import PATCHES, distances, random_bank, random_image, unit


@pytest.mark.parametrize("shots", [1, 2, 4])
def test_it_is_the_double_loop(shots: int, tiny: str) -> None:
    bank, image = random_bank(shots), random_image()
    detector = NearestNeighbour(tiny, resolution=84).remember(bank)
    expected = [
        sum(
            min(1 - float(query[patch] @ normal) for normal in layer)
            for query, layer in zip(image.patches, bank.patches, strict=True)
        )
        / 4
        for patch in range(PATCHES)
    ]
    assert np.allclose(detector.patch_scores(image), expected, atol=1e-6)


def test_the_image_score_is_the_mean_of_the_largest_hundredth() -> None:
    values = np.arange(1024, dtype=np.float32).reshape(32, 32)
    assert top_percent(values) == pytest.approx(np.arange(1014, 1024).mean())
    assert top_percent(values[:6, :6]) == values[5, 5]  # fewer than a hundred: the largest


@pytest.mark.parametrize("chunk", [1, 300, 1 << 22])
def test_searches_in_chunks_are_those_at_once(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    queries, memory = unit(50, 8, seed=1), 3 * unit(70, 8, seed=2)
    pairs = distances(queries, memory)
    monkeypatch.setattr(lookups, "SIMILARITIES_AT_ONCE", chunk)
    assert np.allclose(nearest_distance(queries, memory), pairs.min(axis=1), atol=1e-6)
    best = best_similarity(queries, memory)
    assert np.allclose(best, (queries @ memory.T).max(axis=1), atol=1e-6)


def test_eight_rotations_are_remembered(tiny: str) -> None:
    detector = NearestNeighbour(tiny, resolution=84, device="cpu", rotations=8, batch_size=3)
    square = make_picture(1, (84, 84))
    detector.fit([square, make_picture(2, (84, 84))])
    assert len(detector.memory_) == 16
    assert len({image.sha256 for image in detector.memory_.images}) == 2
    plain = NearestNeighbour(tiny, resolution=84, device="cpu").fit([square])
    lying = square.transpose(Image.Transpose.ROTATE_90)
    assert detector.predict(lying).score < 1e-5 < plain.predict(lying).score
    assert plain.predict(square).score < 1e-5


def test_turning_keeps_size_mode_and_name() -> None:
    grey = Image.fromarray(np.linspace(0, 255, 30 * 20, dtype=np.float32).reshape(20, 30))
    for pixels in (make_picture(1, (30, 20)), grey):
        views = rotated_copies(LoadedImage("part", pixels), 8)
        assert len(views) == 8
        assert views[0].pixels is pixels
        assert {(view.size, view.pixels.mode, view.name) for view in views} == {
            ((30, 20), pixels.mode, "part")
        }
        half = np.asarray(views[4].pixels, dtype=float)
        assert np.allclose(half, np.asarray(pixels, dtype=float)[::-1, ::-1], atol=1)
