"""One graph gives the scores and maps of the detector, in both runtimes and for any batch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from hyperfsad.arrays import like
from hyperfsad.export.matching import MissingGraph
from hyperfsad.method.missing import MIN_SHOWN
from tests.conftest import make_picture
from tests.detector.test_turning import part
from tests.export.exporting import KINDS, differences, exported, fitted, graph_of, pixels_of
from tests.method.test_missing import GRID, photographed, piece, scene, token_of, with_pieces
from tests.method.test_missing import fitted as pieces_of

TOLERANCE = 1e-4


def queries() -> list[Image.Image]:
    return [make_picture(seed) for seed in (0, 20, 21, 22)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shots", [1, 4])
@pytest.mark.parametrize("recipe", ["default", "paper-offline"])
def test_scores_and_maps_are_those_of_the_detector(
    recipe: str, shots: int, kind: str, tiny: str, tmp_path: Path
) -> None:
    detector = fitted(tiny, recipe, shots)
    model = exported(detector, tmp_path / "model", kind)
    off = differences(detector, model(pixels_of(queries())), queries())
    assert max(off.values()) <= TOLERANCE, off


def noisy(seed: int, *, blank: int = 0) -> Image.Image:
    """A part whose first columns may be blank; noise makes each another photograph."""
    noise = np.random.default_rng(seed).normal(0, 20, (84, 84, 3))
    values = np.clip(np.asarray(make_picture(5, (84, 84))) + noise, 0, 255)
    values[:, :blank] = 255
    return Image.fromarray(values.astype(np.uint8))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shots", [2, 6])
def test_missing_pieces_are_found(shots: int, kind: str, tiny: str, tmp_path: Path) -> None:
    """With six good parts an image is asked about the four that it resembles most."""
    good = [noisy(seed) for seed in range(shots)]
    detector = fitted(tiny, "default", shots, pictures=good, rotations=1)
    model = exported(detector, tmp_path / "model", kind)
    asked = [noisy(30), noisy(31, blank=42), noisy(32, blank=84), *queries()[1:]]
    found = model(pixels_of(asked))
    off = differences(detector, found, asked)
    assert max(off.values()) <= TOLERANCE, off
    assert found["score_missing"][0] == 0 < found["score_missing"][2]
    assert found["map_missing"][2].max() > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rotations", [2, 8])
def test_turned_copies_are_part_of_the_memory(
    rotations: int, kind: str, tiny: str, tmp_path: Path
) -> None:
    good = [part(angle, seed) for seed, angle in enumerate((0, 90))]
    detector = fitted(tiny, "paper-offline", 2, pictures=good, rotations=rotations)
    model = exported(detector, tmp_path / "model", kind)
    asked = [part(45, 7), part(180, 8), *queries()[1:]]
    off = differences(detector, model(pixels_of(asked)), asked)
    assert max(off.values()) <= TOLERANCE, off


def test_tentative_copies_count_where_they_fit_clearly_better(tiny: str, tmp_path: Path) -> None:
    good = [part(0, 0)]
    detector = fitted(tiny, "default", 1, pictures=good)
    assert detector.tentative_
    model = exported(detector, tmp_path / "model", "onnx")
    asked = [part(0, 5), part(90, 6), part(180, 7), *queries()]
    off = differences(detector, model(pixels_of(asked)), asked)
    assert max(off.values()) <= TOLERANCE, off
    upright = fitted(tiny, "default", 1, pictures=good, rotations=1)
    changed = [abs(upright.predict(one).score - detector.predict(one).score) for one in asked]
    assert min(changed) < 1e-6 < 1e-3 < max(changed)


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_has_the_same_scores_in_any_company(kind: str, tiny: str, tmp_path: Path) -> None:
    model = exported(fitted(tiny, "default", 2), tmp_path / "model", kind)
    pixels = pixels_of(queries())
    together = model(pixels)
    for number in range(len(pixels)):
        alone = model(pixels[number : number + 1])
        assert alone["map"].shape == (1, 6, 6)
        assert np.abs(alone["map"][0] - together["map"][number]).max() < 1e-5
        assert abs(alone["score"][0] - together["score"][number]) < 1e-5


@pytest.mark.parametrize("shots", [2, 4, 7])
def test_a_batch_lacks_what_its_images_lack(shots: int) -> None:
    places = [(1, 1), (1, 9), (9, 1), (9, 9)]
    whole = with_pieces(scene(4), places, piece())
    pieces = pieces_of([photographed(whole, seed) for seed in range(shots)])
    asked = [
        photographed(with_pieces(scene(4), places[:3], piece()), 30),
        photographed(whole, 31),
        photographed(scene(4), 32),
        photographed(scene(9), 33),
    ]
    cls = [token_of(image) for image in asked]
    scores, added = MissingGraph(pieces, GRID)(stacked(asked), stacked(cls))
    expected = [pieces.find(image, token) for image, token in zip(asked, cls, strict=True)]
    assert max(one.score for one in expected) > MIN_SHOWN
    for number, one in enumerate(expected):
        assert abs(float(scores[number]) - one.score) < 1e-5
        assert np.allclose(added[number], np.asarray(one.on_map), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_of_nothing_lacks_the_same_in_a_graph(kind: str, tmp_path: Path) -> None:
    """Most of its patches are missed as much as can be."""
    pieces = pieces_of([photographed(scene(0), seed) for seed in range(5)])
    opposite = -np.asarray(pieces.images[0]).mean(axis=0)
    nothing = [opposite + 1e-3 * np.asarray(scene(seed)).reshape(GRID**2, -1) for seed in (5, 6)]
    patches = np.stack([each / np.linalg.norm(each, axis=1, keepdims=True) for each in nothing])
    cls = np.stack([each.mean(axis=0) for each in patches])
    cls /= np.linalg.norm(cls, axis=1, keepdims=True)
    shape = patches.shape[1:]
    run = graph_of(MissingGraph(pieces, GRID), kind, tmp_path, patches=shape, cls=shape[1:])
    added = run(patches=patches, cls=cls)[1]
    for number, (image, token) in enumerate(zip(patches, cls, strict=True)):
        expected = pieces.find(like(image, pieces.cls), like(token, pieces.cls))
        assert (expected.on_map == 1).sum() > GRID**2 / 2
        assert np.abs(added[number] - np.asarray(expected.on_map)).max() < 1e-5


def stacked(arrays: Sequence[Any]) -> NDArray[np.float32]:
    return np.stack([np.asarray(each) for each in arrays])
