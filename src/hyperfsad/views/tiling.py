"""How an image of any size is cut into tiles, and how their maps are laid together.

One grid of patches lies over the whole image. Tiles begin on whole patches of it and overlap by at
least a quarter of their side, so each tile's map covers certain cells of the image's map, and no
map is ever resampled. In the overlap a tile's word weighs less the nearer its own border is, where
its encoder saw nothing of what lies beyond: so there is no seam.

An image of a hundred million pixels has hundreds of tiles. A few, spread over the image, decide
some cells of its map; those are a sample of the whole.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Box: TypeAlias = tuple[float, float, float, float]
"""Left, upper, right and lower edge, in pixels."""

Maps: TypeAlias = NDArray[np.float32]

OVERLAP = 4
"""Neighbouring tiles share at least this part of their side: one over it."""


SAMPLED_TILES = 16
"""Tiles of an image in the sample."""
MIN_SAMPLE_WEIGHT = 0.5
"""Where tiles overlap, those of the sample decide a cell when their weights add up to this much."""
TAIL_QUANTILE = 0.98
"""Values above this quantile tell how slowly the map's tail falls."""


class Tile(NamedTuple):
    """Where a tile begins on the image's grid of patches, in patches."""

    row: int
    column: int


@dataclass(frozen=True)
class Tiling:
    """The tiles of one image."""

    size: tuple[int, int]
    """Width and height of the image."""
    grid: int
    """Patches along a tile's side."""
    tops: tuple[int, ...]
    """The first row of patches of each row of tiles."""
    lefts: tuple[int, ...]

    @classmethod
    def of(cls, size: tuple[int, int], side: int, grid: int) -> "Tiling":
        """For an image's width and height, and a tile's side in the image's own pixels.

        Where the image is no larger than a tile, the tile is the image, squashed to a square as
        without tiles.
        """
        columns, rows = (_patches(length, side, grid) for length in size)
        return cls(size, grid, _starts(rows, grid), _starts(columns, grid))

    @classmethod
    def count(cls, size: tuple[int, int], side: int, grid: int) -> int:
        """How many tiles `of` would make, which costs nothing."""
        across, down = (1 + _gaps(_patches(length, side, grid), grid) for length in size)
        return across * down

    @property
    def rows(self) -> int:
        """Rows of patches over the whole image."""
        return self.tops[-1] + self.grid

    @property
    def columns(self) -> int:
        """Columns of patches over the whole image."""
        return self.lefts[-1] + self.grid

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return len(self.tops), len(self.lefts)

    def __len__(self) -> int:
        return len(self.tops) * len(self.lefts)

    def __getitem__(self, index: int) -> Tile:
        """The tiles row by row."""
        down, across = divmod(index, len(self.lefts))
        return Tile(self.tops[down], self.lefts[across])

    def box(self, index: int) -> Box:
        """What a tile covers, in pixels of the image."""
        tile = self[index]
        x, y = self.size[0] / self.columns, self.size[1] / self.rows
        left, upper = tile.column * x, tile.row * y
        right = min((tile.column + self.grid) * x, self.size[0])
        lower = min((tile.row + self.grid) * y, self.size[1])
        return left, upper, right, lower

    def around(self, x: float, y: float, span: int = 3) -> list[int]:
        """The tiles whose centres are nearest to a place, `span` along each axis, in their order.

        The place is given as parts of the image's width and height.
        """
        down = _nearest(self.tops, y * self.rows - self.grid / 2, span)
        across = _nearest(self.lefts, x * self.columns - self.grid / 2, span)
        return [row * len(self.lefts) + column for row in down for column in across]

    def centre(self, index: int) -> tuple[float, float]:
        """A tile's centre, as parts of the image's width and height."""
        tile = self[index]
        half = self.grid / 2
        return (tile.column + half) / self.columns, (tile.row + half) / self.rows

    def nearest(self, row: int, column: int) -> int:
        """The tile whose centre is nearest to a patch's, the first of two that are as near."""

        def first(starts: tuple[int, ...], place: int) -> int:
            # in halves of patches, where centres are whole numbers
            apart = [abs(2 * start + self.grid - (2 * place + 1)) for start in starts]
            return apart.index(min(apart))

        return first(self.tops, row) * len(self.lefts) + first(self.lefts, column)

    def over(self, row: int, column: int) -> list[int]:
        """The tiles that cover a patch."""
        down = [n for n, top in enumerate(self.tops) if top <= row < top + self.grid]
        across = [n for n, left in enumerate(self.lefts) if left <= column < left + self.grid]
        return [n * len(self.lefts) + m for n in down for m in across]

    @cached_property
    def _weights(self) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
        return _ramps(self.tops, self.grid), _ramps(self.lefts, self.grid)

    def weight(self, index: int) -> NDArray[np.float64]:
        """What each patch of a tile counts in the image's map, (grid, grid); all tiles add to 1."""
        down, across = divmod(index, len(self.lefts))
        vertical, horizontal = self._weights
        return vertical[down][:, None] * horizontal[across][None]

    def laid(
        self, maps: Iterable[tuple[int, Maps]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What some tiles say of the image, (…, rows, columns), and their weights there, given the
        number of each and its map, (…, grid, grid)."""
        whole: NDArray[np.float64] | None = None
        total = np.zeros((self.rows, self.columns))
        for index, part in maps:
            if whole is None:
                whole = np.zeros((*part.shape[:-2], *total.shape))
            (row, column), weight = self[index], self.weight(index)
            rows, columns = slice(row, row + self.grid), slice(column, column + self.grid)
            total[rows, columns] += weight
            whole[..., rows, columns] += part * weight
        assert whole is not None, "an image has at least one tile"
        return whole, total

    def joined(self, maps: Iterable[Maps]) -> Maps:
        """One map of the image, (…, rows, columns), from those of all its tiles."""
        return self.laid(enumerate(maps))[0].astype(np.float32)


def _patches(length: int, side: int, grid: int) -> int:
    """Patches along one side of an image: as large as those of a tile, but never less than one
    tile."""
    return max(grid, round(length * grid / side))


def _gaps(patches: int, grid: int) -> int:
    """Tiles after the first along one side."""
    step = max(1, grid - -(-grid // OVERLAP))
    return -(-(patches - grid) // step)


def _starts(patches: int, grid: int) -> tuple[int, ...]:
    """Where tiles begin: as few as overlap enough, evenly spread."""
    rest, gaps = patches - grid, _gaps(patches, grid)
    return (0, *((2 * i * rest + gaps) // (2 * gaps) for i in range(1, gaps + 1)))


def _nearest(starts: tuple[int, ...], place: float, count: int) -> list[int]:
    return sorted(sorted(range(len(starts)), key=lambda index: abs(starts[index] - place))[:count])


def _ramps(starts: tuple[int, ...], grid: int) -> list[NDArray[np.float64]]:
    """The weights of tiles along one axis, (grid,) each.

    Half a wave over the tile's width, nearly 0 at its borders; at the image's edge, where no
    neighbour could speak instead, it stays at its height. Divided by the sum over all tiles.
    """
    wave = np.sin(np.pi * (np.arange(grid) + 0.5) / grid) ** 2
    total = np.zeros(starts[-1] + grid)
    ramps = []
    for index, start in enumerate(starts):
        ramp = wave.copy()
        if index == 0:
            ramp[: grid // 2] = 1.0
        if index == len(starts) - 1:
            ramp[grid // 2 :] = 1.0
        total[start : start + grid] += ramp
        ramps.append(ramp)
    return [ramp / total[start : start + grid] for start, ramp in zip(starts, ramps, strict=True)]


def sample(tiling: Tiling) -> list[int]:
    """At most SAMPLED_TILES tiles, evenly spread along both sides of the image."""
    rows, columns = tiling.shape
    down = min(rows, math.isqrt(SAMPLED_TILES))
    across = min(columns, SAMPLED_TILES // down)
    down = min(rows, SAMPLED_TILES // across)
    return [
        row * columns + column for row in evenly(rows, down) for column in evenly(columns, across)
    ]


def evenly(count: int, limit: int) -> Sequence[int]:
    """At most `limit` of the numbers below `count`, evenly spread."""
    chosen = min(count, limit)
    return [(2 * i + 1) * count // (2 * chosen) for i in range(chosen)]


def decided(tiling: Tiling, numbers: Sequence[int], maps: Sequence[Maps]) -> Maps:
    """The values of the cells that some tiles decide, (maps, cells); of all tiles, the map."""
    whole, total = tiling.laid(zip(numbers, maps, strict=True))
    enough = total >= MIN_SAMPLE_WEIGHT
    return (whole[:, enough] / total[enough]).astype(np.float32)


def beyond(values: Maps, times: float) -> float:
    """By how much the peak of `times` as many values lies above the peak of these.

    The tail of a map falls about exponentially: then the peak grows with the logarithm of the
    number of values, by their mean excess over a high level.
    """
    level = np.quantile(values, TAIL_QUANTILE)
    tail = values[values > level]
    return float((tail - level).mean() * math.log(times)) if len(tail) and times > 1 else 0.0
