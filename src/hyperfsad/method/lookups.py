"""Sparse Hyper Matching (Section 4.2 of the paper) and the lookups of Equation 8.

A lookup ρ turns the similarities z of one query patch to the M normal patches into weights w on the
simplex; the reconstruction is ε = w·P. Rows of `z` are queries, columns are rows of the memory, and
every lookup returns its weights in that same order.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Lookup: TypeAlias = Callable[[Tensor], Tensor]
"""From similarities (N, M) to weights (N, M)."""

Candidates: TypeAlias = Iterator[tuple[Tensor, Tensor, Tensor]]
"""Weights without most zeros: groups of rows, for each its candidates and their weights."""

TOP_P = 0.01
"""The share of the memory that the top-p lookup keeps (Table 2 of the paper)."""

FIRST_CANDIDATES = 128
"""Where sparsemax starts: of 4 × 1,024 real patches 17 to 42 were active on average, 74 at most."""

SIMILARITIES_AT_ONCE = 1 << 22
"""Similarities held at once: 16 MB in float32, so that no memory size needs more."""


def sparsemax(z: Tensor) -> Tensor:
    """Euclidean projection of each row onto the simplex (Equation 1): w = [z − τ]₊ with Σw = 1."""
    return _dense(z, sparsemax_candidates(z))


def sparsemax_candidates(z: Tensor) -> Candidates:
    """Sparsemax without its zeros.

    Algorithm 1 on the best k candidates of a row. If the last of them gets no weight, then by
    Proposition 1 neither does any other, and the row is exact; the remaining rows go on with more
    candidates, up to all of them, so that active sets of any size come out right.
    """
    rows = _all_rows(z)
    candidates = FIRST_CANDIDATES
    while len(rows):
        candidates = min(candidates, z.shape[1])
        values, index = (z if len(rows) == z.shape[0] else z[rows]).topk(candidates, dim=-1)
        weights = project_sorted(values)
        exact = (weights[:, -1] == 0) | (candidates == z.shape[1])
        yield rows[exact], *trimmed(index[exact], weights[exact])
        rows = rows[~exact]
        candidates *= 4


def trimmed(index: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Candidates and weights up to the last that any row uses."""
    width = max(1, int((weights > 0).sum(dim=-1).amax())) if len(weights) else 1
    return index[:, :width], weights[:, :width]


def project_sorted(z: Tensor) -> Tensor:
    """Algorithm 1 on rows that fall from left to right.

    The sums are taken less the row's maximum and in float64: half a million equal similarities
    would lose the 1 in a plain float32 sum.
    """
    wide = torch.float32 if z.device.type == "mps" else torch.float64
    gaps = z.to(wide) - z[:, :1].to(wide)
    return (gaps - sorted_threshold(gaps)).clamp(min=0).to(z.dtype)


def sorted_threshold(gaps: Tensor) -> Tensor:
    """τ of rows that fall from left to right, less their maximum (Algorithm 1, lines 2 and 3).

    Only operations that an exported graph can hold.
    """
    count = torch.arange(1, gaps.shape[-1] + 1, dtype=gaps.dtype, device=gaps.device)
    active = 1 + count * gaps > gaps.cumsum(dim=-1)
    size = active.to(gaps.dtype).sum(dim=-1, keepdim=True)
    return ((gaps * (count <= size)).sum(dim=-1, keepdim=True) - 1) / size


def softmax(z: Tensor) -> Tensor:
    """Dense lookup (Equation 8): every normal patch gets some weight."""
    return torch.softmax(z, dim=-1)


def top_1_candidates(z: Tensor) -> Candidates:
    """Nearest neighbour: all weight on the most similar patch (the first of equals)."""
    yield _all_rows(z), z.argmax(dim=-1, keepdim=True), z.new_ones(len(z), 1)


def top_p_candidates(z: Tensor) -> Candidates:
    """Top-p lookup (Equation 8): softmax over the most similar 1 % of the memory."""
    kept, index = z.topk(max(1, math.ceil(TOP_P * z.shape[-1])), dim=-1)
    yield _all_rows(z), index, torch.softmax(kept, dim=-1)


def entmax_15(z: Tensor) -> Tensor:
    """α-entmax for α = 1.5 (Peters et al., 2019): w = [z/2 − τ]₊² with Σw = 1, without sorting.

    ‖[z/2 − τ]₊‖ is convex and falls with τ, so Newton's steps from the left reach 1 and never pass
    it; three or four do on real patches, where hundreds are active and a sort costs forty times as
    much.
    """
    gaps = (z - z.amax(dim=-1, keepdim=True)) / 2
    threshold = gaps.new_full((len(z), 1), -1.0)
    smallest_step = 4 * torch.finfo(z.dtype).eps
    while True:
        above = (gaps - threshold).clamp_(min=0)
        total = above.sum(dim=-1, keepdim=True)
        norm = above.square_().sum(dim=-1, keepdim=True).sqrt()
        step = norm * (norm - 1) / total
        threshold += step
        if not (step > smallest_step).any():
            return (gaps - threshold).clamp_(min=0).square_()


def _dense(z: Tensor, candidates: Candidates) -> Tensor:
    weights = torch.zeros_like(z)
    for rows, index, active in candidates:
        weights[rows] = weights[rows].scatter_(-1, index, active)
    return weights


def _all_rows(z: Tensor) -> Tensor:
    return torch.arange(len(z), device=z.device)


SPARSE: dict[str, Callable[[Tensor], Candidates]] = {
    "sparsemax": sparsemax_candidates,
    "top-1": top_1_candidates,
    "top-p": top_p_candidates,
}
"""The lookups that leave most of the memory out, and need no dense product."""

LOOKUPS: dict[str, Lookup] = {
    "sparsemax": sparsemax,
    "softmax": softmax,
    "top-1": lambda z: _dense(z, top_1_candidates(z)),
    "top-p": lambda z: _dense(z, top_p_candidates(z)),
    "entmax-1.5": entmax_15,
}


def reconstruct(queries: Tensor, memory: Tensor, lookup: str = "sparsemax") -> Tensor:
    """E = ρ(Q·Pᵀ)·P: each query patch (N, D) rebuilt from the memory (M, D), in bounded memory."""
    chunks = in_chunks(queries, memory)
    return torch.cat([rebuild(chunk @ memory.T, memory, lookup) for chunk in chunks])


def in_chunks(queries: Tensor, memory: Tensor) -> Sequence[Tensor]:
    """Queries in chunks whose similarities to the whole memory take bounded room."""
    return torch.split(queries, max(1, SIMILARITIES_AT_ONCE // len(memory)))


def rebuild(z: Tensor, memory: Tensor, lookup: str = "sparsemax") -> Tensor:
    """E = ρ(z)·P for similarities that are known already."""
    if lookup not in SPARSE:
        return LOOKUPS[lookup](z) @ memory
    rebuilt = torch.empty(z.shape[0], memory.shape[1], dtype=memory.dtype, device=memory.device)
    for rows, index, weights in SPARSE[lookup](z):
        rebuilt[rows] = weighted_rows(memory, index, weights)
    return rebuilt


def weighted_rows(memory: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Σ_j w_j·p_j over the candidates of each query: a dense product would mostly add zeros."""
    return torch.nn.functional.embedding_bag(index, memory, per_sample_weights=weights, mode="sum")


def incidence(
    queries: Tensor, memory: Tensor, lookup: str = "sparsemax", sharpness: float = 1.0
) -> "csr_array":
    """The hypergraph: the weights w of each query patch (N, D) on the rows of a memory (M, D).

    A query patch is a hyperedge, and its members are the normal patches with weight above zero: a
    sparse matrix, (N, M). A dense one of half a million columns would take gigabytes.
    """
    from scipy.sparse import csr_array  # takes a while to load

    rows, columns, weights = [], [], []
    first = 0
    for part in in_chunks(sharpness * queries, memory):
        z = part @ memory.T
        if lookup in SPARSE:
            groups = SPARSE[lookup](z)
        else:
            dense = LOOKUPS[lookup](z)
            every = torch.arange(z.shape[1], device=z.device).expand_as(dense)
            groups = iter([(_all_rows(z), every, dense)])
        for place, index, active in groups:
            used = active > 0
            rows.append((first + place)[:, None].expand_as(index)[used])
            columns.append(index[used])
            weights.append(active[used])
        first += len(part)
    arrays = [torch.cat(found).cpu().numpy() for found in (weights, rows, columns)]
    found = csr_array((arrays[0], (arrays[1], arrays[2])), shape=(len(queries), len(memory)))
    found.sort_indices()
    return found


def placed(found: "csr_array", queries: Tensor | None, rows: Tensor | None) -> "csr_array":
    """The same among all query patches (`queries`, a mask) and all normal patches (`rows`).

    What was not compared is in no hyperedge, or is an empty one. None means that all were compared.
    """
    from scipy.sparse import csr_array

    coordinates = found.tocoo()
    places, shape = [coordinates.row, coordinates.col], list(found.shape)
    for axis, mask in enumerate((queries, rows)):
        if mask is not None:
            places[axis] = np.flatnonzero(mask.cpu().numpy())[places[axis]]
            shape[axis] = len(mask)
    return csr_array((coordinates.data, (places[0], places[1])), shape=tuple(shape))
