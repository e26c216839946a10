"""The greedy coreset picks the farthest feature each time, and so covers the others."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from hyperfsad.lab.peers.features import greedy_coreset
from tests.lab.peers.samples import unit


def picked_by_hand(features: Tensor, count: int) -> list[int]:
    points = features.double().tolist()

    def distance(a: list[float], b: list[float]) -> float:
        return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))

    mean = features.double().mean(dim=0).tolist()
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
    pairs = torch.cdist(features.double(), features.double())
    radii = [float(pairs[:, picked[:n]].min(dim=1).values.max()) for n in range(1, 201)]
    assert all(after <= before for before, after in pairwise(radii))
    assert radii[-1] == pytest.approx(0, abs=1e-6)


def test_the_projection_is_seeded_and_used_for_the_choice_only() -> None:
    features = unit(300, 500, seed=3)
    first = greedy_coreset(features, 30)
    torch.manual_seed(123)
    assert torch.equal(first, greedy_coreset(features, 30))
    assert not torch.equal(first, greedy_coreset(features, 30, seed=1))
    assert not torch.equal(first, greedy_coreset(features, 30, dimensions=500))


def test_equal_features_are_never_picked_twice() -> None:
    picked = greedy_coreset(torch.ones(5, 3), 9)
    assert sorted(picked.tolist()) == list(range(5))
