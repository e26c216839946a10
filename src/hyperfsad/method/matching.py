"""Sparse Hyper Matching (Section 4.2): from patches to their distances from normal, 1 − cos(q, ε).

A distance is the mean over the layers (Equation 9). Most of the work is left out: a row p of the
memory cannot be active for a query q unless ⟨q, p⟩ exceeds the threshold τ (Proposition 1). Rotated
onto the memory's leading axes, both split into a head and a tail, and

    ⟨q, p⟩ ≤ ⟨q_head, p_head⟩ + ‖q_tail‖·‖p_tail‖

which is one matrix product of an eighth to a third of the full width, with the tails' norms as one
more column. The threshold of any subset of the candidates is a lower bound of τ, so whatever has an
upper bound below it may go: the result is exact. The rest is done row by row in `_kernel.c`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import (
    Array,
    blocks,
    contiguous,
    in_plain_memory,
    is_numpy,
    like,
    namespace,
    padded,
    put,
    single,
    to_numpy,
)
from ..errors import UsageError
from ..threads import count, each, shared
from . import kernel
from .lookups import LOOKUPS, rebuild, reconstruct
from .scoring import cosines, mean_of_layers, patch_scores

MIN_PRUNED_ROWS = 1024
"""Rows of memory from which the bound pays."""

HEAD_SHARES, HEAD_ENERGY = (8, 6, 4, 3), 0.93
"""The head is the narrowest of these parts of the width that holds so much of the squared length of
the memory: a wider one costs more in the product than it saves after, a narrower one leaves more
rows to compare one by one. Textures need a wide one (docs/measurements/speed.md)."""

AXES_ROWS = 4096
"""Rows that the axes are taken from; any orthonormal axes are right, good ones prune more."""

BOUND_SLACK = 1e-5
"""Rounding of a bound: far above what float32 sums of unit vectors can lose."""

QUERY_BLOCK, ROW_BLOCK = 128, 2048
"""Queries and rows of memory whose bounds a thread holds at once: 1 MB, which stay in the cache.
Whole rows of bounds would pass through main memory: twice the time at 256 images."""


@dataclass(frozen=True)
class Comparison:
    """How patches are compared with normal ones."""

    grid: int
    """Patches along one side of what the encoder sees at once."""
    lookup: str = "sparsemax"
    sharpness: float = 1.0
    """Similarities are multiplied by it before the lookup: the larger, the fewer normal patches
    rebuild a patch."""
    smooth: bool = False
    """Whether the map of a whole image is averaged with its neighbours; its score never is."""

    def __post_init__(self) -> None:
        if self.lookup not in LOOKUPS:
            raise UsageError("lookup-unknown", given=self.lookup, known=", ".join(LOOKUPS))
        if not 0 < self.sharpness <= 1000:
            raise UsageError("sharpness-range", given=self.sharpness)

    def map_of(self, distances: Array, kept: Array | None = None) -> Array:
        """The map of an image from the distances of its patches, (N,)."""
        return smoothed(distances, self.grid, kept) if self.smooth else distances

    def memory_layers(self, layers: Iterable[Array]) -> "list[MemoryLayer]":
        """The memory of each layer, ready to be asked."""
        return [MemoryLayer(tokens, self.lookup, self.sharpness) for tokens in layers]


class Matcher:
    """The patches of a memory bank, ready to be asked."""

    def __init__(self, memory: Sequence[Array], how: Comparison, kept: Array | None = None) -> None:
        """`memory` is P^l for each layer, (K·N, D); `kept` masks the rows that are used, (K·N,)."""
        self._layers = how.memory_layers(masked(memory, kept))
        self._kept = kept

    def prepare(self) -> None:
        """Makes at once what the first question would wait for."""
        for layer in self._layers:
            layer.prepare()

    def distances(
        self,
        patches: Sequence[Array],
        kept: Array | None = None,
        rows: Array | None = None,
    ) -> Array:
        """1 − cos(q, ε) of each patch, averaged over the layers, (N,).

        `kept` masks the patches that are compared, (N,); the distance of others is 0. `rows` masks
        the rows of the memory that they are compared with, (K·N,).
        """
        layers = self._layers
        if rows is not None:
            xp = namespace(rows)
            index = xp.nonzero(rows if self._kept is None else rows[self._kept])[0]
            layers = [layer.only(index) for layer in layers]
        found = distances(layers, masked(patches, kept))
        if kept is None:
            return found
        return put(namespace(kept).zeros_like(kept, dtype=found.dtype), kept, found)


def masked(layers: Sequence[Array], kept: Array | None) -> Sequence[Array]:
    """The rows of each layer that a mask keeps; None keeps all."""
    return layers if kept is None else [layer[kept] for layer in layers]


def distances(layers: "Iterable[MemoryLayer]", patches: Sequence[Array]) -> Array:
    """1 − cos(q, ε) of each patch, averaged over the layers, which are asked one by one."""
    return mean_of_layers(
        layer.distances(query) for query, layer in zip(patches, layers, strict=True)
    )


def distances_apart(
    queries: Sequence[Array], memory: Sequence[Array], apart: Array, how: Comparison
) -> Array:
    """The distances of an image from itself, each patch without itself and its neighbours, (N,).

    `queries` and `memory` hold the tokens of each layer; `apart` says how many patches apart the
    places of a query and of a row are.
    """
    rebuilt = [
        rebuild(_apart(how.sharpness * query @ rows.T, apart, how), rows, how.lookup)
        for query, rows in zip(queries, memory, strict=True)
    ]
    return patch_scores(queries, rebuilt)


def _apart(z: Array, apart: Array, how: Comparison) -> Array:
    """Similarities of which those of a patch to itself and its neighbours are the least."""
    return namespace(z).where(apart <= 1, like(-how.sharpness, z, z.dtype), z)


def smoothed(values: Array, grid: int, compared: Array | None = None) -> Array:
    """Maps (…, N) averaged with their neighbours: 1 2 1 along both axes.

    What lies outside the image does not count, nor do patches that were not compared, (N,); these
    get 0.
    """
    xp = namespace(values)
    counts = xp.ones_like(values) if compared is None else xp.astype(compared, values.dtype)

    def spread(maps: Array) -> Array:
        cells = xp.reshape(maps, (*maps.shape[:-1], grid, grid))
        wide = padded(cells, 1, 1, -2)
        cells = wide[..., :-2, :] + 2 * wide[..., 1:-1, :] + wide[..., 2:, :]
        wide = padded(cells, 1, 1, -1)
        cells = wide[..., :-2] + 2 * wide[..., 1:-1] + wide[..., 2:]
        return xp.reshape(cells, maps.shape)

    weights = spread(counts)
    return counts * spread(values * counts) / xp.where(weights == 0, xp.ones_like(weights), weights)


class MemoryLayer:
    """One layer of the memory bank, ready to be asked."""

    def __init__(
        self,
        memory: Array,
        lookup: str = "sparsemax",
        sharpness: float = 1.0,
        bound: "Bound | None" = None,
        bounding: NDArray[np.float32] | None = None,
    ) -> None:
        """`bound` and what it makes of the memory may be known already."""
        self.memory = contiguous(single(memory))
        self.lookup = lookup
        self.sharpness = sharpness
        if bound is not None:
            self._bound = bound
        if bounding is not None:
            self._bounding = bounding

    def only(self, rows: Array) -> "MemoryLayer":
        """The layer with some rows alone; what the bound makes of them is known already."""
        memory = namespace(rows).take(self.memory, rows, axis=0)
        if memory.shape[0] < MIN_PRUNED_ROWS or not can_prune(memory, self.lookup):
            return MemoryLayer(memory, self.lookup, self.sharpness)
        bounding = self._bounding[to_numpy(rows)]
        return MemoryLayer(memory, self.lookup, self.sharpness, self._bound, bounding)

    def prepare(self) -> None:
        """Makes the bounds, where they are used."""
        if self.memory.shape[0] >= MIN_PRUNED_ROWS and can_prune(self.memory, self.lookup):
            self._bounding  # noqa: B018 (it is kept)

    def distances(self, queries: Array) -> Array:
        """1 − cos(q, ε) of each query patch, (N,) from (N, D)."""
        queries = single(queries)
        if not can_prune(self.memory, self.lookup):
            return self._by_the_formula(queries)
        plain = np.ascontiguousarray(to_numpy(queries), dtype=np.float32)
        found = np.empty(len(plain), dtype=np.float32)
        self.prepare()  # once, before threads ask for it
        shared(lambda rows: self._ask(plain[rows], found[rows]), len(plain), QUERY_BLOCK)
        return like(found, queries)

    def _by_the_formula(self, queries: Array) -> Array:
        def distances(part: Array) -> Array:
            return 1 - cosines(part, reconstruct(self.sharpness * part, self.memory, self.lookup))

        if not is_numpy(queries):
            return distances(queries)
        step = max(1, -(-len(queries) // count()))
        parts = [queries[part] for part in blocks(0, len(queries), step)]
        return np.concatenate(each(distances, parts))

    def _ask(self, queries: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        memory = to_numpy(self.memory)
        exact = len(memory) < MIN_PRUNED_ROWS
        rows = memory if exact else self._bounding
        sharpness = np.float32(self.sharpness)
        sides = sharpness * (queries if exact else self._bound(queries))
        queries = sharpness * queries
        slack = self.sharpness * BOUND_SLACK
        for part in blocks(0, len(queries), QUERY_BLOCK):
            search = kernel.Search(queries[part], memory)
            for tile in blocks(0, len(rows), ROW_BLOCK):
                search.offer(sides[part] @ rows[tile].T, tile.start, exact, slack)
            out[part] = search.distances()

    @cached_property
    def _bound(self) -> "Bound":
        return Bound(self.memory)

    @cached_property
    def _bounding(self) -> NDArray[np.float32]:
        memory = to_numpy(self.memory)
        found = np.empty((len(memory), self._bound.width), dtype=np.float32)

        def fill(rows: slice) -> None:
            found[rows] = self._bound(memory[rows])

        shared(fill, len(memory), ROW_BLOCK)
        return found


class Bound:
    """Heads and norms of tails of tokens, (M, head + 1) from (M, D), on the leading axes of some
    tokens."""

    def __init__(self, tokens: Array) -> None:
        plain = to_numpy(tokens)
        sample = plain[:: -(-len(plain) // AXES_ROWS)].astype(np.float64)
        values, vectors = np.linalg.eigh(sample.T @ sample)
        held = np.cumsum(values[::-1]) / values.sum()
        heads = [max(1, len(held) // share) for share in HEAD_SHARES]
        head = next((each for each in heads if held[each - 1] >= HEAD_ENERGY), heads[-1])
        self._axes = np.ascontiguousarray(vectors[:, ::-1][:, :head], dtype=np.float32)
        self.width = head + 1
        """The numbers of a head and one for the tail."""

    def __call__(self, tokens: Array) -> NDArray[np.float32]:
        """Head and norm of the tail; what rounding may have taken from the tail is added."""
        plain = to_numpy(tokens)
        found = np.empty((len(plain), self.width), dtype=np.float32)
        vecdot = namespace(plain).vecdot
        for part in blocks(0, len(plain), ROW_BLOCK):
            heads = plain[part] @ self._axes
            tail = vecdot(plain[part], plain[part]) - vecdot(heads, heads)
            found[part, :-1] = heads
            found[part, -1] = np.sqrt(np.maximum(tail, 0) + np.float32(1e-6))
        return found


def can_prune(memory: Array, lookup: str) -> bool:
    """Whether the kernel is there and made for this memory."""
    if lookup != "sparsemax" or not in_plain_memory(memory) or not kernel.available():
        return False
    return bool(memory.dtype == namespace(memory).float32)
