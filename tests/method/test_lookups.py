"""Sparsemax and its alternatives against independent solvers, and all of Proposition 1."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor

from hyperfsad.method import lookups
from hyperfsad.method.lookups import (
    LOOKUPS,
    entmax_15,
    reconstruct,
    softmax,
    sparsemax,
)

top_1, top_p = LOOKUPS["top-1"], LOOKUPS["top-p"]

similarities = st.lists(
    st.floats(-1, 1, width=32) | st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0]),
    min_size=1,
    max_size=300,
)


def algorithm_1(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """The paper's Algorithm 1, word by word, in float64."""
    order = np.argsort(-z, kind="stable")
    ranked = z[order]
    sums = np.cumsum(ranked)
    m = max(j for j in range(1, len(z) + 1) if 1 + j * ranked[j - 1] > sums[j - 1])
    threshold = (sums[m - 1] - 1) / m
    weights = np.empty_like(z)
    for j in range(len(z)):
        weights[order[j]] = max(0.0, ranked[j] - threshold)
    return weights


def root_of(z: NDArray[np.float64], power: int, scale: float) -> NDArray[np.float64]:
    """Weights [scale·z − τ]₊^power that sum to 1, τ by a root finder."""
    s = z * scale

    def excess(threshold: float) -> float:
        return float((np.maximum(s - threshold, 0) ** power).sum() - 1)

    threshold = brentq(excess, s.max() - 1 - 1e-9, s.max(), xtol=1e-15, rtol=1e-15)
    return np.asarray(np.maximum(s - threshold, 0) ** power)


def row(values: list[float]) -> Tensor:
    return torch.tensor([values], dtype=torch.float32)


def tau(z: Tensor, weights: Tensor) -> float:
    active = weights[0] > 0
    return float((z[0][active].double().sum() - 1) / active.sum())


@settings(max_examples=300, deadline=None)
@given(similarities)
def test_sparsemax_is_algorithm_1_and_the_root(values: list[float]) -> None:
    z = row(values)
    weights = sparsemax(z)[0].double().numpy()
    exact = z[0].double().numpy()
    assert np.abs(weights - algorithm_1(exact)).max() < 1e-6
    assert np.abs(weights - root_of(exact, 1, 1.0)).max() < 1e-6
    assert abs(weights.sum() - 1) < 1e-5


@settings(max_examples=200, deadline=None)
@given(similarities)
def test_entmax_is_the_root_of_its_definition(values: list[float]) -> None:
    z = row(values)
    weights = entmax_15(z)[0].double().numpy()
    assert np.abs(weights - root_of(z[0].double().numpy(), 2, 0.5)).max() < 1e-5


@settings(max_examples=200, deadline=None)
@given(similarities)
def test_proposition_1_support_and_weights(values: list[float]) -> None:
    """The active set R satisfies max outside ≤ τ_R < min inside, and w = z − τ_R on it."""
    z = row(values)
    weights = sparsemax(z)
    active = weights[0] > 0
    threshold = tau(z, weights)
    assert float(z[0][active].min()) > threshold - 1e-7
    if (~active).any():
        assert float(z[0][~active].max()) <= threshold + 1e-7
    assert torch.allclose(weights[0][active].double(), z[0][active].double() - threshold, atol=1e-6)


@settings(max_examples=200, deadline=None)
@given(similarities, st.lists(st.floats(0, 1), min_size=1, max_size=400))
def test_proposition_1_appended_distractors_change_nothing(
    values: list[float], below: list[float]
) -> None:
    z = row(values)
    weights = sparsemax(z)
    appended = row([np.nextafter(np.float32(tau(z, weights)), -9) - drop for drop in below])
    extended = sparsemax(torch.cat([z, appended], dim=1))
    assert torch.allclose(extended[0, : len(values)], weights[0], atol=1e-7)
    assert not extended[0, len(values) :].any()


@settings(max_examples=200, deadline=None)
@given(similarities, st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_proposition_1_non_expansive(values: list[float], seed: int, size: float) -> None:
    z = row(values)
    noise = torch.randn(z.shape, generator=torch.Generator().manual_seed(seed)) * size
    moved = sparsemax(z + noise) - sparsemax(z)
    assert float(moved.norm()) <= float(((z + noise) - z).norm()) + 1e-6


@pytest.mark.parametrize("lookup", [sparsemax, entmax_15])
@pytest.mark.parametrize("count", [1, 2, 300, 1024, 500_000])
def test_equal_similarities_share_the_weight(count: int, lookup: lookups.Lookup) -> None:
    weights = lookup(torch.full((2, count), 0.7))
    assert torch.allclose(weights, torch.full_like(weights, 1 / count), rtol=1e-5)
    assert torch.allclose(weights.sum(dim=1), torch.ones(2), atol=1e-4)


def test_active_sets_of_several_hundred_are_exact() -> None:
    """A homogeneous texture: similarities so close that hundreds of candidates are active."""
    generator = torch.Generator().manual_seed(0)
    z = 0.9 + 0.002 * torch.randn(16, 1024, generator=generator)
    z[3] = 0.2 * torch.randn(1024, generator=generator)  # a sparse row among them
    weights = sparsemax(z)
    sizes = (weights > 0).sum(dim=1)
    assert sizes.max() > 4 * lookups.FIRST_CANDIDATES
    assert sizes.min() < lookups.FIRST_CANDIDATES
    for index in range(16):
        expected = algorithm_1(z[index].double().numpy())
        assert np.abs(weights[index].double().numpy() - expected).max() < 1e-6


def test_weights_keep_the_order_of_the_memory() -> None:
    z = torch.tensor([[-0.5, 0.9, 0.1, 0.7]])
    assert torch.allclose(sparsemax(z), torch.tensor([[0.0, 0.6, 0.0, 0.4]]), atol=1e-6)
    shuffled = torch.tensor([2, 0, 3, 1])
    for lookup in LOOKUPS.values():
        assert torch.allclose(lookup(z[:, shuffled]), lookup(z)[:, shuffled], atol=1e-6)


@pytest.mark.parametrize("name", LOOKUPS)
def test_every_lookup_lies_on_the_simplex(name: str) -> None:
    z = torch.rand(50, 777, generator=torch.Generator().manual_seed(1)) * 2 - 1
    weights = LOOKUPS[name](z)
    assert weights.shape == z.shape
    assert (weights >= 0).all()
    assert torch.allclose(weights.sum(dim=1), torch.ones(50), atol=1e-4)


def test_the_dense_and_hard_lookups() -> None:
    z = torch.rand(4, 250, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(softmax(z), z.exp() / z.exp().sum(dim=1, keepdim=True), atol=1e-6)
    assert ((top_1(z) > 0).sum(dim=1) == 1).all()
    assert torch.equal(top_1(z).argmax(dim=1), z.argmax(dim=1))
    kept = math.ceil(0.01 * 250)
    assert ((top_p(z) > 0).sum(dim=1) == kept).all()
    best = z[0].topk(kept).values
    assert torch.allclose(top_p(z)[0].max(), torch.softmax(best, dim=0).max())
    assert float(top_1(torch.tensor([[0.5, 0.5]]))[0, 0]) == 1  # the first of equals


def unit(count: int, dim: int, seed: int) -> Tensor:
    noise = torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(noise, dim=-1)


@pytest.mark.parametrize("name", LOOKUPS)
def test_chunks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queries, memory = unit(70, 16, 3), unit(200, 16, 4)
    whole = LOOKUPS[name](queries @ memory.T) @ memory
    monkeypatch.setattr(lookups, "SIMILARITIES_AT_ONCE", 200 * 16)
    assert torch.allclose(reconstruct(queries, memory, name), whole, atol=1e-6)


def test_memory_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 queries against 64 images: no lookup ever sees more than a chunk of similarities."""
    seen = []

    def watched(z: Tensor) -> Tensor:
        seen.append(z.numel())
        return top_1(z)

    monkeypatch.setitem(LOOKUPS, "watched", watched)
    queries, memory = unit(10_000, 8, 5), unit(64 * 256, 8, 6)
    assert reconstruct(queries, memory, "watched").shape == (10_000, 8)
    assert len(seen) > 1
    assert max(seen) <= lookups.SIMILARITIES_AT_ONCE


def test_a_memory_larger_than_a_chunk_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "SIMILARITIES_AT_ONCE", 10)
    assert reconstruct(unit(3, 8, 7), unit(40, 8, 8)).shape == (3, 8)
