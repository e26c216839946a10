"""Sparse Hyper Matching (Section 4.2 of the paper) and the lookups of Equation 8.

A lookup ρ turns the similarities z of one query patch to the M normal patches into weights w on the
simplex; the reconstruction is ε = w·P. Rows of `z` are queries, columns are rows of the memory, and
every lookup returns its weights in that same order.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from ..arrays import (
    Array,
    blocks,
    device,
    namespace,
    positive,
    scattered,
    top_k,
    weighted_rows,
    wide,
)

Lookup: TypeAlias = Callable[[Array], Array]
"""From similarities (N, M) to weights (N, M)."""

Candidates: TypeAlias = Iterator[tuple[Array, Array, Array]]
"""Weights without most zeros: groups of rows, for each its candidates and their weights."""

TOP_P = 0.01
"""The share of the memory that the top-p lookup keeps (Table 2 of the paper)."""

FIRST_CANDIDATES = 128
"""Where sparsemax starts: of 4 × 1,024 real patches 17 to 42 were active on average, 74 at most."""

SIMILARITIES_AT_ONCE = 1 << 22
"""Similarities held at once: 16 MB in float32, so that no memory size needs more."""


def sparsemax(z: Array) -> Array:
    """Euclidean projection of each row onto the simplex (Equation 1): w = [z − τ]₊ with Σw = 1."""
    return _dense(z, sparsemax_candidates(z))


def sparsemax_candidates(z: Array) -> Candidates:
    """Sparsemax without its zeros.

    Algorithm 1 on the best k candidates of a row. If the last of them gets no weight, then by
    Proposition 1 neither does any other, and the row is exact; the remaining rows go on with more
    candidates, up to all of them, so that active sets of any size come out right.
    """
    xp = namespace(z)
    rows, left, candidates = all_rows(z), z, FIRST_CANDIDATES
    while rows.shape[0]:
        candidates = min(candidates, z.shape[1])
        values, index = top_k(left, candidates)
        weights = project_sorted(values)
        exact = (weights[:, -1] == 0) | (candidates == z.shape[1])
        if xp.all(exact):
            yield rows, *trimmed(index, weights)
            return
        yield rows[exact], *trimmed(index[exact], weights[exact])
        rows, left = rows[~exact], left[~exact]
        candidates *= 4


def trimmed(index: Array, weights: Array) -> tuple[Array, Array]:
    """Candidates and weights up to the last that any row uses."""
    xp = namespace(weights)
    used = xp.nonzero(xp.any(weights > 0, axis=0))[0]
    width = int(used[-1]) + 1 if used.shape[0] else 1
    return index[:, :width], weights[:, :width]


def project_sorted(z: Array) -> Array:
    """Algorithm 1 on rows that fall from left to right.

    The sums are taken less the row's maximum and in float64: half a million equal similarities
    would lose the 1 in a plain float32 sum.
    """
    gaps = wide(z) - wide(z[:, :1])
    weights = positive(gaps - sorted_threshold(gaps))
    return namespace(z).astype(weights, z.dtype, copy=False)


def sorted_threshold(gaps: Array) -> Array:
    """τ of rows that fall from left to right, less their maximum (Algorithm 1, lines 2 and 3).

    Only operations that an exported graph can hold.
    """
    xp = namespace(gaps)
    count = xp.arange(1, gaps.shape[-1] + 1, dtype=gaps.dtype, device=device(gaps))
    active = 1 + count * gaps > xp.cumulative_sum(gaps, axis=-1)
    size = xp.sum(xp.astype(active, gaps.dtype), axis=-1, keepdims=True)
    above = gaps * xp.astype(count <= size, gaps.dtype)
    return (xp.sum(above, axis=-1, keepdims=True) - 1) / size


def softmax(z: Array) -> Array:
    """Dense lookup (Equation 8): every normal patch gets some weight."""
    xp = namespace(z)
    shares = xp.exp(z - xp.max(z, axis=-1, keepdims=True))
    return shares / xp.sum(shares, axis=-1, keepdims=True)


def top_1_candidates(z: Array) -> Candidates:
    """Nearest neighbour: all weight on the most similar patch (the first of equals)."""
    xp = namespace(z)
    yield all_rows(z), xp.argmax(z, axis=-1, keepdims=True), xp.ones_like(z[:, :1])


def top_p_candidates(z: Array) -> Candidates:
    """Top-p lookup (Equation 8): softmax over the most similar 1 % of the memory."""
    kept, index = top_k(z, max(1, math.ceil(TOP_P * z.shape[-1])))
    yield all_rows(z), index, softmax(kept)


def entmax_15(z: Array) -> Array:
    """α-entmax for α = 1.5 (Peters et al., 2019): w = [z/2 − τ]₊² with Σw = 1, without sorting.

    ‖[z/2 − τ]₊‖ is convex and falls with τ, so Newton's steps from the left reach 1 and never pass
    it; three or four do on real patches, where hundreds are active and a sort costs forty times as
    much.
    """
    xp = namespace(z)
    gaps = (z - xp.max(z, axis=-1, keepdims=True)) / 2
    threshold = -xp.ones_like(z[:, :1])
    smallest_step = 4 * xp.finfo(z.dtype).eps
    while True:
        above = positive(gaps - threshold)
        total = xp.sum(above, axis=-1, keepdims=True)
        norm = xp.sqrt(xp.sum(above * above, axis=-1, keepdims=True))
        step = norm * (norm - 1) / total
        threshold = threshold + step
        if not xp.any(step > smallest_step):
            return positive(gaps - threshold) ** 2


def all_rows(z: Array) -> Array:
    """The number of each row."""
    return namespace(z).arange(z.shape[0], device=device(z))


def _dense(z: Array, candidates: Candidates) -> Array:
    groups = ((rows, scattered(index, weights, z.shape[1])) for rows, index, weights in candidates)
    return _whole(z, groups)


def _whole(z: Array, groups: Iterable[tuple[Array, Array]]) -> Array:
    """One array from groups of rows of `z` and what was found for them."""
    rows, found = zip(*groups, strict=True)
    if len(rows) == 1:
        return found[0]
    xp = namespace(z)
    return xp.take(xp.concat(found), xp.argsort(xp.concat(rows)), axis=0)


SPARSE: dict[str, Callable[[Array], Candidates]] = {
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


def reconstruct(queries: Array, memory: Array, lookup: str = "sparsemax") -> Array:
    """E = ρ(Q·Pᵀ)·P: each query patch (N, D) rebuilt from the memory (M, D), in bounded memory."""
    chunks = in_chunks(queries, memory)
    xp = namespace(queries, memory)
    return xp.concat([rebuild(chunk @ memory.T, memory, lookup) for chunk in chunks])


def in_chunks(queries: Array, memory: Array) -> Sequence[Array]:
    """Queries in chunks whose similarities to the whole memory take bounded room."""
    step = max(1, SIMILARITIES_AT_ONCE // memory.shape[0])
    return [queries[part, :] for part in blocks(0, queries.shape[0], step)]


def rebuild(z: Array, memory: Array, lookup: str = "sparsemax") -> Array:
    """E = ρ(z)·P for similarities that are known already; a dense product would mostly add zeros
    where a lookup leaves most of the memory out."""
    if lookup not in SPARSE:
        return LOOKUPS[lookup](z) @ memory
    groups = SPARSE[lookup](z)
    return _whole(z, ((rows, weighted_rows(memory, index, w)) for rows, index, w in groups))
