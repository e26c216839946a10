"""Coresets of the memory bank: how many rows, which, and what they change at most."""

import math

import pytest
import torch
from torch import Tensor

from hyperfsad.method import coreset
from hyperfsad.method.coreset import compact_count, cover
from hyperfsad.method.matching import MemoryLayer

SHARPNESS = 64.0


@pytest.fixture(scope="module")
def layers() -> list[Tensor]:
    """Two layers of 900 tokens around 40 places."""
    random = torch.Generator().manual_seed(1)
    places = torch.randn(2, 40, 32, generator=random)
    near = torch.randint(40, (900,), generator=random)
    noise = torch.randn(2, 900, 32, generator=random)
    return list(torch.nn.functional.normalize(places[:, near] + 0.1 * noise, dim=-1))


def scores(layers: list[Tensor], kept: Tensor, queries: list[Tensor]) -> Tensor:
    found = [
        MemoryLayer(rows[kept], "sparsemax", SHARPNESS).distances(own)
        for rows, own in zip(layers, queries, strict=True)
    ]
    return torch.stack(found).mean(dim=0)


def true_radius(layers: list[Tensor], kept: Tensor) -> float:
    """The covering radius by all distances."""
    squares = torch.stack([torch.cdist(rows, rows[kept]).square() for rows in layers]).mean(dim=0)
    return float(squares.amin(dim=1).max().sqrt())


@pytest.mark.parametrize("count", [1, 40, 100, 450])
def test_it_keeps_as_many_as_asked_within_the_radius_and_the_bound(
    layers: list[Tensor], count: int
) -> None:
    found = cover(layers, count)
    assert int(found.kept.sum()) == count
    assert true_radius(layers, found.kept) <= found.radius + 1e-5
    bound = found.bound(SHARPNESS)
    assert (bound is None) == (count == 1)
    if bound is not None:
        assert float(scores(layers, found.kept, layers).max()) <= bound + 1e-5


def test_any_patch_scores_at_most_what_its_distance_and_the_radius_allow(
    layers: list[Tensor],
) -> None:
    random = torch.Generator().manual_seed(5)
    own = torch.nn.functional.normalize(
        layers[0][:200] + 0.15 * torch.randn(200, 32, generator=random), dim=1
    )
    found = cover(layers[:1], 100)
    away = torch.cdist(own, layers[0]).amin(dim=1)
    allowed = (away + found.radius).square() / 2 + 1 / (2 * SHARPNESS)
    everything = torch.ones(900, dtype=torch.bool)
    compact, exact = (scores(layers[:1], kept, [own]) for kept in (found.kept, everything))
    assert bool((compact <= allowed + 1e-5).all())
    assert bool(((compact - exact).abs() <= allowed + 1e-5).all())


def test_it_spreads_better_than_chance(layers: list[Tensor]) -> None:
    found = cover(layers, 60)
    chance = torch.zeros(900, dtype=torch.bool)
    chance[torch.randperm(900, generator=torch.Generator().manual_seed(0))[:60]] = True
    assert true_radius(layers, found.kept) < 0.8 * true_radius(layers, chance)


def test_all_rows_change_nothing(layers: list[Tensor]) -> None:
    found = cover(layers, 2000)
    assert bool(found.kept.all())
    assert found.radius == 0
    assert found.bound(SHARPNESS) == pytest.approx(1 / 128)


def test_it_is_always_the_same(layers: list[Tensor]) -> None:
    one, other = cover(layers, 77), cover(layers, 77)
    assert torch.equal(one.kept, other.kept)
    assert one.radius == other.radius


def test_copies_are_covered_without_any_distance() -> None:
    random = torch.Generator().manual_seed(2)
    tokens = torch.nn.functional.normalize(torch.randn(10, 16, generator=random), dim=1)
    found = cover([tokens.repeat(5, 1)], 20)
    assert int(found.kept.sum()) == 20
    assert found.radius == pytest.approx(0, abs=1e-3)


def test_small_memories_stay_whole() -> None:
    assert compact_count(1024) == 1024
    assert compact_count(coreset.MIN_COMPACT) == coreset.MIN_COMPACT
    assert compact_count(16 * coreset.MIN_COMPACT) == 4 * coreset.MIN_COMPACT


def test_a_bound_that_says_nothing_is_none(layers: list[Tensor]) -> None:
    assert math.isclose(cover(layers, 900).bound(1.0) or 0, 0.5)
    assert cover(layers, 1).bound(1.0) is None
