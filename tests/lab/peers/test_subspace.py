"""SubspaceAD against textbook principal components."""

import numpy as np
import pytest

from hyperfsad.lab.peers import SubspaceAD, subspace
from hyperfsad.lab.peers.subspace import principal_subspace
from tests.lab.peers.samples import random_bank, random_image, unit


@pytest.mark.parametrize("shots", [1, 2, 4])
@pytest.mark.parametrize("variance", [0.5, 0.9, 0.99])
def test_it_is_the_textbook_residual(shots: int, variance: float, tiny: str) -> None:
    bank, image = random_bank(shots), random_image()
    detector = SubspaceAD(tiny, resolution=84, variance=variance).remember(bank)
    normal = np.mean([layer.astype(np.float64) for layer in bank.patches], axis=0)
    query = np.mean([layer.astype(np.float64) for layer in image.patches], axis=0)
    mean = normal.mean(axis=0)
    _, lengths, axes = np.linalg.svd(normal - mean, full_matrices=False)
    share = np.cumsum(lengths**2) / np.sum(lengths**2)
    kept = axes[: int(np.argmax(share >= variance)) + 1]
    residual = (query - mean) - (query - mean) @ kept.T @ kept
    assert detector.components_.shape == (16, len(kept))
    assert np.allclose(detector.patch_scores(image), (residual**2).sum(axis=1), atol=1e-6)


def test_what_lies_in_the_subspace_scores_nothing() -> None:
    plane = unit(40, 2, seed=1) @ unit(2, 12, seed=2) + 3
    mean, axes = principal_subspace(plane, 0.999)
    assert axes.shape == (12, 2)
    assert np.allclose(axes.T @ axes, np.eye(2), atol=1e-6)
    other = 5 * unit(10, 2, seed=3) @ unit(2, 12, seed=2) + 3 - mean
    assert np.allclose(other, other @ axes @ axes.T, atol=1e-5)


def test_the_subspace_in_parts_is_that_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    features = unit(90, 8, seed=4)
    mean, axes = principal_subspace(features, 0.9)
    monkeypatch.setattr(subspace, "SIMILARITIES_AT_ONCE", 1)
    mean_of_parts, axes_of_parts = principal_subspace(features, 0.9)
    assert np.allclose(mean, mean_of_parts, atol=1e-6)
    assert np.allclose(axes @ axes.T, axes_of_parts @ axes_of_parts.T, atol=1e-6)


def test_equal_patches_make_a_point() -> None:
    mean, axes = principal_subspace(np.ones((5, 4), dtype=np.float32), 0.99)
    assert np.array_equal(mean, np.ones(4))
    assert np.isfinite(axes).all()
