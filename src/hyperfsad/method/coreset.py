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

import numpy as np

from ..arrays import Array, blocks, device, like, namespace, positive, put, to_numpy, top_k
from ..threads import one_library_thread, shared

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

ROWS_AT_ONCE = 1 << 13
"""Rows whose distances a thread holds at once: 2 MB, which stay in the cache."""


@dataclass(frozen=True)
class Coreset:
    """Which rows of a memory bank are kept."""

    kept: Array
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


def cover(layers: Sequence[Array], count: int) -> Coreset:
    """Keeps `count` rows of a bank, (M, D) a layer, the farthest first.

    The k-centre greedy of Sener and Savarese (ICLR 2018), some rows at a time: of those that are
    farthest from all picked before, the farthest from one another. Always the same rows.
    """
    xp = namespace(*layers)
    rows, place = layers[0].shape[0], device(layers[0])
    if count >= rows:
        return Coreset(xp.ones((rows,), dtype=xp.bool, device=place), 0.0)
    with one_library_thread():
        kept, nearest = _picked(_projected(layers), count)
        mask = put(xp.zeros((rows,), dtype=xp.bool, device=place), kept, True)
        return Coreset(mask, _radius(layers, nearest))


def _picked(points: Array, count: int) -> tuple[Array, Array]:
    """The rows that are kept, and of each row the one that stands for it."""
    xp = namespace(points)
    covered = _Cover(points)
    centred = points - xp.mean(points, axis=0)
    picked = xp.reshape(xp.argmax(xp.vecdot(centred, centred)), (1,))
    kept = picked
    while True:
        covered.add(picked)
        if kept.shape[0] >= count:
            return kept, put(covered.nearest, kept, kept)
        together = min(PICKED_AT_ONCE, max(1, kept.shape[0] // GROWTH), count - kept.shape[0])
        picked = _spread(points, covered.gaps, together)
        kept = xp.concat([kept, picked])


class _Cover:
    """How far each row is from the nearest of those that were picked."""

    def __init__(self, points: Array) -> None:
        xp = namespace(points)
        self._points, self._squares = points, xp.vecdot(points, points)
        self.gaps = xp.full_like(self._squares, math.inf)
        """The squared distances; −∞ of picked rows."""
        self.nearest = xp.zeros_like(self.gaps, dtype=xp.int64)

    def add(self, picked: Array) -> None:
        """Picks some more rows."""
        xp = namespace(picked)
        others = -2 * xp.take(self._points, picked, axis=0)
        lengths = xp.take(self._squares, picked)[:, None]

        def compare(rows: slice) -> None:
            for part in blocks(rows.start, rows.stop, ROWS_AT_ONCE):
                apart = others @ self._points[part, :].T + lengths  # less the squares of all rows
                least = xp.min(apart, axis=0) + self._squares[part]
                closer = xp.nonzero(least < self.gaps[part])[0]
                self.gaps[part] = xp.minimum(self.gaps[part], least)
                nearest = xp.take(picked, xp.argmin(xp.take(apart, closer, axis=1), axis=0))
                self.nearest[part] = put(self.nearest[part], closer, nearest)

        shared(compare, self.gaps.shape[0])
        self.gaps = put(self.gaps, picked, -math.inf)


def _projected(layers: Sequence[Array]) -> Array:
    """The layers side by side, at random onto fewer dimensions (Johnson–Lindenstrauss)."""
    random = np.random.default_rng(0)
    size = min(PROJECTED, sum(layer.shape[1] for layer in layers))
    found: Array = 0.0
    for layer in layers:
        matrix = random.standard_normal((layer.shape[1], size), np.float32) / math.sqrt(size)
        found = found + layer @ like(matrix, layer, layer.dtype)
    return found / math.sqrt(len(layers))


def _spread(points: Array, gaps: Array, count: int) -> Array:
    """Rows far from all picked before and from one another."""
    xp = namespace(points)
    left, among = top_k(gaps, min(CANDIDATE_ROWS, gaps.shape[0]))
    few = xp.take(points, among, axis=0)
    squares = xp.vecdot(few, few)
    apart = to_numpy(positive(squares[:, None] + squares - 2 * (few @ few.T)))
    least = np.array(to_numpy(left))
    chosen: list[int] = []
    for _ in range(min(count, int((least > -np.inf).sum()))):
        place = int(least.argmax())
        chosen.append(place)
        np.minimum(least, apart[place], out=least)
        least[place] = -np.inf
    return xp.take(among, like(chosen, among))


def _radius(layers: Sequence[Array], nearest: Array) -> float:
    """R, from the kept row that stands for each."""
    xp = namespace(*layers)
    worst = 0.0
    for part in blocks(0, nearest.shape[0], ROWS_AT_ONCE):
        squares: Array = 0.0
        for layer in layers:
            apart = layer[part, :] - xp.take(layer, nearest[part], axis=0)
            squares = squares + xp.vecdot(apart, apart)
        worst = max(worst, float(xp.max(squares)))
    return math.sqrt(worst / len(layers))
