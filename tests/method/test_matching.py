"""Distances at each sharpness equal the formulas."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.arrays import to_numpy
from hyperfsad.encoders.encoder import Tokens
from hyperfsad.errors import UsageError
from hyperfsad.images.loading import NormalImage
from hyperfsad.method import matching
from hyperfsad.method.lookups import LOOKUPS
from hyperfsad.method.matching import (
    Comparison,
    Matcher,
    distances_apart,
    smoothed,
)
from hyperfsad.method.memory import MemoryBank

from .kinds import Maker, all_made, cosine, every_kind, noise, unit

GRID = 12

Floats = NDArray[np.float32]


def tokens(images: int, seed: int) -> Floats:
    part = noise(1, 2, GRID**2, 48, seed=seed)
    return unit(part + np.float32(0.7) * noise(images, 2, GRID**2, 48, seed=seed + 100))


def bank(images: int) -> MemoryBank:
    patches = tokens(images, 0)
    names = [NormalImage(str(index), str(index)) for index in range(images)]
    return MemoryBank.of(Tokens(patches, patches[:, :, 0]), names)


def by_the_formula(
    queries: Floats, memory: Floats, lookup: str, sharpness: float
) -> NDArray[np.float64]:
    q, p = queries.astype(np.float64), memory.astype(np.float64)
    return 1 - cosine(q, LOOKUPS[lookup](sharpness * q @ p.T) @ p)


@pytest.mark.parametrize("lookup", LOOKUPS)
@pytest.mark.parametrize("sharpness", [0.5, 1.0, 16.0])
@pytest.mark.parametrize("worthwhile", [0, 10**9])
@every_kind
def test_distances_are_those_of_the_formula(
    made: Maker, lookup: str, sharpness: float, worthwhile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "MIN_PRUNED_ROWS", worthwhile)
    memory, query = bank(3), list(tokens(1, 1)[0])
    matcher = Matcher(all_made(made, memory.patches), Comparison(GRID, lookup, sharpness))
    found = matcher.distances(all_made(made, query))
    assert type(found) is type(made(query[0]))
    assert found.shape == (GRID**2,)
    expected = np.mean(
        [
            by_the_formula(layer, rows, lookup, sharpness)
            for layer, rows in zip(query, memory.patches, strict=True)
        ],
        axis=0,
    )
    assert np.abs(to_numpy(found) - expected).max() < 1e-5


def test_sharper_means_fewer_normal_patches() -> None:
    similarities = tokens(1, 1)[0, 0] @ bank(3).patches[0].T
    active = [(LOOKUPS["sparsemax"](s * similarities) > 0).sum() for s in (1.0, 4.0, 16.0)]
    assert active[0] > active[1] > active[2] >= GRID**2


def test_an_image_that_is_remembered_is_closer_than_one_that_is_left_out() -> None:
    memory, how = bank(3), Comparison(GRID, sharpness=16.0)
    own = memory.patches_of(1)
    left_out = Matcher(memory.without(1).patches, how).distances(own)
    assert Matcher(memory.patches, how).distances(own).mean() < 0.2 * left_out.mean()


@pytest.mark.parametrize("lookup", LOOKUPS)
@every_kind
def test_what_is_too_near_has_no_part_in_the_reconstruction(made: Maker, lookup: str) -> None:
    """As if the rows that share pixels with a patch were not in the memory."""
    memory, how = bank(1), Comparison(GRID, lookup, 16.0)
    places = np.indices((GRID, GRID)).reshape(2, -1).T
    apart = np.abs(places[:, None] - places[None]).max(axis=-1)
    layers = all_made(made, memory.patches)
    found = distances_apart(layers, layers, made(apart), how)
    for patch in (0, 17, GRID**2 - 1):
        far = apart[patch] > 1
        expected = np.mean(
            [by_the_formula(one[patch][None], one[far], lookup, 16.0) for one in memory.patches]
        )
        tolerance = 1e-5 if lookup not in ("softmax", "top-p") else 5e-3
        assert float(found[patch]) == pytest.approx(float(expected), abs=tolerance)


@every_kind
def test_patches_that_are_not_kept_are_not_compared(made: Maker) -> None:
    memory, query, how = bank(2), list(tokens(1, 1)[0]), Comparison(GRID)
    kept = np.arange(GRID**2) % 3 == 0
    matcher = Matcher(all_made(made, memory.patches), how, made(np.tile(kept, 2)))
    found = to_numpy(matcher.distances(all_made(made, query), made(kept)))
    assert (found[~kept] == 0).all()
    other = [np.where(kept[:, None], layer, layer[::-1]) for layer in query]
    assert np.array_equal(to_numpy(matcher.distances(all_made(made, other), made(kept))), found)


@every_kind
def test_rows_may_be_chosen_anew_for_each_image(made: Maker) -> None:
    memory, query, how = bank(3), all_made(made, tokens(1, 1)[0]), Comparison(GRID)
    kept, rows = (np.arange(3 * GRID**2) % step != 0 for step in (5, 7))
    found = Matcher(all_made(made, memory.patches), how, made(kept)).distances(
        query, rows=made(rows)
    )
    few = Matcher(all_made(made, [layer[kept & rows] for layer in memory.patches]), how)
    assert to_numpy(found) == pytest.approx(to_numpy(few.distances(query)), abs=1e-6)


@pytest.mark.parametrize("options", [{"lookup": "best"}, {"sharpness": 0.0}])
def test_what_cannot_be_compared_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Comparison(GRID, **options)


@pytest.mark.parametrize("masked", [False, True])
@every_kind
def test_a_smoothed_map_is_the_mean_of_its_neighbours(made: Maker, masked: bool) -> None:
    grid = 5
    values = np.random.default_rng(2).random(grid * grid, dtype=np.float32)
    kept = np.arange(grid * grid) % 4 != 1
    both = np.stack([values, values[::-1]])
    found = to_numpy(smoothed(made(both), grid, made(kept) if masked else None))[0]
    assert found.dtype == np.float32
    found = found.reshape(grid, grid)
    for row in range(grid):
        for column in range(grid):
            total = weight = 0.0
            for down in (-1, 0, 1):
                for across in (-1, 0, 1):
                    place = (row + down) * grid + column + across
                    inside = 0 <= row + down < grid and 0 <= column + across < grid
                    if inside and (kept[place] or not masked):
                        share = (2 - abs(down)) * (2 - abs(across))
                        total += share * float(values[place])
                        weight += share
            alone = masked and not kept[row * grid + column]
            expected = 0.0 if alone else total / weight
            assert float(found[row, column]) == pytest.approx(expected, abs=1e-6)
