"""Sparse Hyper Matching (Section 4.2) as a graph can hold it: exact, whatever the active set.

`method/lookups.py` sorts the best candidates of a row and asks for more where they do not suffice.
A graph cannot choose its shapes, so here the best candidates give a first threshold, and where they
do not suffice, a loop goes on from there over all rows of the memory. A threshold of some
candidates is never above that of all. From below, Newton's steps on Σ[z − τ]₊ = 1 rise and never
pass the root, since that sum is convex and falls; each step lets at least one patch go or is the
last one. So the loop ends, after as many steps as there are patches at the very most (Michelot,
1986, "A finite algorithm for finding the projection of a point onto the canonical simplex of Rⁿ").

All sums here are of weights above zero that add up to about 1, so that float32 holds them at any
size; OpenVINO computes in nothing wider on a CPU.
"""

import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from ..method.lookups import sorted_threshold

CANDIDATES = 128
"""Of 4 × 1,024 real patches 74 at most were active, so that the loop has nothing to do."""

EVERYONE = 1e9
"""More patches than there ever are."""


def distances(queries: Tensor, memory: Tensor, sharpness: float, allowed: Tensor | None) -> Tensor:
    """1 − cos(q, ε) of each patch: (images, N) from (images, N, D) and the memory, (M, D) for all
    images or (images, M, D). `allowed` masks its rows, (images, M); None allows all."""
    z = (sharpness * queries) @ memory.transpose(-1, -2)
    if allowed is not None:  # more than 1 below any similarity: never active
        z = torch.where(allowed[:, None], z, torch.full_like(z, -sharpness - 2))
    rebuilt = sparsemax(z) @ memory
    along = (queries * rebuilt).sum(dim=-1)
    lengths = [torch.linalg.vector_norm(each, dim=-1) for each in (queries, rebuilt)]
    least: list[Tensor] = [each.clamp(min=1e-8) for each in lengths]
    return 1 - along / (least[0] * least[1])


def sparsemax(z: Tensor) -> Tensor:
    """w = [z − τ]₊ with Σw = 1 (Equation 1), over the last axis."""
    gaps = z - z.amax(dim=-1, keepdim=True)
    count = min(CANDIDATES, z.shape[-1])
    falling = gaps.topk(count, dim=-1).values
    threshold = sorted_threshold(falling)
    if count < z.shape[-1]:
        short = falling[..., -1:] > threshold  # the last candidate is active: others may be, too
        everyone = torch.full_like(threshold, EVERYONE)
        threshold = _loop()(gaps, threshold, everyone, short.any())
    return (gaps - threshold).relu()


def _climb(gaps: Tensor, threshold: Tensor, size: Tensor, going: Tensor) -> Tensor:
    """Newton's steps from a threshold that is not too high, until no row loses a patch."""
    while bool(going):
        above = (gaps - threshold).relu()
        left = (gaps > threshold).to(gaps.dtype).sum(dim=-1, keepdim=True)
        step = (above.sum(dim=-1, keepdim=True) - 1) / left
        threshold = threshold + step.relu()  # rounding never takes it back
        going = (left < size).any()
        size = left
    return threshold


@cache
def _loop() -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The same for a graph: traced, it would have as many steps as the example took."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather have another exporter used
        loop: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = torch.jit.script(_climb)
    return loop
