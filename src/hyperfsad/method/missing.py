"""Matching the other way (ours, not the paper's): which pieces of good parts does an image lack?

A missing piece leaves every patch of an image explainable, but some normal patches find nothing
like themselves where they should be. A normal patch is expected where the patches around it went:
moved by the median of their moves. Its residual r = 1 − max_q⟨p, q⟩ is taken over the patches q of
the image near that place, since one of four equal holes finds the other three anywhere else. Good
parts differ too, so r is measured against b, the largest residual of p and its neighbours in the
*other* good parts. Those may be near-copies, so b is at least a part of how unlike p the patches
next to it are: what a shift by less than a patch may change. The excess (r − b) / (b + 0.05), at
most 1, says by how much more than it ever varied a patch is off: 1 is about twice as much. An image
is asked about the good parts that it resembles most, and the one of which it lacks least speaks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import max_pool2d, pad

from .scoring import Pooling

POOLING = Pooling.parse("top-2%")
FLOOR = 0.05
"""A residual that means nothing, even where good parts do not vary at all."""
MOST = 1.0
"""Excess beyond says nothing more: where good parts are all alike, it has no bound."""
SHIFTED = 0.4
"""The part of the mean distance to the four patches next to it that a patch may vary by, whatever
the other good parts say; copies that were shifted and turned by 3° vary by 0.3 to 0.56 of it."""
SPREAD = 5
"""Patches along the side of the neighbourhood whose variation counts: a few good parts tell little
of one patch alone."""
NEAREST = 4
"""Good parts that an image is compared with: hundreds would cost more than the encoder."""
OTHERS = 16
"""Good parts that the variation of each is taken from."""
SHOWN = 0.5
"""The excess from which a patch is shown on the map."""
MOST_SHOWN = 64
DIFFERENT = 0.2
"""Good parts that differ less, over how unlike neighbouring patches are, are near-copies. On eight
products every pair of good parts has 0.20 to 0.9; copies in another light have 0.02 or less."""
AROUND = 9
"""Patches along the side of the neighbourhood whose moves say where a patch is expected."""
NEAR = 2
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
        self, images: Sequence[Tensor], cls: Tensor, grid: int, kept: Sequence[Tensor | None]
    ) -> None:
        """`images` are (N, D) each, `cls` their tokens (K, D); `kept` masks what is looked for."""
        self.images, self.cls = images, cls
        self._grid, self._kept = grid, kept
        self._variations: dict[int, Tensor] = {}

    def variation(self, number: int) -> Tensor:
        """b of each patch of a good part, (N,); found when it is first asked about, since of
        hundreds of good parts few are."""
        if number not in self._variations:
            self._variations[number] = self._found_variation(number)
        return self._variations[number]

    def _found_variation(self, number: int) -> Tensor:
        others = [image for place, image in enumerate(self.images) if place != number]
        found = [self._looked_for(number, other)[0] for other in others[:OTHERS]]
        found.append(SHIFTED * _unlike_neighbours(self.images[number], self._grid))
        maps = torch.stack(found).amax(dim=0).reshape(1, 1, self._grid, self._grid)
        return max_pool2d(maps, SPREAD, stride=1, padding=SPREAD // 2).flatten()

    def difference(self) -> float:
        """How far the patches of the first few good parts are off in one another, over how unlike
        neighbouring patches are: near 0 for near-copies."""
        few = range(min(len(self.images), NEAREST))
        off = [
            float(self._looked_for(one, self.images[other])[0].mean())
            for one in few
            for other in few
            if one != other
        ]
        unlike = [float(_unlike_neighbours(self.images[one], self._grid).mean()) for one in few]
        return sum(off) / len(off) / max(sum(unlike) / len(unlike), 1e-6)

    def _looked_for(self, number: int, patches: Tensor) -> tuple[Tensor, Tensor]:
        """The residual of each patch of a good part in an image, and where it is expected, (N,).

        What should lie outside the picture is not missed: its residual is 0.
        """
        grid = self._grid
        similarities = self.images[number] @ patches.T
        found = similarities.argmax(dim=1)
        own = torch.arange(grid * grid, device=found.device)
        row = own // grid + _median_around(found // grid - own // grid, grid)
        column = own % grid + _median_around(found % grid - own % grid, grid)
        inside = (row >= 0) & (row < grid) & (column >= 0) & (column < grid)
        row, column = row.clamp(0, grid - 1), column.clamp(0, grid - 1)
        steps = torch.arange(-NEAR, NEAR + 1, device=found.device)
        rows = (row[:, None, None] + steps[:, None]).clamp(0, grid - 1)
        columns = (column[:, None, None] + steps).clamp(0, grid - 1)
        near = (rows * grid + columns).flatten(1)
        best = similarities.gather(1, near).amax(dim=1)
        return (1 - best).clamp(min=0) * inside, row * grid + column

    def find(self, patches: Tensor, cls: Tensor) -> Missing:
        """What an image lacks, given its patches (N, D) and its CLS token (D,)."""
        nearest = (self.cls @ cls).topk(min(NEAREST, len(self.images))).indices.tolist()
        found = []
        for number in sorted(nearest):
            residuals, expected = self._looked_for(number, patches)
            usual, kept = self.variation(number), self._kept[number]
            excess = ((residuals - usual) / (usual + FLOOR)).clamp(max=MOST)
            asked = excess if kept is None else excess[kept]
            score = max(float(POOLING(asked)), 0.0) if len(asked) else 0.0
            shown = excess if kept is None else excess * kept
            found.append((score, number, shown, 1 - residuals, expected))
        score, number, excess, similarity, expected = min(found, key=lambda one: one[:2])
        # in a foreign picture many patches have the largest excess there is: the first ones count
        sources = excess.sort(descending=True, stable=True).indices[:MOST_SHOWN]
        sources = sources[excess[sources] > SHOWN]
        return Missing(score, number, excess, similarity, expected[sources], sources)


def _unlike_neighbours(patches: Tensor, grid: int) -> Tensor:
    """The mean distance of each patch to the patches beside, above and below it, (N,)."""
    cells = patches.reshape(grid, grid, -1)
    down = 1 - (cells[1:] * cells[:-1]).sum(dim=-1)
    across = 1 - (cells[:, 1:] * cells[:, :-1]).sum(dim=-1)

    def to_all(down: Tensor, across: Tensor) -> Tensor:
        above_below = pad(down, (0, 0, 1, 0)) + pad(down, (0, 0, 0, 1))
        return above_below + pad(across, (1, 0)) + pad(across, (0, 1))

    number = to_all(torch.ones_like(down), torch.ones_like(across))
    return (to_all(down, across) / number.clamp(min=1)).clamp(min=0).flatten()


def _median_around(moves: Tensor, grid: int) -> Tensor:
    """The median of whole numbers over the neighbourhood of each patch, (N,)."""
    maps = moves.float().reshape(1, 1, grid, grid)
    wide = pad(maps, [min(AROUND // 2, grid - 1)] * 4, mode="reflect")
    side = wide.shape[-1] - grid + 1
    around = wide.unfold(2, side, 1).unfold(3, side, 1).reshape(len(moves), -1)
    if around.device.type != "cpu":
        return around.median(dim=1).values.long()
    # whole numbers below 2^15, and an odd number of them: numpy is ten times as fast with these
    middle = around.shape[1] // 2
    found = np.partition(around.numpy().astype(np.int16), middle, axis=1)[:, middle]
    return torch.from_numpy(found.astype(np.int64))


def missing_weight(most: float, images: int, difference: float = DIFFERENT) -> float:
    """The weight of the branch: one good part cannot say how parts vary, nor can near-copies."""
    return most * (1 - 1 / images) * min(difference / DIFFERENT, 1.0)
