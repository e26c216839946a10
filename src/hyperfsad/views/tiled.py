"""The image in tiles: each is cut out, encoded and compared near its place, and their maps joined.

A small defect stands out in its tile, a large one in the image as a whole; so both are scored.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, like, namespace, to_numpy
from ..decisions.roi import RegionOfInterest
from ..decisions.thresholds import LeaveOneOut
from ..disk.tensors import StreamedTensor
from ..encoders.encoder import Encoder, PreparedImage, Tokens
from ..errors import UsageError
from ..evidence.neighbours import Namer, Neighbour, NormalView, layer_evidence
from ..images.geometry import PatchGrid
from ..images.loading import LoadedImage, batched, load_image
from ..messages import Progress, no_progress
from ..method.memory import MemoryBank
from ..method.scoring import TokenScore
from .tile_files import NormalTiles, TileFile, replaced_files, tile_streams, write_tiles
from .tile_memory import TileMemory
from .tiling import Maps, Tiling, beyond, decided, sample
from .view import SELF_DISTANCE, ExplainedPatch, ScoreAndPeak, View, ViewSettings
from .whole import WholeView

HELD_OUT_TILED = 4
"""Normal images that are left out for a threshold."""


class TiledView(View):
    """Scores images in tiles, `side` pixels wide and high, and as a whole."""

    needs_pictures = True

    def __init__(self, rules: ViewSettings, side: int) -> None:
        self.rules, self.side = rules, side
        self.region = RegionOfInterest()
        self._whole = WholeView(rules, self.region)
        self._spool: TileFile | None = None

    _memory: TileMemory

    def fitted(self, bank: MemoryBank) -> "TiledView":
        if len(bank.extras) != len(bank):
            raise UsageError("bank-without-tiles")
        view = TiledView(self.rules, self.side)
        view.bank = bank
        view._whole = self._whole.fitted(bank)
        view._memory = TileMemory(bank.extras, self.rules.comparison, bank.cls)
        return view

    def tiling(self, size: tuple[int, int]) -> Tiling:
        """How an image of this size is cut."""
        return Tiling.of(size, self.side, self.rules.comparison.grid)

    def remember(
        self, bank: MemoryBank, pictures: Sequence[LoadedImage], encoder: Encoder
    ) -> MemoryBank:
        """Adds the tiles of normal images; their tokens go to the spool."""
        if self._spool is None or self._spool.process != os.getpid():
            self._spool = TileFile()
        tiles = []
        for picture in pictures:
            tiling = self.tiling(picture.size)
            found = self._encoded(picture, tiling, encoder)
            tiles.append(write_tiles(self._spool, tiling, found))
        return replace(bank, extras=tuple(tiles))

    def _encoded(self, picture: LoadedImage, tiling: Tiling, encoder: Encoder) -> Iterator[Array]:
        """The patch tokens of each tile, (layers, N, D), a few tiles at a time."""
        for numbers in batched(range(len(tiling)), self.rules.batch_size or encoder.usual_batch):
            pixels = [self._pixels(picture, tiling, number) for number in numbers]
            yield from encoder.encode_prepared(pixels).patches

    def _pixels(self, picture: LoadedImage, tiling: Tiling, number: int) -> NDArray[np.float32]:
        settings, box = self.rules.settings, tiling.box(number)
        return picture.to_array(settings.resolution, settings.mean, settings.std, box)

    def score(self, images: Sequence[PreparedImage], encoder: Encoder) -> list[TokenScore]:
        wholes = self._whole.score(images, encoder)
        return [
            self._with_tiles(_picture(image), whole, encoder)
            for image, whole in zip(images, wholes, strict=True)
        ]

    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        return self._whole.score_tokens(tokens)

    def _with_tiles(self, picture: LoadedImage, whole: TokenScore, encoder: Encoder) -> TokenScore:
        """The map of the tiles; the score also has what stands out in the image as a whole.

        On real parts, enlarged three times, the larger of the two orders good and bad parts better
        than either (docs/measurements/tiles.md).
        """
        distances, shown = self.maps(picture, encoder)
        branches = whole.branches.with_values(
            map=max(whole.branches.values["map"], self._pooled(distances))
        )
        return TokenScore(shown, branches)

    def _pooled(self, values: Maps) -> float:
        """What the map of the tiles says of the image.

        A share is one of a tile's patches, wherever in the image they lie: of a hundred million
        pixels 2 % would be a thousand times a small defect, which would drown.
        """
        pooling = self.rules.scoring.pooling
        return float(pooling(values, self.rules.comparison.grid**2))

    def maps(self, picture: LoadedImage, encoder: Encoder) -> Maps:
        """The distances of the image's patches, and its map, (2, rows, columns)."""
        tiling = self.tiling(picture.size)
        tiles = self._encoded(picture, tiling, encoder)
        return tiling.joined(
            self._tile_map(self._memory, tokens, tiling, number)
            for number, tokens in enumerate(tiles)
        )

    def _tile_map(self, memory: TileMemory, tokens: Array, tiling: Tiling, number: int) -> Maps:
        """The distances of a tile's patches, and its map, (2, grid, grid)."""
        found = memory.distances(tuple(tokens), *tiling.centre(number))
        planes = np.stack([to_numpy(found), to_numpy(self.rules.comparison.map_of(found))])
        return planes.reshape(-1, tiling.grid, tiling.grid)

    def leave_one_out(self, progress: Progress = no_progress) -> LeaveOneOut:
        """As the whole view does, from a sample of the tiles of the first few images."""
        bank, count = self.bank, len(self.bank)
        asked = progress(range(min(count, HELD_OUT_TILED)), "threshold")
        apart, held_out = [], []
        for entry in asked:
            tiling: Tiling = bank.extras[entry].tiling
            own = [self._memory.self_distances(entry, number) for number in sample(tiling)]
            apart.append(SELF_DISTANCE(namespace(*own).concat(own)))
            if count > 1:
                held_out.append(self._held_out(entry))
        return LeaveOneOut.of(held_out, apart, count)

    def _held_out(self, entry: int) -> ScoreAndPeak:
        """What a normal image shows of itself while it is not remembered."""
        others, whole = self._memory.without(entry), self._whole.fitted(self.bank.without(entry))
        return self._compared(self.bank, entry, others, whole)

    def score_entry(self, bank: MemoryBank, entry: int) -> ScoreAndPeak:
        """From a sample of its tiles."""
        return self._compared(bank, entry, self._memory, self._whole)

    def _compared(
        self, bank: MemoryBank, entry: int, others: TileMemory, whole: WholeView
    ) -> ScoreAndPeak:
        tiles: NormalTiles = bank.extras[entry]
        tiling, numbers = tiles.tiling, sample(tiles.tiling)
        maps = [
            self._tile_map(others, like(tiles.tokens(number), bank.cls), tiling, number)
            for number in numbers
        ]
        return self._shown(tiling, numbers, maps, whole.score_entry(bank, entry))

    def _shown(
        self, tiling: Tiling, numbers: Sequence[int], maps: Sequence[Maps], whole: TokenScore
    ) -> ScoreAndPeak:
        """Its score and its peak as they would be with all of its tiles."""
        values = decided(tiling, numbers, maps)
        missing = tiling.rows * tiling.columns / values.shape[1]
        finest, mean = values[0], values[-1]
        close = self._pooled(finest) + beyond(finest, missing)
        branches = whole.branches.with_values(map=max(whole.branches.values["map"], close))
        return ScoreAndPeak(branches.total, float(mean.max()) + beyond(mean, missing))

    def grid_over(self, size: tuple[int, int]) -> PatchGrid:
        tiling = self.tiling(size)
        return PatchGrid(tiling.rows, tiling.columns, size)

    def explained(
        self, picture: LoadedImage, at: tuple[float, float] | None, encoder: Encoder
    ) -> ExplainedPatch:
        """Where tiles overlap, several of them cover a patch. Explained is the one whose centre is
        nearest, which weighs most; the map shows the weighted mean of all."""
        how, tiling = self.rules.comparison, self.tiling(picture.size)
        if at is None:
            mean = self.maps(picture, encoder)[-1]
            row, column = divmod(int(mean.argmax()), tiling.columns)
        else:
            row, column = self.grid_over(picture.size).cell(*at)
        nearest, shown, value = tiling.nearest(row, column), 0.0, 0.0
        for number in tiling.over(row, column):
            tile = tiling[number]
            tokens = encoder.encode_prepared([self._pixels(picture, tiling, number)]).patches[0]
            cell = row - tile.row, column - tile.column
            distances, found = self._tile_map(self._memory, tokens, tiling, number)
            shown += float(tiling.weight(number)[cell] * found[cell])
            if number == nearest:
                value = float(distances[cell])
                query, patch = tuple(tokens), cell[0] * how.grid + cell[1]
        places = self._memory.places(*tiling.centre(nearest))
        named = self._namer(places)
        layers = [
            layer_evidence(layer, query[index][patch], self._memory.rows(places, index), how, named)
            for index, layer in enumerate(self.rules.settings.layers)
        ]
        return ExplainedPatch(row, column, value, shown, tuple(layers))

    def _namer(self, places: Sequence[tuple[int, int]]) -> Namer:
        """Names rows of the tiles at these places."""
        grid = self.rules.comparison.grid

        def named(row: int, weight: float, similarity: float) -> Neighbour:
            which, cell = divmod(row, grid**2)
            number, tile_number = places[which]
            tiling = self._memory.images[number].tiling
            tile, (down, across) = tiling[tile_number], divmod(cell, grid)
            shape = tiling.rows, tiling.columns
            place = NormalView(self.bank.images[number]).patch(
                tile.row + down, tile.column + across, *shape
            )
            return Neighbour.of(place, weight, similarity, shape)

        return named

    def stored(self) -> Any:
        return {"side": self.side, "sizes": [list(t.tiling.size) for t in self.bank.extras]}

    def tensors(self) -> dict[str, StreamedTensor]:
        return tile_streams(self.bank.extras)

    def reads_from(self, path: Path) -> bool:
        return bool(replaced_files(self.bank.extras, path))

    def release(self, path: Path) -> None:
        for file in replaced_files(self.bank.extras, path):
            file.close()


def _picture(image: PreparedImage) -> LoadedImage:
    """The image itself, read again where it was not kept."""
    picture = image.whole or image.picture
    if picture is None or picture.size != image.size:
        return load_image(image.source, image.name)
    return picture
