"""The hypergraph of Sparse Hyper Matching (Section 4.2): each query patch is one hyperedge.

Its members are the active normal patches, those with weight above zero. As a matrix, rows are query
patches, columns are normal patches, and the entries are the weights w of Equation 1.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from .lookups import LOOKUPS, SPARSE, in_chunks

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def incidence(
    queries: Tensor, memory: Tensor, lookup: str = "sparsemax", sharpness: float = 1.0
) -> "csr_array":
    """The weights of each query patch (N, D) on the rows of a memory (M, D): sparse, (N, M).

    The lookup is the exact one that rebuilds patches, and only active weights are ever kept: a
    dense matrix of half a million columns would take gigabytes.
    """
    from scipy.sparse import csr_array  # takes a while to load

    rows, columns, weights = [], [], []
    first = 0
    for part in in_chunks(sharpness * queries, memory):
        for place, index, active in _groups(part @ memory.T, lookup):
            kept = active > 0
            rows.append((first + place)[:, None].expand_as(index)[kept])
            columns.append(index[kept])
            weights.append(active[kept])
        first += len(part)
    arrays = [torch.cat(found).cpu().numpy() for found in (weights, rows, columns)]
    found = csr_array((arrays[0], (arrays[1], arrays[2])), shape=(len(queries), len(memory)))
    found.sort_indices()
    return found


def placed(found: "csr_array", kept: Tensor | None, rows: Tensor | None) -> "csr_array":
    """The same among all query patches (`kept`, a mask) and all normal patches (`rows`, a mask).

    What was not compared is in no hyperedge, or is an empty one. None means that all were compared.
    """
    from scipy.sparse import csr_array

    count, width = found.shape
    lengths, columns = np.diff(found.indptr), found.indices
    if kept is not None:
        mask = kept.cpu().numpy()
        own, lengths, count = lengths, np.zeros(len(mask), dtype=found.indptr.dtype), len(mask)
        lengths[mask] = own
    if rows is not None:
        columns, width = np.flatnonzero(rows.cpu().numpy())[columns], len(rows)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array((found.data, columns, starts), shape=(count, width))


def _groups(z: Tensor, lookup: str) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Groups of rows, the columns of their candidates, and the weights of these."""
    if lookup in SPARSE:
        return list(SPARSE[lookup](z))
    weights = LOOKUPS[lookup](z)
    index = torch.arange(z.shape[1], device=z.device).expand_as(weights)
    return [(torch.arange(len(z), device=z.device), index, weights)]
