"""Sparse Hyper Matching at speed: the same distances as `lookups`, with most of the work left out.

A row p of the memory cannot be active for a query q unless ⟨q, p⟩ exceeds the threshold τ
(Proposition 1). Rotated onto the memory's leading axes, both split into a head and a tail, and

    ⟨q, p⟩ ≤ ⟨q_head, p_head⟩ + ‖q_tail‖·‖p_tail‖

which is one matrix product of an eighth to a third of the full width, with the tails' norms as one
more column. The threshold of any subset of the candidates is a lower bound of τ, so whatever has an
upper bound below it may go: the result is exact. The rest is done row by row in `_kernel.c`.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor

from .lookups import reconstruct

kernel: ModuleType | None
try:
    kernel = import_module("._kernel", __package__)
except ImportError:  # there was no compiler when this was installed
    kernel = None

WORTHWHILE = 1024
"""Rows of memory from which the bound pays."""

HEAD_SHARES, HELD = (8, 6, 4, 3), 0.93
"""The head is the narrowest of these parts of the width that holds so much of the squared length of
the memory: a wider one costs more in the product than it saves after, a narrower one leaves more
rows to compare one by one. Textures need a wide one (docs/speed.md)."""

AXES_FROM = 4096
"""Rows that the axes are taken from; any orthonormal axes are right, good ones prune more."""

SLACK = 1e-5
"""Rounding of a bound: far above what float32 sums of unit vectors can lose."""

TOGETHER, TILE = 256, 2048
"""Queries and rows of memory whose bounds a thread holds at once: 2 MB, which stay in the cache.
Whole rows of bounds would pass through main memory: twice the time at 256 images."""


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
        if len(memory) < WORTHWHILE or not can_prune(memory, self.lookup):
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
        if len(self.memory) >= WORTHWHILE:
            self._bounding  # noqa: B018 (made once, before threads ask for it)
        _in_threads(lambda rows: self._ask(queries[rows], found[rows]), len(queries))
        return found

    def _ask(self, queries: Tensor, out: Tensor) -> None:
        assert kernel is not None
        exact = len(self.memory) < WORTHWHILE
        rows = self.memory if exact else self._bounding
        sides = self.sharpness * (queries if exact else self._bound(queries))
        queries = self.sharpness * queries
        slack = self.sharpness * SLACK
        for start in range(0, len(queries), TOGETHER):
            part = slice(start, start + TOGETHER)
            search = kernel.begin(queries[part].numpy(), self.memory.numpy(), queries.shape[1])
            for first, tile in enumerate(torch.split(rows, TILE)):
                bounds = sides[part] @ tile.T
                kernel.offer(search, bounds.numpy(), first * TILE, exact, slack)
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
        sample = tokens[:: -(-len(tokens) // AXES_FROM)].double()
        found = torch.linalg.eigh(sample.T @ sample)
        held = found.eigenvalues.flip(0).cumsum(0) / found.eigenvalues.sum()
        heads = [max(1, len(held) // share) for share in HEAD_SHARES]
        head = next((each for each in heads if held[each - 1] >= HELD), heads[-1])
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


def _in_threads(work: Callable[[slice], None], count: int) -> None:
    """Shares `count` rows among as many threads as torch has, each with a core of its own.

    Torch's own threads would do the products as fast, but go on spinning for a while after each,
    and take the cores from all that follows: on two cores that cost a third of the time.
    """
    workers = min(torch.get_num_threads(), count)
    if workers < 2:
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

    pool = ThreadPoolExecutor(workers, thread_name_prefix="hyperfsad-matching")
    for _ in range(workers):
        pool.submit(begin)
    ready.wait()
    torch.set_num_threads(everywhere)
    return pool
