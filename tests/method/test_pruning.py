"""Pruned matching: the same distances as the formula, whatever the memory looks like."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hyperfsad import threads
from hyperfsad.arrays import to_numpy
from hyperfsad.method import kernel, matching
from hyperfsad.method.matching import MemoryLayer

from .kinds import Maker, cosine, every_kind, unit

Floats = NDArray[np.float32]


def by_the_formula(queries: Floats, memory: Floats) -> NDArray[np.float64]:
    """Equation 1 by full sort in float64, dense weights times memory, 1 − cos."""
    q, p = queries.astype(np.float64), memory.astype(np.float64)
    z = q @ p.T
    ordered = -np.sort(-z, axis=1)
    sums = np.cumsum(ordered, axis=1)
    count = np.arange(1, z.shape[1] + 1)
    size = (1 + count * ordered > sums).sum(axis=1, keepdims=True)
    weights = np.maximum(z - (np.take_along_axis(sums, size - 1, 1) - 1) / size, 0)
    return 1 - cosine(q, weights @ p)


def patches(count: int, width: int, kinds: int, spread: float, seed: int) -> tuple[Floats, Floats]:
    """Memory in `kinds` clusters, and queries near some of them."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((kinds, width))
    chosen = random.integers(kinds, size=count + 24)
    tokens = centres[chosen] + spread * random.standard_normal((count + 24, width))
    return unit(tokens[count:]), unit(tokens[:count])


@pytest.fixture(params=["compiled", "arrays"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "arrays":
        monkeypatch.setattr(kernel, "available", lambda: False)
    elif not kernel.available():
        pytest.skip("the kernel was not compiled")
    return str(request.param)


@pytest.mark.parametrize("count", [1, 7, 1023, 1024, 5000])
@pytest.mark.parametrize("width", [2, 16, 100])
@pytest.mark.parametrize("spread", [0.01, 0.3, 3.0])
@pytest.mark.usefixtures("way")
@every_kind
def test_distances_are_those_of_the_formula(
    made: Maker, count: int, width: int, spread: float
) -> None:
    queries, memory = patches(count, width, 9, spread, seed=count + width)
    found = MemoryLayer(made(memory)).distances(made(queries))
    assert type(found) is type(made(queries))
    assert np.abs(to_numpy(found) - by_the_formula(queries, memory)).max() < 1e-5


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 400),
    st.integers(2, 70),
    st.integers(1, 5),
    st.floats(0, 2),
    st.integers(0, 2**32 - 1),
)
def test_pruning_never_changes_a_distance(
    count: int, width: int, kinds: int, spread: float, seed: int
) -> None:
    """With the bound from the first row on, so that small cases go through it too."""
    queries, memory = patches(count, width, kinds, spread, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "MIN_PRUNED_ROWS", 0)
        found = MemoryLayer(memory).distances(queries)
    assert np.abs(found - by_the_formula(queries, memory)).max() < 1e-5


@pytest.mark.usefixtures("way")
def test_thousands_of_equal_patches_share_the_weight() -> None:
    row, other = unit(np.arange(1.0, 97.0)), unit(np.arange(96.0, 0.0, -1.0))
    memory = np.stack([row] * 6000 + [other] * 3)
    distances = MemoryLayer(memory).distances(np.stack([row, other]))
    assert np.abs(distances).max() < 2e-6


def test_the_number_of_threads_and_tiles_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, memory = patches(3000, 48, 5, 0.5, seed=3)
    whole = MemoryLayer(memory).distances(queries)
    try:
        for count in (1, 2, 3):
            threads.limit(count)
            for queries_at_once, rows in ((7, 5000), (100, 70), (1, 1)):
                monkeypatch.setattr(matching, "QUERY_BLOCK", queries_at_once)
                monkeypatch.setattr(matching, "ROW_BLOCK", rows)
                found = MemoryLayer(memory).distances(queries[:40])
                assert found == pytest.approx(whole[:40], abs=1e-6)
    finally:
        threads.limit(None)


@pytest.mark.parametrize("count", [72, 1024])
def test_the_bits_do_not_depend_on_the_number_of_threads(count: int) -> None:
    """Also of a memory that is too small for the bound: its products are those of numpy."""
    if not kernel.available():
        pytest.skip("the kernel was not compiled")
    _, queries = patches(1369, 48, 5, 0.5, seed=3)
    _, memory = patches(count, 48, 5, 0.5, seed=3)
    before, found = threads.count(), []
    try:
        for number in (1, 2, 3):
            threads.limit(number)
            found.append(MemoryLayer(memory).distances(queries).tobytes())
    finally:
        threads.limit(before)
    assert found[0] == found[1] == found[2]


def test_half_precision_is_matched_in_single() -> None:
    """Also by the kernel; numpy's own products of float16 take a hundred times as long."""
    queries, memory = (rows.astype(np.float16) for rows in patches(2500, 32, 5, 0.5, seed=4))
    found = MemoryLayer(memory).distances(queries)
    assert found.dtype == np.float32
    wide = queries.astype(np.float32), memory.astype(np.float32)
    assert np.array_equal(found, MemoryLayer(wide[1]).distances(wide[0]))


def test_rows_that_are_no_numbers_stay_apart() -> None:
    queries, memory = patches(2500, 32, 5, 0.5, seed=4)
    expected = MemoryLayer(memory).distances(queries)
    queries[3] = np.nan
    found = MemoryLayer(memory).distances(queries)
    assert np.isnan(found[3])
    kept = [index for index in range(len(queries)) if index != 3]
    assert np.array_equal(found[kept], expected[kept])


@pytest.mark.parametrize("lookup", ["sparsemax", "softmax", "top-1"])
@pytest.mark.parametrize("count", [1, 1500, matching.MIN_PRUNED_ROWS, 3000])
@pytest.mark.usefixtures("way")
def test_some_rows_alone_are_a_memory_of_these_rows(count: int, lookup: str) -> None:
    """Whether or not few enough are left that the bound does not pay."""
    queries, memory = patches(6000, 32, 9, 0.3, seed=count)
    memory = unit(memory + np.linspace(0, 1, 32))  # axes of all rows are not those of some
    rows = np.random.default_rng(1).permutation(6000)[:count]
    layer = MemoryLayer(memory, lookup, sharpness=16)
    everything = layer.distances(queries)
    found = layer.only(rows).distances(queries)
    alone = MemoryLayer(memory[rows], lookup, sharpness=16).distances(queries)
    assert np.abs(found - alone).max() < 1e-6
    assert np.abs(found - everything).max() > 1e-3
    assert np.array_equal(layer.distances(queries), everything)  # the layer itself stays whole
