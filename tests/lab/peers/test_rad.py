"""RAD against loops over images, layers and places."""

import numpy as np
import pytest

from hyperfsad.lab.peers import RAD, NearestNeighbour
from tests.lab.peers.samples import GRID, PATCHES, image_of, random_bank, random_image


@pytest.mark.parametrize("shots", [1, 2, 4])
@pytest.mark.parametrize("radius", [0, 1, 2])
@pytest.mark.parametrize("retrieved", [1, 3, 150])
def test_it_is_the_loops(shots: int, radius: int, retrieved: int, tiny: str) -> None:
    bank, image = random_bank(shots), random_image()
    detector = RAD(tiny, resolution=84, retrieved=retrieved, radius=radius).remember(bank)
    alike = [float(bank.cls[i, -1] @ image.cls[-1]) for i in range(shots)]
    chosen = sorted(range(shots), key=lambda i: -alike[i])[:retrieved]
    expected = []
    for patch in range(PATCHES):
        row, column = divmod(patch, GRID)
        near = [
            other
            for other in range(PATCHES)
            if max(abs(other // GRID - row), abs(other % GRID - column)) <= radius
        ]
        layers = [
            min(1 - float(query[patch] @ layer[i * PATCHES + j]) for i in chosen for j in near)
            for query, layer in zip(image.patches, bank.patches, strict=True)
        ]
        expected.append(sum(layers) / len(layers))
    assert np.allclose(detector.patch_scores(image), expected, atol=1e-6)


def test_a_radius_beyond_the_grid_is_no_restriction(tiny: str) -> None:
    bank, image = random_bank(3), random_image()
    wide = RAD(tiny, resolution=84, radius=99).remember(bank).patch_scores(image)
    free = NearestNeighbour(tiny, resolution=84).remember(bank).patch_scores(image)
    assert np.allclose(wide, free, atol=1e-6)


def test_only_the_most_similar_image_answers(tiny: str) -> None:
    """An image is found by its last CLS token alone, and then explains itself."""
    bank = random_bank(4)
    detector = RAD(tiny, resolution=84, retrieved=1).remember(bank)
    found = image_of(bank, 2)
    assert float(detector.patch_scores(found).max()) < 1e-5
    lost = type(found)(found.patches, bank.cls[1])
    assert float(detector.patch_scores(lost).min()) > 0.1
