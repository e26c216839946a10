"""Matching the other way (ours, not the paper's): which pieces of good parts does an image lack?

A missing piece leaves every patch of an image explainable, but some normal patches find nothing
like themselves where they should be. A normal patch is expected where the patches around it went:
moved by the median of their moves. Its residual r = 1 − max_q⟨p, q⟩ is taken over the patches q of
the image near that place, since one of four equal holes finds the other three anywhere else. Good
parts differ too, so r is measured against b, the largest residual of p and its neighbours in the
*other* good parts. Those may be near-copies, so b is at least a part of how unlike p the patches
next to it are: what a shift by less than a patch may change. The excess (r − b) / (b + 0.05), at
most 1, says by how much more than it ever varied a patch is off: 1 is about twice as much. An image
is compared with the good parts that it resembles most; the one of which it lacks least counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import max_pool2d, pad

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
"""The excess from which a patch is shown on the map."""
MAX_SHOWN = 64
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
    excess: Tensor
    """Of each of its patches, (N,)."""
    similarity: Tensor
    """Of each of its patches to the most similar one near the expected place, (N,)."""
    places: Tensor
    """Where the patches that are shown should be in the image, (n,)."""
    sources: Tensor
    """Which patches of the good part they are, (n,)."""

    def on_map(self, patches: int) -> Tensor:
        """The excess at the places of the image, (N,)."""
        shown = self.excess.new_zeros(patches)
        return shown.scatter_reduce(0, self.places, self.excess[self.sources], "amax")

    def source_at(self, patch: int) -> int | None:
        """The patch of the good part that is missed most at a place of the image."""
        there = self.sources[self.places == patch]
        return int(there[self.excess[there].argmax()]) if len(there) else None


class MissingPieces:
    """The patches of at least two good parts in one layer, ready to be looked for."""

    def __init__(
        self, images: Sequence[Tensor], cls: Tensor, grid: int, masks: Sequence[Tensor | None]
    ) -> None:
        """`images` are (N, D) each, `cls` their tokens (K, D); `masks` say what is searched for."""
        self.images, self.cls = images, cls
        self._grid, self._masks = grid, masks
        self._variations: dict[int, Tensor] = {}

    def variation(self, number: int) -> Tensor:
        """b of each patch of a good part, (N,); found when it is first asked about, since of
        hundreds of good parts few are."""
        if number not in self._variations:
            own, grid = self.images[number], self._grid
            others = [image for place, image in enumerate(self.images) if place != number]
            found = [searched(own @ other.T, grid)[0] for other in others[:VARIATION_PARTS]]
            found.append(SHIFT_SHARE * neighbour_distance(own, grid))
            maps = torch.stack(found).amax(dim=0).reshape(1, 1, grid, grid)
            reach = VARIATION_WINDOW // 2
            wide = max_pool2d(maps, VARIATION_WINDOW, stride=1, padding=reach)
            self._variations[number] = wide.flatten()
        return self._variations[number]

    def difference(self) -> float:
        """How far the patches of the first few good parts are off in one another, over how unlike
        neighbouring patches are: near 0 for near-copies."""
        few = range(min(len(self.images), COMPARED_PARTS))
        off = [
            float(searched(self.images[one] @ self.images[other].T, self._grid)[0].mean())
            for one in few
            for other in few
            if one != other
        ]
        unlike = [float(neighbour_distance(self.images[one], self._grid).mean()) for one in few]
        return sum(off) / len(off) / max(sum(unlike) / len(unlike), 1e-6)

    def find(self, patches: Tensor, cls: Tensor) -> Missing:
        """What an image lacks, given its patches (N, D) and its CLS token (D,)."""
        nearest = (self.cls @ cls).topk(min(COMPARED_PARTS, len(self.images))).indices.tolist()
        found = []
        for number in sorted(nearest):
            residuals, expected = searched(self.images[number] @ patches.T, self._grid)
            excess, mask = excess_of(residuals, self.variation(number)), self._masks[number]
            asked = excess if mask is None else excess[mask]
            score = max(float(MISSING_POOLING(asked)), 0.0) if len(asked) else 0.0
            shown = excess if mask is None else excess * mask
            found.append((score, number, shown, 1 - residuals, expected))
        score, number, excess, similarity, expected = min(found, key=lambda one: one[:2])
        # in a foreign picture many patches have the largest excess there is: the first ones count
        sources = excess.sort(descending=True, stable=True).indices[:MAX_SHOWN]
        sources = sources[excess[sources] > MIN_SHOWN]
        return Missing(score, number, excess, similarity, expected[sources], sources)


def neighbour_distance(patches: Tensor, grid: int) -> Tensor:
    """The mean distance of each patch to the patches beside, above and below it, (N,)."""
    cells = patches.reshape(grid, grid, -1)
    down = 1 - (cells[1:] * cells[:-1]).sum(dim=-1)
    across = 1 - (cells[:, 1:] * cells[:, :-1]).sum(dim=-1)

    def to_all(down: Tensor, across: Tensor) -> Tensor:
        above_below = pad(down, (0, 0, 1, 0)) + pad(down, (0, 0, 0, 1))
        return above_below + pad(across, (1, 0)) + pad(across, (0, 1))

    number = to_all(torch.ones_like(down), torch.ones_like(across))
    return (to_all(down, across) / number.clamp(min=1)).clamp(min=0).flatten()


def searched(similarities: Tensor, grid: int) -> tuple[Tensor, Tensor]:
    """The residual of each patch of a good part in an image, and where it is expected, (…, N).

    `similarities` are those of its patches to the patches of the image, (…, N, N). What should lie
    outside the picture is not missed: its residual is 0. Exported graphs trace this function.
    """
    found = similarities.argmax(dim=-1)
    own = torch.arange(grid * grid, device=found.device)
    down, across = torch.div(found, grid, rounding_mode="trunc"), found % grid
    own_row, own_column = torch.div(own, grid, rounding_mode="trunc"), own % grid
    row = own_row + median_around(down - own_row, grid)
    column = own_column + median_around(across - own_column, grid)
    inside = (row >= 0) & (row < grid) & (column >= 0) & (column < grid)
    row, column = row.clamp(0, grid - 1), column.clamp(0, grid - 1)
    steps = torch.arange(-SEARCH_REACH, SEARCH_REACH + 1, device=found.device)
    rows = (row[..., None, None] + steps[:, None]).clamp(0, grid - 1)
    columns = (column[..., None, None] + steps).clamp(0, grid - 1)
    near = (rows * grid + columns).flatten(-2)
    best = similarities.gather(-1, near).amax(dim=-1)
    return (1 - best).clamp(min=0) * inside.to(best.dtype), row * grid + column


def excess_of(residuals: Tensor, variation: Tensor) -> Tensor:
    """By how much more than it ever varied each patch is off, at most 1."""
    return ((residuals - variation) / (variation + RESIDUAL_FLOOR)).clamp(max=MAX_EXCESS)


def median_around(moves: Tensor, grid: int) -> Tensor:
    """The median of whole numbers over the neighbourhood of each patch, (…, N)."""
    neighbours = _neighbours(grid).to(moves.device)
    around, middle = moves[..., neighbours], neighbours.shape[1] // 2
    if around.device.type != "cpu" or torch.onnx.is_in_onnx_export():
        return around.float().topk(middle + 1, dim=-1).values[..., -1].long()
    # whole numbers below 2^15, and an odd number of them: numpy is ten times as fast with these
    found = np.partition(around.numpy().astype(np.int16), middle, axis=-1)[..., middle]
    return torch.from_numpy(found.astype(np.int64))


@cache
def _neighbours(grid: int) -> Tensor:
    """The patches around each, mirrored at the border, (N, side²)."""
    reach = min(MOTION_WINDOW // 2, grid - 1)
    line = (torch.arange(grid)[:, None] + torch.arange(-reach, reach + 1)).abs()
    line = torch.where(line > grid - 1, 2 * (grid - 1) - line, line)
    return (line[:, None, :, None] * grid + line[None, :, None, :]).reshape(grid * grid, -1)


def missing_weight(most: float, images: int, difference: float = MIN_DIFFERENCE) -> float:
    """The weight of the branch: one good part cannot say how parts vary, nor can near-copies."""
    return most * (1 - 1 / images) * min(difference / MIN_DIFFERENCE, 1.0)
