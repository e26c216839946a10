"""The hypergraph's matrix: the weights of the dense formulas, and nothing else."""

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.arrays import to_numpy
from hyperfsad.method import lookups
from hyperfsad.method.incidence import Incidence, incidence, placed
from hyperfsad.method.lookups import LOOKUPS

from .kinds import Maker, every_kind


def tokens(count: int, seed: int) -> NDArray[np.float64]:
    rows = np.random.default_rng(seed).standard_normal((count, 24)) + 1
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def dense_sparsemax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Equation 1 by bisection on τ: no sort, no candidates, no code of ours."""
    low, high = z.min(axis=1) - 1, z.max(axis=1)
    for _ in range(200):
        middle = (low + high) / 2
        above = np.maximum(z - middle[:, None], 0).sum(axis=1) > 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(np.maximum(z - high[:, None], 0))


@every_kind
@pytest.mark.parametrize("sharpness", [0.02, 1.0, 16.0])
@pytest.mark.parametrize("together", [1 << 22, 1000])
def test_it_is_the_dense_projection(
    made: Maker, sharpness: float, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where queries are taken in several chunks, and where hundreds of rows are active."""
    monkeypatch.setattr(lookups, "SIMILARITIES_AT_ONCE", together)
    queries, memory = tokens(40, 0), tokens(300, 1)
    found = incidence(made(queries), made(memory), "sparsemax", sharpness)
    expected = dense_sparsemax(sharpness * queries @ memory.T)
    assert np.abs(found.toarray() - expected).max() < 1e-12
    assert (found.data > 0).all()
    assert found.toarray().sum(axis=1) == pytest.approx(1)
    sizes = np.diff(found.indptr)
    assert all((np.diff(found.row(number)[0]) > 0).all() for number in range(40))
    assert sizes.max() > 128 if sharpness < 1 else sizes.max() < 128  # than sparsemax begins with


@every_kind
@pytest.mark.parametrize("lookup", LOOKUPS)
def test_every_lookup_has_its_weights(made: Maker, lookup: str) -> None:
    queries, memory = (
        made(tokens(12, 2).astype(np.float32)),
        made(tokens(250, 3).astype(np.float32)),
    )
    found = incidence(queries, memory, lookup)
    expected = to_numpy(LOOKUPS[lookup](queries @ memory.T))
    assert np.array_equal(found.toarray(), expected)
    assert found.nnz == int((expected > 0).sum())


def test_it_is_the_sparse_matrix_of_scipy() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    found = incidence(tokens(7, 6), tokens(90, 7))
    dense = found.toarray()
    expected = sparse.csr_array(dense)
    for own, other in (
        (found.data, expected.data),
        (found.indices, expected.indices),
        (found.indptr, expected.indptr),
    ):
        assert own.dtype == other.dtype
        assert np.array_equal(own, other)
    for axis in (0, 1):
        assert found.sums(axis) == pytest.approx(dense.sum(axis=axis))
    columns, weights = found.row(3)
    assert np.array_equal(np.flatnonzero(dense[3]), columns)
    assert np.array_equal(dense[3][columns], weights)


@every_kind
def test_what_was_not_compared_is_empty(made: Maker) -> None:
    queries, memory = tokens(5, 4), tokens(30, 5)
    kept = np.array([True, False, True, True, False])
    rows = np.arange(30) % 3 != 0
    inner: Incidence = incidence(made(queries[kept]), made(memory[rows]))
    found = placed(inner, made(kept), made(rows))
    assert found.shape == (5, 30)
    dense = np.zeros((5, 30))
    dense[np.ix_(kept, rows)] = inner.toarray()
    assert np.array_equal(found.toarray(), dense)
    whole = incidence(made(queries), made(memory))
    assert np.array_equal(placed(whole, None, None).toarray(), whole.toarray())
