"""Some tiles that stand for all: what they say of an image that is too large to compare whole.

An image of a hundred million pixels has hundreds of tiles, and each is compared with its like in
all other images. A few, spread over the image, decide some cells of its map; those are a sample of
the whole.
"""

import math
from collections.abc import Sequence

import numpy as np

from .tiling import Maps, Tiling

TILES = 16
"""Tiles of an image in the sample."""
DECIDED = 0.5
"""Where tiles overlap, those of the sample decide a cell when their weights add up to this much."""
TAIL = 0.98
"""Values above this quantile tell how slowly the map's tail falls."""


def sample(tiling: Tiling) -> list[int]:
    """At most TILES tiles, evenly spread along both sides of the image."""
    rows, columns = tiling.shape
    down = min(rows, math.isqrt(TILES))
    across = min(columns, TILES // down)
    down = min(rows, TILES // across)
    return [
        row * columns + column for row in spread(rows, down) for column in spread(columns, across)
    ]


def spread(count: int, most: int) -> Sequence[int]:
    """At most so many of the numbers below `count`, evenly spread."""
    kept = min(count, most)
    return [(2 * i + 1) * count // (2 * kept) for i in range(kept)]


def decided(tiling: Tiling, numbers: Sequence[int], maps: Sequence[Maps]) -> Maps:
    """The values of the cells that some tiles decide, (maps, cells); of all tiles, the map."""
    total = np.zeros((tiling.rows, tiling.columns))
    whole = np.zeros((len(maps[0]), *total.shape))
    for number, part in zip(numbers, maps, strict=True):
        tile, weight = tiling[number], tiling.weight(number)
        rows = slice(tile.row, tile.row + tiling.grid)
        columns = slice(tile.column, tile.column + tiling.grid)
        total[rows, columns] += weight
        whole[:, rows, columns] += part * weight
    enough = total >= DECIDED
    return (whole[:, enough] / total[enough]).astype(np.float32)


def beyond(values: Maps, times: float) -> float:
    """By how much the highest few of so many times as many values lie above the highest of these.

    The tail of a map falls about exponentially: then the peak grows with the logarithm of the
    number of values, by their mean excess over a high level.
    """
    level = np.quantile(values, TAIL)
    tail = values[values > level]
    return float((tail - level).mean() * math.log(times)) if len(tail) and times > 1 else 0.0
