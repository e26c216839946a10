"""Pruned matching: the same distances as the formula, whatever the memory looks like."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hyperfsad.method import matching
from hyperfsad.method.matching import MemoryLayer


def by_the_formula(queries: Tensor, memory: Tensor) -> Tensor:
    """Equation 1 by full sort in float64, dense weights times memory, 1 − cos."""
    q, p = queries.double(), memory.double()
    z = q @ p.T
    ordered = z.sort(dim=1, descending=True).values
    sums = ordered.cumsum(dim=1)
    count = torch.arange(1, z.shape[1] + 1)
    size = (1 + count * ordered > sums).sum(dim=1, keepdim=True)
    weights = (z - (sums.gather(1, size - 1) - 1) / size).clamp(min=0)
    return 1 - torch.cosine_similarity(q, weights @ p, dim=1)


def unit(rows: Tensor) -> Tensor:
    return torch.nn.functional.normalize(rows, dim=-1)


def patches(count: int, width: int, kinds: int, spread: float, seed: int) -> tuple[Tensor, Tensor]:
    """Memory in `kinds` clusters, and queries near some of them."""
    random = torch.Generator().manual_seed(seed)
    centres = torch.randn(kinds, width, generator=random)
    chosen = torch.randint(kinds, (count + 24,), generator=random)
    tokens = centres[chosen] + spread * torch.randn(count + 24, width, generator=random)
    return unit(tokens[count:]), unit(tokens[:count])


@pytest.fixture(params=["compiled", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "torch":
        monkeypatch.setattr(matching, "kernel", None)
    elif matching.kernel is None:
        pytest.skip("the kernel was not compiled")
    return str(request.param)


@pytest.mark.parametrize("count", [1, 7, 1023, 1024, 5000])
@pytest.mark.parametrize("width", [2, 16, 100])
@pytest.mark.parametrize("spread", [0.01, 0.3, 3.0])
@pytest.mark.usefixtures("way")
def test_distances_are_those_of_the_formula(count: int, width: int, spread: float) -> None:
    queries, memory = patches(count, width, 9, spread, seed=count + width)
    found = MemoryLayer(memory).distances(queries)
    assert (found - by_the_formula(queries, memory)).abs().max() < 1e-5


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
    assert (found - by_the_formula(queries, memory)).abs().max() < 1e-5


@pytest.mark.usefixtures("way")
def test_thousands_of_equal_patches_share_the_weight() -> None:
    row = unit(torch.arange(1.0, 97.0))
    other = unit(torch.arange(96.0, 0.0, -1.0))
    memory = torch.cat([row.expand(6000, 96), other.expand(3, 96)])
    distances = MemoryLayer(memory).distances(torch.stack([row, other]))
    assert torch.allclose(distances, torch.zeros(2), atol=2e-6)


def test_the_number_of_threads_and_tiles_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, memory = patches(3000, 48, 5, 0.5, seed=3)
    whole = MemoryLayer(memory).distances(queries)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            for queries_at_once, rows in ((7, 5000), (100, 70), (1, 1)):
                monkeypatch.setattr(matching, "QUERY_BLOCK", queries_at_once)
                monkeypatch.setattr(matching, "ROW_BLOCK", rows)
                found = MemoryLayer(memory).distances(queries[:40])
                assert torch.allclose(found, whole[:40], atol=1e-6)
    finally:
        torch.set_num_threads(threads)


def test_rows_that_are_no_numbers_stay_apart() -> None:
    queries, memory = patches(2500, 32, 5, 0.5, seed=4)
    expected = MemoryLayer(memory).distances(queries)
    queries[3] = torch.nan
    found = MemoryLayer(memory).distances(queries)
    assert torch.isnan(found[3])
    kept = [index for index in range(len(queries)) if index != 3]
    assert torch.equal(found[kept], expected[kept])


@pytest.mark.skipif(matching.kernel is None, reason="the kernel was not compiled")
def test_the_kernel_refuses_shapes_that_do_not_fit() -> None:
    tokens = np.zeros((4, 8), dtype=np.float32)
    bounds, out = np.zeros((4, 4), dtype=np.float32), np.zeros(4, dtype=np.float32)
    kernel = matching.kernel
    assert kernel is not None
    for memory, width in ((tokens[:0], 8), (tokens, 0), (tokens, 7), (tokens, -8)):
        with pytest.raises(ValueError, match="do not fit"):
            kernel.begin(tokens, memory, width)
    search = kernel.begin(tokens, tokens, 8)
    for part, first in (
        (bounds[:, :0].copy(), 0),
        (bounds.ravel()[:7], 0),
        (bounds, 1),
        (bounds, -1),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            kernel.offer(search, part, first, False, 1e-5)
    with pytest.raises(ValueError, match="do not fit"):
        kernel.finish(search, out[:3])
    with pytest.raises(ValueError, match="PyCapsule"):
        kernel.offer("no search", bounds, 0, False, 1e-5)


@pytest.mark.parametrize("lookup", ["sparsemax", "softmax", "top-1"])
@pytest.mark.parametrize("count", [1, 1500, matching.MIN_PRUNED_ROWS, 3000])
@pytest.mark.usefixtures("way")
def test_some_rows_alone_are_a_memory_of_these_rows(count: int, lookup: str) -> None:
    """Whether or not few enough are left that the bound does not pay."""
    queries, memory = patches(6000, 32, 9, 0.3, seed=count)
    memory = unit(memory + torch.linspace(0, 1, 32))  # axes of all rows are not those of some
    rows = torch.randperm(6000, generator=torch.Generator().manual_seed(1))[:count]
    layer = MemoryLayer(memory, lookup, sharpness=16)
    everything = layer.distances(queries)
    found = layer.only(rows).distances(queries)
    alone = MemoryLayer(memory[rows].clone(), lookup, sharpness=16).distances(queries)
    assert (found - alone).abs().max() < 1e-6
    assert (found - everything).abs().max() > 1e-3
    assert torch.equal(layer.distances(queries), everything)  # the layer itself stays whole
