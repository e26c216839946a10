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

Every function takes arrays of any kind: numpy computes, and nodes (`nodes.py`) draw the graph.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ..arrays import Array, like, namespace, positive, to_numpy, top_k
from ..method.lookups import FIRST_CANDIDATES, sorted_threshold
from ..method.missing import (
    COMPARED_PARTS,
    MISSING_POOLING,
    PLACE_WINDOW,
    MissingPieces,
    excess_of,
    largest_around,
    searched,
    shown_share,
)
from ..method.scoring import cosines

ALL_ROWS = 1e9
"""More rows than a memory ever has."""


def distances(queries: Array, memory: Array, sharpness: float, allowed: Array | None) -> Array:
    """1 − cos(q, ε) of each patch: (images, N) from (images, N, D) and the memory, (M, D) for all
    images or (images, M, D). `allowed` masks its rows, (images, M); None allows all."""
    xp = namespace(queries)
    z = (sharpness * queries) @ memory.mT
    if allowed is not None:  # more than 1 below any similarity: never active
        z = xp.where(allowed[:, None, :], z, like(-sharpness - 2, z, z.dtype))
    return 1 - cosines(queries, sparsemax(z) @ memory)


def sparsemax(z: Array) -> Array:
    """w = [z − τ]₊ with Σw = 1 (Equation 1), over the last axis."""
    xp = namespace(z)
    gaps = z - xp.max(z, axis=-1, keepdims=True)
    count = min(FIRST_CANDIDATES, z.shape[-1])
    falling = top_k(gaps, count)[0]
    threshold = sorted_threshold(falling)
    if count < z.shape[-1]:
        short = falling[..., -1:] > threshold  # the last candidate is active: others may be, too
        rows = xp.full_like(threshold, ALL_ROWS)
        threshold, _ = while_loop(_climb, xp.any(short), [gaps], [threshold, rows])
    return positive(gaps - threshold)


def _climb(gaps: Array, threshold: Array, size: Array) -> tuple[Array, Array, Array]:
    """A step of Newton from a threshold that is not too high, how many patches are above it in each
    row, and whether any row lost one."""
    xp = namespace(gaps)
    above = positive(gaps - threshold)
    left = xp.sum(xp.astype(gaps > threshold, gaps.dtype), axis=-1, keepdims=True)
    step = (xp.sum(above, axis=-1, keepdims=True) - 1) / left
    # rounding never takes it back
    return threshold + positive(step), left, xp.any(left < size)


def while_loop(
    step: Callable[..., tuple[Array, ...]],
    going: Array,
    fixed: Sequence[Array],
    state: Sequence[Array],
) -> Sequence[Array]:
    """`*state, going = step(*fixed, *state)` for as long as it is going; a graph holds it too."""
    drawn = getattr(namespace(going), "while_loop", None)
    if drawn is not None:
        return drawn(step, going, fixed, state)  # type: ignore[no-any-return]
    while bool(going):
        *state, going = step(*fixed, *state)
    return state


class MissingGraph:
    """What images lack of the good parts that they resemble most (`method/missing.py`)."""

    def __init__(self, pieces: MissingPieces, grid: int) -> None:
        self._grid, self._count = grid, grid * grid
        self._pooled = min(MISSING_POOLING.patches_of(self._count), self._count)
        self.images = np.stack([to_numpy(image) for image in pieces.images])
        self.usual = np.stack(
            [to_numpy(pieces.variation(number)) for number in range(len(pieces.images))]
        )
        self.cls = to_numpy(pieces.cls)

    def __call__(self, patches: Array, cls: Array) -> tuple[Array, Array]:
        """The score of each image and what it adds to the map: (images,) and (images, N)."""
        xp = namespace(patches)
        images, usual = self._resembled(cls)
        residuals, expected = searched(images @ patches[:, None, :, :].mT, self._grid)
        excess = excess_of(residuals, usual)
        scores = positive(xp.mean(top_k(excess, self._pooled)[0], axis=-1))
        shown = shown_share(excess)
        there = expected[:, :, :, None] == like(np.arange(self._count), expected)
        missed = xp.max(shown[:, :, :, None] * xp.astype(there, shown.dtype), axis=2)
        around = largest_around(missed, self._grid, PLACE_WINDOW)
        return xp.min(scores, axis=1), xp.min(around, axis=1)

    def _resembled(self, cls: Array) -> tuple[Array, Array]:
        """The patches of the good parts that each image is asked about, in their order, and how
        these vary: (images or 1, few, N, D) and (images or 1, few, N)."""
        xp, images, usual = namespace(cls), like(self.images, cls), like(self.usual, cls)
        if len(self.images) <= COMPARED_PARTS:
            return images[None, ...], usual[None, ...]
        _, nearest = top_k(cls @ like(self.cls.T, cls), COMPARED_PARTS)
        chosen = xp.reshape(xp.sort(nearest, axis=-1), (-1,))
        rows = (cls.shape[0], COMPARED_PARTS, self._count)
        return (
            xp.reshape(xp.take(images, chosen, axis=0), (*rows, self.images.shape[-1])),
            xp.reshape(xp.take(usual, chosen, axis=0), rows),
        )
