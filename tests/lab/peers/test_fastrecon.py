"""FastRecon against the closed form of its paper, and against the problem that it solves."""

import numpy as np
import pytest

from hyperfsad.lab.peers import FastRecon
from hyperfsad.lab.peers.fastrecon import span
from hyperfsad.lab.peers.features import greedy_coreset
from tests.lab.peers.samples import GRID, PATCHES, pooled_by_hand, random_bank, random_image, unit


@pytest.mark.parametrize("shots", [1, 2, 4])
@pytest.mark.parametrize("weight", [0.0, 2.0, 10.0])
def test_it_is_the_closed_form(shots: int, weight: float, tiny: str) -> None:
    bank, image = random_bank(shots), random_image()
    detector = FastRecon(tiny, resolution=84, fraction=0.2, regularisation=weight).remember(bank)
    normal = pooled_by_hand(bank.patches, shots)
    support = normal[greedy_coreset(normal.astype(np.float32), int(0.2 * len(normal)))]
    mean = normal.reshape(shots, PATCHES, -1).mean(axis=0)
    query = pooled_by_hand(image.patches, 1)
    gram = support @ support.T
    weights = (query @ support.T + weight * mean @ support.T) @ np.linalg.inv(gram + weight * gram)
    expected = np.linalg.norm(query - weights @ support, axis=1)
    scores = detector.patch_scores(image)
    assert np.allclose(scores, expected, atol=1e-5)
    score = detector.image_score(scores.reshape(GRID, GRID), image)
    assert score == pytest.approx(expected.max(), abs=1e-5)


def test_a_support_too_large_to_invert_leaves_the_distance_to_the_mean(tiny: str) -> None:
    """144 features of 64 dimensions span everything: only the regularisation is left."""
    bank, image = random_bank(4), random_image()
    detector = FastRecon(tiny, resolution=84, fraction=1.0, regularisation=2.0).remember(bank)
    mean = pooled_by_hand(bank.patches, 4).reshape(4, PATCHES, -1).mean(axis=0)
    expected = 2 / 3 * np.linalg.norm(pooled_by_hand(image.patches, 1) - mean, axis=1)
    assert np.allclose(detector.patch_scores(image), expected, atol=1e-5)


def test_equal_rows_span_no_more_than_one() -> None:
    rows = unit(3, 20, seed=1)
    basis = span(np.concatenate([rows, rows, 2 * rows]))
    assert basis.shape == (3, 20)
    assert np.allclose(basis @ basis.T, np.eye(3), atol=1e-6)
    assert np.allclose(rows @ basis.T @ basis, rows, atol=1e-6)
