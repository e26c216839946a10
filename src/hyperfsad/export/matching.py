"""Sparse Hyper Matching (Section 4.2) and missing pieces as a graph can hold them.

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
from torch import Tensor, nn

from ..method.lookups import FIRST_CANDIDATES, sorted_threshold
from ..method.missing import (
    COMPARED_PARTS,
    MAX_SHOWN,
    MIN_SHOWN,
    MISSING_POOLING,
    MissingPieces,
    excess_of,
    searched,
)

ALL_ROWS = 1e9
"""More rows than a memory ever has."""


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
    count = min(FIRST_CANDIDATES, z.shape[-1])
    falling = gaps.topk(count, dim=-1).values
    threshold = sorted_threshold(falling)
    if count < z.shape[-1]:
        short = falling[..., -1:] > threshold  # the last candidate is active: others may be, too
        rows = torch.full_like(threshold, ALL_ROWS)
        threshold = _loop()(gaps, threshold, rows, short.any())
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


class MissingGraph(nn.Module):
    """What images lack of the good parts that they resemble most (`method/missing.py`)."""

    images: Tensor
    cls: Tensor
    usual: Tensor

    def __init__(self, pieces: MissingPieces, grid: int) -> None:
        super().__init__()
        self._grid, self._count = grid, grid * grid
        self._pooled = min(MISSING_POOLING.patches_of(self._count), self._count)
        usual = torch.stack([pieces.variation(number) for number in range(len(pieces.images))])
        self.register_buffer("images", torch.stack(list(pieces.images)).cpu().clone())
        self.register_buffer("cls", pieces.cls.cpu().clone())
        self.register_buffer("usual", usual.cpu())

    def forward(self, patches: Tensor, cls: Tensor) -> tuple[Tensor, Tensor]:
        """The score of each image and what it adds to the map: (images,) and (images, N)."""
        images, usual = self._resembled(cls)
        similarities = images @ patches[:, None].transpose(-1, -2)
        residuals, expected = searched(similarities, self._grid)
        excess = excess_of(residuals, usual)
        scores = excess.topk(self._pooled, dim=-1).values.mean(dim=-1).clamp(min=0)
        least = _first_least(scores)
        place = least[:, :, None].expand(-1, -1, self._count)
        excess, expected = excess.gather(1, place)[:, 0], expected.gather(1, place)[:, 0]
        values = torch.where(_largest(excess, MAX_SHOWN) & (excess > MIN_SHOWN), excess, 0.0)
        there = expected[:, :, None] == torch.arange(self._count)
        added = (values[:, :, None] * there.to(values.dtype)).amax(dim=1)
        return scores.gather(1, least)[:, 0], added

    def _resembled(self, cls: Tensor) -> tuple[Tensor, Tensor]:
        """The patches of the good parts that each image is asked about, in their order, and how
        these vary: (images or 1, few, N, D) and (images or 1, few, N)."""
        if len(self.images) <= COMPARED_PARTS:
            return self.images[None], self.usual[None]
        nearest = (cls @ self.cls.T).topk(COMPARED_PARTS, dim=-1).indices.to(cls.dtype)
        nearest = nearest.topk(COMPARED_PARTS, dim=-1, largest=False).values.long()
        return self.images[nearest], self.usual[nearest]


def _first_least(scores: Tensor) -> Tensor:
    """The place of the smallest score of each row, the first of equals, (images, 1).

    Runtimes differ in which of equals their operators take, so none of these is asked.
    """
    equals = scores <= scores.amin(dim=1, keepdim=True)
    count = scores.shape[1]
    return torch.where(equals, torch.arange(count), count).amin(dim=1, keepdim=True)


def _largest(values: Tensor, count: int) -> Tensor:
    """Which values of each row are among the largest, of equals the first, as a mask."""
    ours, others = values[:, :, None], values[:, None]
    places = torch.arange(values.shape[1])
    before = (others > ours) | ((others == ours) & (places < places[:, None]))
    return before.to(values.dtype).sum(dim=-1) < count
