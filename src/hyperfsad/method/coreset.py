"""A coreset of the memory bank: fewer rows to compare with, and none of the others far away.

Rows of all layers are chosen together. With p^l the tokens of a row and c^l those of the kept row
that stands for it, the covering radius R is the largest root of mean_l‖p^l − c^l‖². What follows
for scores: sparsemax maximises s·⟨w, z⟩ − ½‖w‖² on the simplex, and is no worse there than all
weight on the most similar row, so that ⟨q, ε⟩ ≥ max_j⟨q, c_j⟩ − 1/(2s) with the sharpness s; and
‖ε‖ ≤ 1. A patch within ε_l of a row of the whole memory therefore has, as in the proof of
Theorem 1,

    1 − cos(q, ε) ≤ mean_l (ε_l + r_l)²/2 + 1/(2s),    r_l = ‖p^l − c^l‖, mean_l r_l² ≤ R²

while with the whole memory R is 0. Both scores lie between 0 and this, so it bounds their
difference too. A learnt patch (ε_l = 0) scores at most R²/2 + 1/(2s).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

EXACT, COMPACT = "exact", "compact"

COMPACT_SHARE, MIN_COMPACT = 0.25, 16_384
"""What `compact` keeps: a share of the rows, and never fewer than this (16 images of the default
encoder), below which nothing is gained."""

PROJECTED = 128
"""Of the random projection in which the next rows are sought; the radius is measured without."""

PICKED_AT_ONCE, CANDIDATE_ROWS = 64, 256
"""Rows that are picked at a time, out of this many that are farthest from all picked before."""
GROWTH = 16
"""At first fewer: one over this part of the rows that were picked before."""


@dataclass(frozen=True)
class Coreset:
    """Which rows of a memory bank are kept."""

    kept: Tensor
    """(K·N,), as a mask."""
    radius: float
    """R: no row is farther from the kept one that stands for it, over all layers."""

    def bound(self, sharpness: float) -> float | None:
        """What a learnt patch scores at most; None where that says nothing."""
        found = self.radius**2 / 2 + 1 / (2 * sharpness)
        return found if found < 1 else None


def compact_count(rows: int) -> int:
    """How many of `rows` rows `compact` keeps."""
    return min(rows, max(MIN_COMPACT, math.ceil(COMPACT_SHARE * rows)))


def cover(layers: Sequence[Tensor], count: int) -> Coreset:
    """Keeps `count` rows of a bank, (M, D) a layer, the farthest first.

    The k-centre greedy of Sener and Savarese (ICLR 2018), some rows at a time: of those that are
    farthest from all picked before, the farthest from one another. Always the same rows.
    """
    rows = len(layers[0])
    if count >= rows:
        return Coreset(torch.ones(rows, dtype=torch.bool, device=layers[0].device), 0.0)
    points = _projected(layers)
    squares = points.square().sum(dim=1)
    gaps = torch.full_like(squares, torch.inf)
    nearest = torch.zeros(rows, dtype=torch.long, device=points.device)
    picked = (points - points.mean(dim=0)).square().sum(dim=1).argmax()[None]
    kept = picked
    while True:
        distances = squares[:, None] - 2 * points @ points[picked].T + squares[picked]
        least, place = distances.min(dim=1)
        closer = least < gaps
        gaps = torch.where(closer, least, gaps)
        nearest = torch.where(closer, picked[place], nearest)
        gaps[picked] = -torch.inf
        if len(kept) >= count:
            break
        together = min(PICKED_AT_ONCE, max(1, len(kept) // GROWTH), count - len(kept))
        picked = _spread(points, gaps, together)
        kept = torch.cat([kept, picked])
    mask = torch.zeros(rows, dtype=torch.bool, device=points.device)
    mask[kept] = True
    nearest[kept] = kept
    squares = layers[0].new_zeros(rows)
    for layer in layers:
        for part in torch.split(torch.arange(rows, device=points.device), 1 << 14):
            squares[part] += (layer[part] - layer[nearest[part]]).square().sum(dim=1)
    return Coreset(mask, math.sqrt(float(squares.max()) / len(layers)))


def _projected(layers: Sequence[Tensor]) -> Tensor:
    """The layers side by side, at random onto fewer dimensions (Johnson–Lindenstrauss)."""
    generator = torch.Generator().manual_seed(0)
    total = sum(layer.shape[1] for layer in layers)
    size = min(PROJECTED, total)
    found = layers[0].new_zeros(len(layers[0]), size)
    for layer in layers:
        matrix = torch.randn(layer.shape[1], size, generator=generator) / math.sqrt(size)
        found += layer @ matrix.to(layer)
    return found / math.sqrt(len(layers))


def _spread(points: Tensor, gaps: Tensor, count: int) -> Tensor:
    """Rows far from all picked before and from one another."""
    among = gaps.topk(min(CANDIDATE_ROWS, len(gaps))).indices
    apart = torch.cdist(points[among], points[among]).square()
    left = gaps[among].clone()
    chosen = []
    for _ in range(min(count, int((left > -torch.inf).sum()))):
        place = int(left.argmax())
        chosen.append(place)
        left = torch.minimum(left, apart[place])
        left[place] = -torch.inf
    return among[chosen]
