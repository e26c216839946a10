"""Matching the other way (ours, not the paper's): which pieces of good parts does an image lack?

A missing piece leaves every patch of an image explainable, but some normal patches find nothing
like themselves where they should be. A normal patch is expected where the patches around it went:
moved by the median of their moves. Its residual r = 1 − max_q⟨p, q⟩ is taken over the patches q of
the image near that place, since one of four equal holes finds the other three anywhere else. Good
parts differ too, so r is measured against b, the largest residual of p and its neighbours in the
*other* good parts. Those may be near-copies, so b is at least a part of how unlike p the patches
next to it are: what a shift by less than a patch may change. The excess (r − b) / (b + 0.05), at
most 1, says by how much more than it ever varied a patch is off: 1 is about twice as much. An image
is compared with the good parts that it resembles most; the one of which it lacks least gives the
score. On the map, each place counts as missing as the part that misses least there says: so what is
shown does not jump where two parts are as good as each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from ..arrays import (
    Array,
    at_most,
    clipped,
    device,
    gathered,
    largest_at,
    like,
    middle,
    namespace,
    padded,
    positive,
    to_numpy,
    top_k,
)
from ..threads import each
from .scoring import Pooling

MISSING_POOLING = Pooling.parse("top-2%")
RESIDUAL_FLOOR = 0.05
"""A residual that means nothing, even where good parts do not vary at all."""
MAX_EXCESS = 1.0
"""Excess beyond says nothing more: where good parts are all alike, it has no bound."""
SHIFT_SHARE = 0.4
"""The part of the mean distance to the four patches next to it that a patch may vary by, whatever
the other good parts say; copies that were shifted and turned by 3° vary by 0.3 to 0.56 of it."""
VARIATION_WINDOW = 5
"""Patches along the side of the neighbourhood whose variation counts: a few good parts tell little
of one patch alone."""
COMPARED_PARTS = 4
"""Good parts that an image is compared with: hundreds would cost more than the encoder."""
VARIATION_PARTS = 16
"""Good parts that the variation of each is taken from."""
MIN_SHOWN = 0.5
"""The excess from which a patch is shown on the map, the fainter the nearer to it."""
PLACE_WINDOW = 3
"""Patches along the side of the neighbourhood in which good parts must agree that one is missing:
where they expect it differs by one."""
MIN_DIFFERENCE = 0.2
"""Good parts that differ less, over how unlike neighbouring patches are, are near-copies. On eight
products every pair of good parts has 0.20 to 0.9; copies in another light have 0.02 or less."""
MOTION_WINDOW = 9
"""Patches along the side of the neighbourhood whose moves say where a patch is expected."""
SEARCH_REACH = 2
"""How many patches away from there it is looked for."""


@dataclass(frozen=True)
class Missing:
    """What one image lacks of the good part that it resembles most."""

    score: float
    """The mean of the largest hundredths of the excess: 0 where nothing is missing, at most 1."""
    image: int
    """The good part, by its place in the memory bank."""
    excess: Array
    """Of each of its patches, (N,)."""
    similarity: Array
    """Of each of its patches to the most similar one near the expected place, (N,)."""
    expected: Array
    """Where each of its patches should be in the image, (N,)."""
    on_map: Array
    """How much is missing at each place of the image, in all good parts, from 0 to 1, (N,)."""

    def source_at(self, patch: int, grid: int) -> int | None:
        """The patch of the good part that is missed most at a place of the image, or next to it."""
        xp, excess = namespace(self.excess), self.excess
        down, across = self.expected // grid - patch // grid, self.expected % grid - patch % grid
        reach = PLACE_WINDOW // 2
        near = (abs(down) <= reach) & (abs(across) <= reach) & (excess > MIN_SHOWN)
        if not bool(xp.any(near)):
            return None
        return int(xp.argmax(xp.where(near, excess, xp.zeros_like(excess))))


class MissingPieces:
    """The patches of at least two good parts in one layer, ready to be looked for."""

    def __init__(
        self, images: Sequence[Array], cls: Array, grid: int, masks: Sequence[Array | None]
    ) -> None:
        """`images` are (N, D) each, `cls` their tokens (K, D); `masks` say what is searched for."""
        self.images, self.cls = images, cls
        self._grid, self._masks = grid, masks
        self._variations: dict[int, Array] = {}

    def variation(self, number: int) -> Array:
        """b of each patch of a good part, (N,); found when it is first asked about, since of
        hundreds of good parts few are."""
        if number not in self._variations:
            own, grid = self.images[number], self._grid
            others = [image for place, image in enumerate(self.images) if place != number]
            found = each(lambda other: self._residuals(own, other), others[:VARIATION_PARTS])
            found.append(SHIFT_SHARE * neighbour_distance(own, grid))
            xp = namespace(own)
            every = xp.max(xp.stack(found), axis=0)
            self._variations[number] = largest_around(every, grid, VARIATION_WINDOW)
        return self._variations[number]

    def difference(self) -> float:
        """How far the patches of the first few good parts are off in one another, over how unlike
        neighbouring patches are: near 0 for near-copies."""
        few = self.images[:COMPARED_PARTS]
        pairs = list(permutations(few, 2))
        off = each(lambda pair: _mean(self._residuals(*pair)), pairs)
        unlike = [_mean(neighbour_distance(one, self._grid)) for one in few]
        return sum(off) / len(off) / max(sum(unlike) / len(unlike), 1e-6)

    def _residuals(self, part: Array, image: Array) -> Array:
        return searched(part @ image.T, self._grid)[0]

    def find(self, patches: Array, cls: Array) -> Missing:
        """What an image lacks, given its patches (N, D) and its CLS token (D,)."""
        xp = namespace(patches)
        _, nearest = top_k(self.cls @ cls, min(COMPARED_PARTS, len(self.images)))
        numbers = sorted(to_numpy(nearest).tolist())
        found = each(lambda number: self._compared(number, patches), numbers)
        place = min(range(len(found)), key=lambda place: found[place][0])
        score, excess, similarity, expected = found[place]
        missed = [self._missed(own, there) for _, own, _, there in found]
        on_map = xp.min(xp.stack(missed), axis=0)
        return Missing(score, numbers[place], excess, similarity, expected, on_map)

    def _missed(self, excess: Array, expected: Array) -> Array:
        """How much of one good part is missing at each place of the image, (N,)."""
        there = largest_at(expected, shown_share(excess), self._grid**2)
        return largest_around(there, self._grid, PLACE_WINDOW)

    def _compared(self, number: int, patches: Array) -> tuple[float, Array, Array, Array]:
        """What an image lacks of one good part: the score, the excess of its patches, how similar
        the most similar patches are, and where they are expected."""
        residuals, expected = searched(self.images[number] @ patches.T, self._grid)
        excess, mask = excess_of(residuals, self.variation(number)), self._masks[number]
        asked = excess if mask is None else excess[mask]
        score = max(float(MISSING_POOLING(asked)), 0.0) if asked.shape[0] else 0.0
        shown = excess if mask is None else excess * namespace(mask).astype(mask, excess.dtype)
        return score, shown, 1 - residuals, expected


def neighbour_distance(patches: Array, grid: int) -> Array:
    """The mean distance of each patch to the patches beside, above and below it, (N,)."""
    xp = namespace(patches)
    cells = xp.reshape(patches, (grid, grid, -1))
    down = 1 - xp.vecdot(cells[1:, :, :], cells[:-1, :, :])
    across = 1 - xp.vecdot(cells[:, 1:, :], cells[:, :-1, :])

    def to_all(down: Array, across: Array) -> Array:
        above_below = padded(down, 1, 0, 0) + padded(down, 0, 1, 0)
        return above_below + padded(across, 1, 0, 1) + padded(across, 0, 1, 1)

    number = to_all(xp.ones_like(down), xp.ones_like(across))
    number = xp.where(number == 0, xp.ones_like(number), number)
    return xp.reshape(positive(to_all(down, across) / number), (-1,))


def largest_around(values: Array, grid: int, window: int) -> Array:
    """The largest of values that are not negative over the neighbourhood of each patch, (…, N).

    Exported graphs trace this function.
    """
    xp, reach = namespace(values), window // 2
    cells = xp.reshape(values, (*values.shape[:-1], grid, grid))
    wide = padded(cells, reach, reach, -2)
    cells = wide[..., :grid, :]
    for step in range(1, window):
        cells = xp.maximum(cells, wide[..., step : step + grid, :])
    wide = padded(cells, reach, reach, -1)
    cells = wide[..., :grid]
    for step in range(1, window):
        cells = xp.maximum(cells, wide[..., step : step + grid])
    return xp.reshape(cells, values.shape)


def _mean(values: Array) -> float:
    return float(namespace(values).mean(values))


def searched(similarities: Array, grid: int) -> tuple[Array, Array]:
    """The residual of each patch of a good part in an image, and where it is expected, (…, N).

    `similarities` are those of its patches to the patches of the image, (…, N, N). What should lie
    outside the picture is not missed: its residual is 0. Exported graphs trace this function.
    """
    xp = namespace(similarities)
    found = xp.argmax(similarities, axis=-1)
    own = xp.arange(grid * grid, device=device(found))
    own_row, own_column = own // grid, own % grid
    row = own_row + median_around(found // grid - own_row, grid)
    column = own_column + median_around(found % grid - own_column, grid)
    inside = (row >= 0) & (row < grid) & (column >= 0) & (column < grid)
    row, column = clipped(row, 0, grid - 1), clipped(column, 0, grid - 1)
    steps = xp.arange(-SEARCH_REACH, SEARCH_REACH + 1, device=device(found))
    rows = clipped(row[..., None] + steps, 0, grid - 1)
    columns = clipped(column[..., None] + steps, 0, grid - 1)
    near = rows[..., None] * grid + columns[..., None, :]
    best = xp.max(gathered(similarities, xp.reshape(near, (*found.shape, -1))), axis=-1)
    return positive(1 - best) * xp.astype(inside, best.dtype), row * grid + column


def excess_of(residuals: Array, variation: Array) -> Array:
    """By how much more than it ever varied each patch is off, at most 1."""
    return at_most((residuals - variation) / (variation + RESIDUAL_FLOOR), MAX_EXCESS)


def shown_share(excess: Array) -> Array:
    """What an excess shows on the map: nothing at first, then ever more, at most 1."""
    return clipped((excess - MIN_SHOWN) / (MAX_EXCESS - MIN_SHOWN), 0, 1)


def median_around(moves: Array, grid: int) -> Array:
    """The median of whole numbers over the neighbourhood of each patch, (…, N)."""
    xp, around = namespace(moves), _neighbours(grid)
    picked = xp.take(moves, like(around.ravel(), moves), axis=-1)
    return middle(xp.reshape(picked, (*moves.shape, around.shape[1])))


@cache
def _neighbours(grid: int) -> NDArray[np.int64]:
    """The patches around each, mirrored at the border, (N, side²)."""
    reach = min(MOTION_WINDOW // 2, grid - 1)
    line = np.abs(np.arange(grid)[:, None] + np.arange(-reach, reach + 1))
    line = np.where(line > grid - 1, 2 * (grid - 1) - line, line)
    both = line[:, None, :, None] * grid + line[None, :, None, :]
    return np.asarray(both.reshape(grid * grid, -1), dtype=np.int64)


def missing_weight(most: float, images: int, difference: float = MIN_DIFFERENCE) -> float:
    """The weight of the branch: one good part cannot say how parts vary, nor can near-copies."""
    return most * (1 - 1 / images) * min(difference / MIN_DIFFERENCE, 1.0)
