"""Sparsemax and its alternatives against independent solvers, and all of Proposition 1."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq

from hyperfsad.arrays import Array, to_numpy
from hyperfsad.method import lookups
from hyperfsad.method.lookups import (
    LOOKUPS,
    entmax_15,
    reconstruct,
    softmax,
    sparsemax,
)

from .kinds import Maker, every_kind, noise, unit

Floats = NDArray[np.float32]

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


def row(values: list[float]) -> Floats:
    return np.array([values], dtype=np.float32)


def weights_of(lookup: lookups.Lookup, z: Floats, made: Maker) -> Floats:
    found = to_numpy(lookup(made(z)))
    assert found.dtype == z.dtype
    return found


def tau(z: Floats, weights: Floats) -> float:
    active = weights[0] > 0
    return float((z[0][active].astype(np.float64).sum() - 1) / active.sum())


@every_kind
@settings(max_examples=150, deadline=None)
@given(values=similarities)
def test_sparsemax_is_algorithm_1_and_the_root(made: Maker, values: list[float]) -> None:
    z = row(values)
    weights, exact = weights_of(sparsemax, z, made)[0], z[0].astype(np.float64)
    assert np.abs(weights - algorithm_1(exact)).max() < 1e-6
    assert np.abs(weights - root_of(exact, 1, 1.0)).max() < 1e-6
    assert abs(weights.sum() - 1) < 1e-5


@every_kind
@settings(max_examples=100, deadline=None)
@given(values=similarities)
def test_entmax_is_the_root_of_its_definition(made: Maker, values: list[float]) -> None:
    z = row(values)
    weights = weights_of(entmax_15, z, made)[0]
    assert np.abs(weights - root_of(z[0].astype(np.float64), 2, 0.5)).max() < 1e-5


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
    assert weights[0][active] == pytest.approx(
        z[0][active].astype(np.float64) - threshold, abs=1e-6
    )


@settings(max_examples=200, deadline=None)
@given(similarities, st.lists(st.floats(0, 1), min_size=1, max_size=400))
def test_proposition_1_appended_distractors_change_nothing(
    values: list[float], below: list[float]
) -> None:
    z = row(values)
    weights = sparsemax(z)
    appended = row([np.nextafter(np.float32(tau(z, weights)), -9) - drop for drop in below])
    extended = sparsemax(np.concatenate([z, appended], axis=1))
    assert extended[0, : len(values)] == pytest.approx(weights[0], abs=1e-7)
    assert not extended[0, len(values) :].any()


@settings(max_examples=200, deadline=None)
@given(similarities, st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_proposition_1_non_expansive(values: list[float], seed: int, size: float) -> None:
    z = row(values)
    shifted = z + np.float32(size) * noise(*z.shape, seed=seed)
    moved = sparsemax(shifted) - sparsemax(z)
    assert np.linalg.norm(moved) <= np.linalg.norm(shifted - z) + 1e-6


@every_kind
@pytest.mark.parametrize("lookup", [sparsemax, entmax_15])
@pytest.mark.parametrize("count", [1, 2, 300, 1024, 500_000])
def test_equal_similarities_share_the_weight(
    made: Maker, count: int, lookup: lookups.Lookup
) -> None:
    weights = weights_of(lookup, np.full((2, count), 0.7, dtype=np.float32), made)
    assert np.allclose(weights, 1 / count, rtol=1e-5)
    assert np.allclose(weights.sum(axis=1), 1, atol=1e-4)


@every_kind
def test_active_sets_of_several_hundred_are_exact(made: Maker) -> None:
    """A homogeneous texture: similarities so close that hundreds of candidates are active."""
    z = np.float32(0.9) + np.float32(0.002) * noise(16, 1024, seed=0)
    z[3] = 0.2 * noise(1024, seed=1)  # a sparse row among them
    weights = weights_of(sparsemax, z, made)
    sizes = (weights > 0).sum(axis=1)
    assert sizes.max() > 4 * lookups.FIRST_CANDIDATES
    assert sizes.min() < lookups.FIRST_CANDIDATES
    for index in range(16):
        expected = algorithm_1(z[index].astype(np.float64))
        assert np.abs(weights[index] - expected).max() < 1e-6


@every_kind
def test_weights_keep_the_order_of_the_memory(made: Maker) -> None:
    z = np.array([[-0.5, 0.9, 0.1, 0.7]], dtype=np.float32)
    assert weights_of(sparsemax, z, made)[0] == pytest.approx([0.0, 0.6, 0.0, 0.4], abs=1e-6)
    shuffled = [2, 0, 3, 1]
    for lookup in LOOKUPS.values():
        found = weights_of(lookup, z[:, shuffled], made)
        assert found == pytest.approx(weights_of(lookup, z, made)[:, shuffled], abs=1e-6)


@every_kind
@pytest.mark.parametrize("name", LOOKUPS)
def test_every_lookup_lies_on_the_simplex(made: Maker, name: str) -> None:
    z = np.random.default_rng(1).random((50, 777), dtype=np.float32) * 2 - 1
    weights = weights_of(LOOKUPS[name], z, made)
    assert weights.shape == z.shape
    assert (weights >= 0).all()
    assert np.allclose(weights.sum(axis=1), 1, atol=1e-4)


@every_kind
def test_the_dense_and_hard_lookups(made: Maker) -> None:
    z = np.random.default_rng(2).random((4, 250), dtype=np.float32)
    dense, nearest, best = (weights_of(lookup, z, made) for lookup in (softmax, top_1, top_p))
    assert np.allclose(dense, np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), atol=1e-6)
    assert ((nearest > 0).sum(axis=1) == 1).all()
    assert np.array_equal(nearest.argmax(axis=1), z.argmax(axis=1))
    kept = math.ceil(0.01 * 250)
    assert ((best > 0).sum(axis=1) == kept).all()
    shares = np.exp(np.sort(z[0])[-kept:])
    assert best[0].max() == pytest.approx(shares.max() / shares.sum(), abs=1e-6)
    equals = np.array([[0.5, 0.5]], dtype=np.float32)
    assert float(weights_of(top_1, equals, made)[0, 0]) == 1  # the first of equals


def tokens(count: int, dim: int, seed: int) -> Floats:
    return unit(noise(count, dim, seed=seed))


@every_kind
@pytest.mark.parametrize("name", LOOKUPS)
def test_chunks_change_nothing(made: Maker, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queries, memory = tokens(70, 16, 3), tokens(200, 16, 4)
    whole = LOOKUPS[name](queries @ memory.T) @ memory
    monkeypatch.setattr(lookups, "SIMILARITIES_AT_ONCE", 200 * 16)
    found = reconstruct(made(queries), made(memory), name)
    assert type(found) is type(made(queries))
    assert to_numpy(found) == pytest.approx(whole, abs=1e-6)


def test_memory_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 queries against 64 images: no lookup ever sees more than a chunk of similarities."""
    seen = []

    def watched(z: Array) -> Array:
        seen.append(z.size)
        return top_1(z)

    monkeypatch.setitem(LOOKUPS, "watched", watched)
    queries, memory = tokens(10_000, 8, 5), tokens(64 * 256, 8, 6)
    assert reconstruct(queries, memory, "watched").shape == (10_000, 8)
    assert len(seen) > 1
    assert max(seen) <= lookups.SIMILARITIES_AT_ONCE


def test_a_memory_larger_than_a_chunk_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "SIMILARITIES_AT_ONCE", 10)
    assert reconstruct(tokens(3, 8, 7), tokens(40, 8, 8)).shape == (3, 8)
