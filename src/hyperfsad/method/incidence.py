"""The hypergraph (Section 4.2): every query patch is a hyperedge, whose members are the normal
patches with weight above zero. A dense matrix of half a million columns would take gigabytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, device, namespace, to_numpy
from .lookups import LOOKUPS, SPARSE, Candidates, all_rows, in_chunks


@dataclass(frozen=True)
class Incidence:
    """A sparse matrix, hyperedges × normal patches, row by row as `scipy.sparse.csr_array` has it:
    `csr_array((data, indices, indptr), shape)` is the same."""

    data: NDArray[Any]
    """The weights, of row after row, in each by column."""
    indices: NDArray[np.integer[Any]]
    """Their columns."""
    indptr: NDArray[np.integer[Any]]
    """Where each row begins, and the last one ends."""
    shape: tuple[int, int]

    @classmethod
    def of(
        cls,
        rows: NDArray[np.integer[Any]],
        columns: NDArray[np.integer[Any]],
        data: NDArray[Any],
        shape: tuple[int, int],
    ) -> "Incidence":
        """The matrix with these weights at these places."""
        order = np.lexsort((columns, rows))
        kind = np.int32 if max(len(data), *shape) <= np.iinfo(np.int32).max else np.int64
        indptr = np.searchsorted(rows[order], np.arange(shape[0] + 1))
        return cls(data[order], columns[order].astype(kind), indptr.astype(kind), shape)

    @property
    def nnz(self) -> int:
        """How many weights are above zero."""
        return len(self.data)

    @property
    def rows(self) -> NDArray[np.integer[Any]]:
        """The row of each weight."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    def row(self, number: int) -> tuple[NDArray[np.integer[Any]], NDArray[Any]]:
        """Columns and weights of one hyperedge."""
        own = slice(self.indptr[number], self.indptr[number + 1])
        return self.indices[own], self.data[own]

    def sums(self, axis: int) -> NDArray[np.float64]:
        """The sums of all columns (0) or of all rows (1), in float64."""
        places = self.indices if axis == 0 else self.rows
        found = np.bincount(places, weights=self.data, minlength=self.shape[1 - axis])
        return np.asarray(found, dtype=np.float64)

    def toarray(self) -> NDArray[Any]:
        """The dense matrix."""
        found = np.zeros(self.shape, dtype=self.data.dtype)
        found[self.rows, self.indices] = self.data
        return found


def incidence(
    queries: Array, memory: Array, lookup: str = "sparsemax", sharpness: float = 1.0
) -> Incidence:
    """The weights w of each query patch (N, D) on the rows of a memory (M, D)."""
    rows, columns, weights = [], [], []
    first = 0
    for part in in_chunks(sharpness * queries, memory):
        for place, index, active in _candidates(part @ memory.T, lookup):
            which, index, active = (to_numpy(each) for each in (place, index, active))
            used = active > 0
            rows.append(np.broadcast_to(first + which[:, None], index.shape)[used])
            columns.append(index[used])
            weights.append(active[used])
        first += part.shape[0]
    shape = queries.shape[0], memory.shape[0]
    places = np.concatenate(rows), np.concatenate(columns)
    return Incidence.of(*places, np.concatenate(weights), shape)


def placed(found: Incidence, queries: Array | None, rows: Array | None) -> Incidence:
    """The same among all query patches (`queries`, a mask) and all normal patches (`rows`).

    What was not compared is in no hyperedge, or is an empty one. None means that all were compared.
    """
    places, shape = [found.rows, found.indices], list(found.shape)
    for axis, mask in enumerate((queries, rows)):
        if mask is not None:
            places[axis] = np.flatnonzero(to_numpy(mask))[places[axis]]
            shape[axis] = mask.shape[0]
    return Incidence.of(places[0], places[1], found.data, (shape[0], shape[1]))


def _candidates(z: Array, lookup: str) -> Candidates:
    """Weights of any lookup; those of a dense one stand at every row of the memory."""
    if lookup in SPARSE:
        return SPARSE[lookup](z)
    return _every(z, LOOKUPS[lookup](z))


def _every(z: Array, weights: Array) -> Iterator[tuple[Array, Array, Array]]:
    xp = namespace(z)
    every = xp.broadcast_to(xp.arange(z.shape[1], device=device(z)), weights.shape)
    yield all_rows(z), every, weights
