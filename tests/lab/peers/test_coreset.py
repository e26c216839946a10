"""The greedy coreset picks the farthest feature each time, and so covers the others."""

from itertools import pairwise

import numpy as np
import pytest

from hyperfsad.lab.peers.features import greedy_coreset, normal_draws
from tests.lab.peers.samples import Floats, distances, unit


def picked_by_hand(features: Floats, count: int) -> list[int]:
    points = features.tolist()

    def distance(a: list[float], b: list[float]) -> float:
        return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))

    mean = features.mean(axis=0, dtype=np.float64).tolist()
    picked = [max(range(len(points)), key=lambda i: distance(points[i], mean))]
    while len(picked) < count:
        rest = [i for i in range(len(points)) if i not in picked]
        picked.append(max(rest, key=lambda i: min(distance(points[i], points[j]) for j in picked)))
    return picked


@pytest.mark.parametrize("seed", range(3))
def test_without_projection_it_is_the_naive_greedy(seed: int) -> None:
    features = unit(60, 10, seed=seed)
    assert greedy_coreset(features, 20).tolist() == picked_by_hand(features, 20)


def test_the_radius_only_shrinks() -> None:
    features = unit(200, 160, seed=5)  # more dimensions than the projection keeps
    picked = greedy_coreset(features, 200)
    assert sorted(picked.tolist()) == list(range(200))
    pairs = distances(features, features)
    radii = [float(pairs[:, picked[:n]].min(axis=1).max()) for n in range(1, 201)]
    assert all(after <= before for before, after in pairwise(radii))
    assert radii[-1] == pytest.approx(0, abs=1e-6)


def test_the_projection_is_seeded_and_used_for_the_choice_only() -> None:
    features = unit(300, 500, seed=3)
    first = greedy_coreset(features, 30)
    np.random.seed(123)
    assert np.array_equal(first, greedy_coreset(features, 30))
    assert not np.array_equal(first, greedy_coreset(features, 30, seed=1))
    assert not np.array_equal(first, greedy_coreset(features, 30, dimensions=500))


def test_the_projection_is_drawn_as_torch_draws() -> None:
    torch = pytest.importorskip("torch")
    expected = torch.randn(500, 128, generator=torch.Generator().manual_seed(3)).numpy()
    assert np.allclose(normal_draws(500, 128, 3), expected, atol=1e-6)


def test_equal_features_are_never_picked_twice() -> None:
    picked = greedy_coreset(np.ones((5, 3), dtype=np.float32), 9)
    assert sorted(picked.tolist()) == list(range(5))
