"""The hypergraph's matrix: the weights of the dense formulas, and nothing else."""

import numpy as np
import pytest
import torch
from torch import Tensor

from hyperfsad.method import lookups
from hyperfsad.method.lookups import LOOKUPS, incidence, placed


def tokens(count: int, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, 24, generator=random, dtype=torch.float64)
    return torch.nn.functional.normalize(rows + 1, dim=1)


def dense_sparsemax(z: Tensor) -> Tensor:
    """Equation 1 by bisection on τ: no sort, no candidates, no code of ours."""
    low, high = z.amin(dim=1) - 1, z.amax(dim=1)
    for _ in range(200):
        middle = (low + high) / 2
        above = (z - middle[:, None]).clamp(min=0).sum(dim=1) > 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (z - high[:, None]).clamp(min=0)


@pytest.mark.parametrize("sharpness", [0.02, 1.0, 16.0])
@pytest.mark.parametrize("together", [1 << 22, 1000])
def test_it_is_the_dense_projection(
    sharpness: float, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where queries are taken in several chunks, and where hundreds of rows are active."""
    monkeypatch.setattr(lookups, "SIMILARITIES_AT_ONCE", together)
    queries, memory = tokens(40, 0), tokens(300, 1)
    found = incidence(queries, memory, "sparsemax", sharpness)
    expected = dense_sparsemax(sharpness * queries @ memory.T).numpy()
    assert np.abs(found.toarray() - expected).max() < 1e-12
    assert (found.data > 0).all()
    assert found.toarray().sum(axis=1) == pytest.approx(1)
    assert found.has_sorted_indices
    most = np.diff(found.indptr).max()
    assert most > 128 if sharpness < 1 else most < 128  # more than sparsemax begins with


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_every_lookup_has_its_weights(lookup: str) -> None:
    queries, memory = tokens(12, 2).float(), tokens(250, 3).float()
    found = incidence(queries, memory, lookup)
    expected = LOOKUPS[lookup](queries @ memory.T)
    assert np.array_equal(found.toarray(), expected.numpy())
    assert found.nnz == int((expected > 0).sum())


def test_what_was_not_compared_is_empty() -> None:
    queries, memory = tokens(5, 4), tokens(30, 5)
    kept = torch.tensor([True, False, True, True, False])
    rows = torch.arange(30) % 3 != 0
    found = placed(incidence(queries[kept], memory[rows]), kept, rows)
    assert found.shape == (5, 30)
    dense = np.zeros((5, 30))
    inner = incidence(queries[kept], memory[rows]).toarray()
    dense[np.ix_(kept.numpy(), rows.numpy())] = inner
    assert np.array_equal(found.toarray(), dense)
    whole = incidence(queries, memory)
    assert np.array_equal(placed(whole, None, None).toarray(), whole.toarray())
