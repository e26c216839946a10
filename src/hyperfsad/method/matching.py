"""Sparse Hyper Matching (Section 4.2): from patches to their distances from normal, 1 − cos(q, ε).

A distance is the mean over the layers (Equation 9). Most of the work is left out: a row p of the
memory cannot be active for a query q unless ⟨q, p⟩ exceeds the threshold τ (Proposition 1). Rotated
onto the memory's leading axes, both split into a head and a tail, and

    ⟨q, p⟩ ≤ ⟨q_head, p_head⟩ + ‖q_tail‖·‖p_tail‖

which is one matrix product of an eighth to a third of the full width, with the tails' norms as one
more column. The threshold of any subset of the candidates is a lower bound of τ, so whatever has an
upper bound below it may go: the result is exact. The rest is done row by row in `_kernel.c`.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor

from ..errors import UsageError
from .lookups import LOOKUPS, rebuild, reconstruct
from .scoring import mean_of_layers, patch_scores

kernel: ModuleType | None
try:
    kernel = import_module("._kernel", __package__)
except ImportError:  # there was no compiler when this was installed
    kernel = None

MIN_PRUNED_ROWS = 1024
"""Rows of memory from which the bound pays."""

HEAD_SHARES, HEAD_ENERGY = (8, 6, 4, 3), 0.93
"""The head is the narrowest of these parts of the width that holds so much of the squared length of
the memory: a wider one costs more in the product than it saves after, a narrower one leaves more
rows to compare one by one. Textures need a wide one (docs/speed.md)."""

AXES_ROWS = 4096
"""Rows that the axes are taken from; any orthonormal axes are right, good ones prune more."""

BOUND_SLACK = 1e-5
"""Rounding of a bound: far above what float32 sums of unit vectors can lose."""

POOL_NAME = "hyperfsad-matching"
"""Of the threads that share rows; what they ask for in turn they do themselves."""

QUERY_BLOCK, ROW_BLOCK = 256, 2048
"""Queries and rows of memory whose bounds a thread holds at once: 2 MB, which stay in the cache.
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

    def map_of(self, distances: Tensor, kept: Tensor | None = None) -> Tensor:
        """The map of an image from the distances of its patches, (N,)."""
        return smoothed(distances, self.grid, kept) if self.smooth else distances

    def memory_layers(self, layers: Iterable[Tensor]) -> "list[MemoryLayer]":
        """The memory of each layer, ready to be asked."""
        return [MemoryLayer(tokens, self.lookup, self.sharpness) for tokens in layers]


class Matcher:
    """The patches of a memory bank, ready to be asked."""

    def __init__(
        self, memory: Sequence[Tensor], how: Comparison, kept: Tensor | None = None
    ) -> None:
        """`memory` is P^l for each layer, (K·N, D); `kept` masks the rows that are used, (K·N,)."""
        self._layers = how.memory_layers(masked(memory, kept))
        self._kept = kept

    def distances(
        self,
        patches: Sequence[Tensor],
        kept: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """1 − cos(q, ε) of each patch, averaged over the layers, (N,).

        `kept` masks the patches that are compared, (N,); the distance of others is 0. `rows` masks
        the rows of the memory that they are compared with, (K·N,).
        """
        layers = self._layers
        if rows is not None:
            index = (rows if self._kept is None else rows[self._kept]).nonzero().flatten()
            layers = [layer.only(index) for layer in layers]
        found = distances(layers, masked(patches, kept))
        if kept is None:
            return found
        whole = found.new_zeros(len(kept))
        whole[kept] = found
        return whole


def masked(layers: Sequence[Tensor], kept: Tensor | None) -> Sequence[Tensor]:
    """The rows of each layer that a mask keeps; None keeps all."""
    return layers if kept is None else [layer[kept] for layer in layers]


def distances(layers: "Iterable[MemoryLayer]", patches: Sequence[Tensor]) -> Tensor:
    """1 − cos(q, ε) of each patch, averaged over the layers, which are asked one by one."""
    return mean_of_layers(
        layer.distances(query) for query, layer in zip(patches, layers, strict=True)
    )


def distances_apart(
    queries: Sequence[Tensor], memory: Sequence[Tensor], apart: Tensor, how: Comparison
) -> Tensor:
    """The distances of an image from itself, each patch without itself and its neighbours, (N,).

    `queries` and `memory` hold the tokens of each layer; `apart` says how many patches apart the
    places of a query and of a row are.
    """
    rebuilt = [
        rebuild(
            (how.sharpness * query @ rows.T).masked_fill(apart <= 1, -how.sharpness),
            rows,
            how.lookup,
        )
        for query, rows in zip(queries, memory, strict=True)
    ]
    return patch_scores(queries, rebuilt)


def smoothed(values: Tensor, grid: int, compared: Tensor | None = None) -> Tensor:
    """Maps (…, N) averaged with their neighbours: 1 2 1 along both axes.

    What lies outside the image does not count, nor do patches that were not compared, (N,); these
    get 0.
    """
    counts = torch.ones_like(values) if compared is None else compared.to(values)
    line = values.new_tensor([1.0, 2.0, 1.0])
    weights = (line[:, None] * line)[None, None]

    def spread(maps: Tensor) -> Tensor:
        found = torch.nn.functional.conv2d(maps.reshape(-1, 1, grid, grid), weights, padding=1)
        return found.reshape(maps.shape)

    return counts * spread(values * counts) / spread(counts).clamp(min=1.0)


class MemoryLayer:
    """One layer of the memory bank, ready to be asked."""

    def __init__(
        self,
        memory: Tensor,
        lookup: str = "sparsemax",
        sharpness: float = 1.0,
        bound: "Bound | None" = None,
        bounding: Tensor | None = None,
    ) -> None:
        """`bound` and what it makes of the memory may be known already."""
        self.memory = memory.contiguous()
        self.lookup = lookup
        self.sharpness = sharpness
        if bound is not None:
            self._bound = bound
        if bounding is not None:
            self._bounding = bounding

    def only(self, rows: Tensor) -> "MemoryLayer":
        """The layer with some rows alone; what the bound makes of them is known already."""
        memory = self.memory[rows]
        if len(memory) < MIN_PRUNED_ROWS or not can_prune(memory, self.lookup):
            return MemoryLayer(memory, self.lookup, self.sharpness)
        bounding = self._bounding[rows]
        return MemoryLayer(memory, self.lookup, self.sharpness, self._bound, bounding)

    def distances(self, queries: Tensor) -> Tensor:
        """1 − cos(q, ε) of each query patch, (N,) from (N, D)."""
        if not can_prune(self.memory, self.lookup):
            rebuilt = reconstruct(self.sharpness * queries, self.memory, self.lookup)
            return 1 - torch.cosine_similarity(queries, rebuilt, dim=-1)
        found = torch.empty(len(queries))
        queries = queries.contiguous()
        if len(self.memory) >= MIN_PRUNED_ROWS:
            self._bounding  # noqa: B018 (made once, before threads ask for it)
        in_threads(lambda rows: self._ask(queries[rows], found[rows]), len(queries))
        return found

    def _ask(self, queries: Tensor, out: Tensor) -> None:
        assert kernel is not None
        exact = len(self.memory) < MIN_PRUNED_ROWS
        rows = self.memory if exact else self._bounding
        sides = self.sharpness * (queries if exact else self._bound(queries))
        queries = self.sharpness * queries
        slack = self.sharpness * BOUND_SLACK
        for start in range(0, len(queries), QUERY_BLOCK):
            part = slice(start, start + QUERY_BLOCK)
            search = kernel.begin(queries[part].numpy(), self.memory.numpy(), queries.shape[1])
            for first, tile in enumerate(torch.split(rows, ROW_BLOCK)):
                bounds = sides[part] @ tile.T
                kernel.offer(search, bounds.numpy(), first * ROW_BLOCK, exact, slack)
            kernel.finish(search, out[part].numpy())

    @cached_property
    def _bound(self) -> "Bound":
        return Bound(self.memory)

    @cached_property
    def _bounding(self) -> Tensor:
        parts = torch.split(self.memory, 1 << 16)
        return torch.cat([self._bound(part) for part in parts])


class Bound:
    """Heads and norms of tails of tokens, (M, head + 1) from (M, D), on the leading axes of some
    tokens."""

    def __init__(self, tokens: Tensor) -> None:
        sample = tokens[:: -(-len(tokens) // AXES_ROWS)].double()
        found = torch.linalg.eigh(sample.T @ sample)
        held = found.eigenvalues.flip(0).cumsum(0) / found.eigenvalues.sum()
        heads = [max(1, len(held) // share) for share in HEAD_SHARES]
        head = next((each for each in heads if held[each - 1] >= HEAD_ENERGY), heads[-1])
        self._axes = found.eigenvectors.flip(1)[:, :head].float().contiguous()

    def __call__(self, tokens: Tensor) -> Tensor:
        """Head and norm of the tail; what rounding may have taken from the tail is added."""
        head = tokens @ self._axes
        tail = (tokens.square().sum(dim=1) - head.square().sum(dim=1)).clamp(min=0)
        return torch.cat([head, (tail + 1e-6).sqrt()[:, None]], dim=1)


def can_prune(memory: Tensor, lookup: str) -> bool:
    """Whether the kernel is there and made for this memory."""
    fast = kernel is not None and lookup == "sparsemax"
    return fast and memory.device.type == "cpu" and memory.dtype == torch.float32


def in_threads(work: Callable[[slice], None], count: int) -> None:
    """Shares `count` rows among as many threads as torch has, each with a core of its own.

    Torch's own threads would do the products as fast, but go on spinning for a while after each,
    and take the cores from all that follows: on two cores that cost a third of the time.
    """
    inside = threading.current_thread().name.startswith(POOL_NAME)
    workers = min(torch.get_num_threads(), count)
    if inside or workers < 2:
        work(slice(0, count))
        return
    step = -(-count // workers)
    slices = [slice(start, min(start + step, count)) for start in range(0, count, step)]
    list(_pool(workers).map(work, slices))


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads in which torch starts no further ones."""
    everywhere = torch.get_num_threads()
    ready = threading.Barrier(workers + 1)

    def begin() -> None:
        torch.set_num_threads(1)  # of this thread, and of threads that begin later
        ready.wait()

    pool = ThreadPoolExecutor(workers, thread_name_prefix=POOL_NAME)
    for _ in range(workers):
        pool.submit(begin)
    ready.wait()
    torch.set_num_threads(everywhere)
    return pool
