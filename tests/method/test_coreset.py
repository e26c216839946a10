"""Coresets of the memory bank: how many rows, which, and what they change at most."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.arrays import to_numpy
from hyperfsad.method import coreset
from hyperfsad.method.coreset import compact_count, cover
from hyperfsad.method.matching import MemoryLayer

from .kinds import Maker, all_made, every_kind, noise, unit

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

SHARPNESS = 64.0


@pytest.fixture(scope="module")
def layers() -> list[Floats]:
    """Two layers of 900 tokens around 40 places."""
    near = np.random.default_rng(1).integers(40, size=900)
    places = noise(2, 40, 32, seed=2)[:, near]
    return list(unit(places + np.float32(0.1) * noise(2, 900, 32, seed=3)))


def scores(layers: list[Floats], kept: Mask, queries: list[Floats]) -> Floats:
    found = [
        MemoryLayer(rows[kept], "sparsemax", SHARPNESS).distances(own)
        for rows, own in zip(layers, queries, strict=True)
    ]
    return np.asarray(np.mean(found, axis=0))


def distances(one: Floats, other: Floats) -> NDArray[np.float64]:
    apart = one.astype(np.float64)[:, None] - other.astype(np.float64)
    return np.asarray(np.linalg.norm(apart, axis=-1))


def true_radius(layers: list[Floats], kept: Mask) -> float:
    """The covering radius by all distances."""
    squares = np.mean([distances(rows, rows[kept]) ** 2 for rows in layers], axis=0)
    return float(np.sqrt(squares.min(axis=1).max()))


@every_kind
@pytest.mark.parametrize("count", [1, 40, 100, 450])
def test_it_keeps_as_many_as_asked_within_the_radius_and_the_bound(
    layers: list[Floats], made: Maker, count: int
) -> None:
    found = cover(all_made(made, layers), count)
    kept = to_numpy(found.kept)
    assert int(kept.sum()) == count
    assert true_radius(layers, kept) <= found.radius + 1e-5
    bound = found.bound(SHARPNESS)
    assert (bound is None) == (count == 1)
    if bound is not None:
        assert float(scores(layers, kept, layers).max()) <= bound + 1e-5


def test_any_patch_scores_at_most_what_its_distance_and_the_radius_allow(
    layers: list[Floats],
) -> None:
    own = unit(layers[0][:200] + np.float32(0.15) * noise(200, 32, seed=5))
    found = cover(layers[:1], 100)
    away = distances(own, layers[0]).min(axis=1)
    allowed = (away + found.radius) ** 2 / 2 + 1 / (2 * SHARPNESS)
    everything = np.ones(900, dtype=bool)
    compact, exact = (scores(layers[:1], kept, [own]) for kept in (found.kept, everything))
    assert (compact <= allowed + 1e-5).all()
    assert (np.abs(compact - exact) <= allowed + 1e-5).all()


def test_it_spreads_better_than_chance(layers: list[Floats]) -> None:
    found = cover(layers, 60)
    chance = np.zeros(900, dtype=bool)
    chance[np.random.default_rng(0).permutation(900)[:60]] = True
    assert true_radius(layers, found.kept) < 0.8 * true_radius(layers, chance)


@every_kind
def test_all_rows_change_nothing(layers: list[Floats], made: Maker) -> None:
    found = cover(all_made(made, layers), 2000)
    assert to_numpy(found.kept).all()
    assert found.radius == 0
    assert found.bound(SHARPNESS) == pytest.approx(1 / 128)


@every_kind
def test_it_is_always_the_same(layers: list[Floats], made: Maker) -> None:
    """Also whatever the library, and however many rows are taken at a time."""
    one, other = cover(layers, 77), cover(all_made(made, layers), 77)
    assert np.array_equal(one.kept, to_numpy(other.kept))
    assert one.radius == pytest.approx(other.radius, abs=1e-6)


def test_the_number_of_rows_at_once_changes_nothing(
    layers: list[Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cover(layers, 77)
    monkeypatch.setattr(coreset, "ROWS_AT_ONCE", 50)
    assert np.array_equal(cover(layers, 77).kept, whole.kept)


def test_copies_are_covered_without_any_distance() -> None:
    tokens = unit(noise(10, 16, seed=2))
    found = cover([np.tile(tokens, (5, 1))], 20)
    assert int(found.kept.sum()) == 20
    assert found.radius == pytest.approx(0, abs=1e-3)


def test_small_memories_stay_whole() -> None:
    assert compact_count(1024) == 1024
    assert compact_count(coreset.MIN_COMPACT) == coreset.MIN_COMPACT
    assert compact_count(16 * coreset.MIN_COMPACT) == 4 * coreset.MIN_COMPACT


def test_a_bound_that_says_nothing_is_none(layers: list[Floats]) -> None:
    assert math.isclose(cover(layers, 900).bound(1.0) or 0, 0.5)
    assert cover(layers, 1).bound(1.0) is None
