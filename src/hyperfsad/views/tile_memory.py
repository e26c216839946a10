"""Tile-wise memory: which normal tiles a tile is compared with, and how, in bounded memory.

A few tiles are all held, and every tile is compared with all of them. Of many, a tile is compared
with those at and around its own place in each normal image, which are read when they are needed.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ..arrays import Array, like, namespace
from ..method.matching import (
    MIN_PRUNED_ROWS,
    Bound,
    Comparison,
    MemoryLayer,
    can_prune,
    distances,
    distances_apart,
)
from .tile_files import NormalTiles
from .view import Cells, cells, grid_distance

ALL_HELD_TILES = 64
"""Normal tiles that are all held, up to 630 MB with all that is derived from them."""

NEARBY_TILES = 36
"""Tiles that one is compared with where there are more: the nearest 3×3 of each of up to four
images, the nearest 2×2 of up to nine, and of more images the nearest of each."""

HELD_BYTES = 384 << 20
"""Bytes of tiles that were read and may be needed again: those around a place, of four images."""

AXES_TILES = 10
"""Tiles that the axes of the bound are taken from."""

_Place: TypeAlias = tuple[int, int]
"""A tile: the number of its image, and its own."""


class TileMemory:
    """The tiles of all normal images, ready to be asked."""

    def __init__(self, images: Sequence[NormalTiles], how: Comparison, model: Array) -> None:
        """Tokens become arrays of the kind of `model`, on its device."""
        self.images, self._how, self._model = images, how, model
        self._held: OrderedDict[tuple[int, int, int], _Prepared] = OrderedDict()

    def distances(self, patches: Sequence[Array], x: float, y: float) -> Array:
        """1 − cos(q, ε) of each patch of a tile, (N,).

        The tile's centre is given as parts of its image's width and height.
        """
        return distances(self._layers(x, y), patches)

    def without(self, place: int) -> "TileMemory":
        """The same without one of the images; what is held is held once for both."""
        images = [image for index, image in enumerate(self.images) if index != place]
        others = TileMemory(images, self._how, self._model)
        others._held = self._held
        if not others.everywhere:
            others._bounds = self._bounds
        return others

    @property
    def everywhere(self) -> bool:
        """Whether every tile is compared with all normal ones."""
        return sum(map(len, self.images)) <= ALL_HELD_TILES

    def places(self, x: float, y: float) -> list[_Place]:
        """The normal tiles that a tile at a place is compared with: image and number."""
        if self.everywhere:
            return [(i, n) for i, image in enumerate(self.images) for n in range(len(image))]
        span = next(s for s in (3, 2, 1) if s == 1 or s**2 * len(self.images) <= NEARBY_TILES)
        return [
            (i, n) for i, image in enumerate(self.images) for n in image.tiling.around(x, y, span)
        ]

    def rows(self, places: Sequence[_Place], layer: int) -> Array:
        """The tokens of some tiles in one layer, (tiles·N, D)."""
        return _concat([self._tile(place).rows[layer] for place in places])

    def _layers(self, x: float, y: float) -> Iterable[MemoryLayer]:
        """The memory of each layer; around a place it is put together one by one."""
        if self.everywhere:
            return self._all
        return self._nearby([self._tile(place) for place in self.places(x, y)])

    @cached_property
    def _all(self) -> list[MemoryLayer]:
        tiles = [self._read(place) for place in self.places(0, 0)]
        layers = [_concat(layer) for layer in zip(*tiles, strict=True)]
        del tiles
        return self._how.memory_layers(layers)

    def _nearby(self, tiles: Sequence["_Prepared"]) -> Iterator[MemoryLayer]:
        how = self._how
        for layer in range(self.images[0].shape[0]):
            memory = _concat([tile.rows[layer] for tile in tiles])
            bound, bounding = None, None
            if len(memory) >= MIN_PRUNED_ROWS and can_prune(memory, how.lookup):
                bound = self._bounds[layer]
                bounding = _concat([tile.bounding[layer] for tile in tiles])
            yield MemoryLayer(memory, how.lookup, how.sharpness, bound, bounding)

    def _tile(self, place: _Place) -> "_Prepared":
        """A tile and all that is derived from it; the tiles asked for last are held."""
        image, number = place
        tiles = self.images[image]
        key = id(tiles.file), tiles.start, number
        tile = self._held.get(key)
        if tile is None:
            layers = tuple(self._read(place))
            bounds = self._bounds if can_prune(layers[0], self._how.lookup) else ()
            tile = _Prepared(layers, bounds)
            self._held[key] = tile
            while len(self._held) > max(1, HELD_BYTES // tile.size):
                self._held.popitem(last=False)
        self._held.move_to_end(key)
        return tile

    def _read(self, place: _Place) -> Array:
        image, number = place
        return like(self.images[image].tokens(number), self._model)

    @cached_property
    def _bounds(self) -> list[Bound]:
        """One bound for all tiles of a layer: making axes takes as long as encoding."""
        places = [(i, n) for i, image in enumerate(self.images) for n in range(len(image))]
        step = -(-len(places) // AXES_TILES)
        tiles = [self._read(place) for place in places[step // 2 :: step]]
        return [Bound(_concat(layer)) for layer in zip(*tiles, strict=True)]

    def self_distances(self, image: int, number: int) -> Array:
        """The distances of a normal image's tile from its own image around it, (N,)."""
        tiling, here = self.images[image].tiling, [(image, number)]
        around = [(image, n) for n in tiling.around(*tiling.centre(number))]
        apart = like(grid_distance(self._cells(here), self._cells(around)), self._model)
        return distances_apart(self._tokens(here), self._tokens(around), apart, self._how)

    def _tokens(self, places: Sequence[_Place]) -> list[Array]:
        """The tokens of some tiles at each layer, (tiles·N, D)."""
        return [self.rows(places, layer) for layer in range(self.images[0].shape[0])]

    def _cells(self, places: Sequence[_Place]) -> Cells:
        """Row and column of each patch on its image's grid, (tiles·N, 2)."""
        of_tile = cells(self._how.grid)
        tiles = [self.images[image].tiling[number] for image, number in places]
        return np.concatenate([of_tile + np.array([tile.row, tile.column]) for tile in tiles])


class _Prepared:
    """The tokens of one tile in each layer, (N, D), and their bounds."""

    def __init__(self, rows: Sequence[Array], bounds: Sequence[Bound]) -> None:
        self.rows = rows
        layers = rows if bounds else ()
        self.bounding = [bound(tokens) for bound, tokens in zip(bounds, layers, strict=True)]
        self.size = sum(each.nbytes for each in (*rows, *self.bounding))


def _concat(arrays: Sequence[Array]) -> Array:
    return namespace(arrays[0]).concat(arrays)
