"""An image tile by tile: cut, encoded, remembered or compared, and laid together."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..encoders.encoder import Encoder
from ..encoders.prepared import PreparedImage
from ..errors import UsageError
from ..images.loading import LoadedImage, batched, load_image
from ..messages import Notify, silent
from ..method.matcher import Comparison
from ..method.memory import MemoryBank
from ..method.scoring import TokenScore, image_score
from .colours import LEVEL_BANK, LEVEL_IMAGES, LEVEL_QUANTILE, SPAN
from .tile_files import NormalTiles, Spool, TileWriter
from .tile_memory import TileMemory
from .tiling import Maps, Tiling

if TYPE_CHECKING:
    from ..detector.hyperfsad import HyperFSAD

TELL_AFTER = 60.0
"""Seconds."""

LEVEL_TILES = 4
"""Tiles of a normal image that set the level of its map."""


def tile_side(given: int | bool | None, resolution: int, grid: int) -> int | None:
    """A tile's side in pixels of the image: True stands for the encoder's own resolution."""
    if given is None or given is False:
        return None
    if given is True:
        return resolution
    if not isinstance(given, int | np.integer) or given < grid:
        raise UsageError(
            f"A tile's side is a whole number of pixels, at least {grid}, not {given!r}."
        )
    return int(given)


def refuse_together(rotations: int | str, roi: object) -> None:
    """Refuses what does not go with tiles."""
    if rotations != 1:
        raise UsageError(
            "Tiles are compared near their own place and parts that lie at any angle have none;"
            " take tiles or rotations, not both."
        )
    if roi is not None:
        raise UsageError(
            "A region of interest is not known to tiles; take tiles or a region, not both."
        )


def encoded_tile(encoder: Encoder, picture: LoadedImage, tiling: Tiling, number: int) -> Tensor:
    """The patch tokens of one tile, (layers, N, D)."""
    return encoder.encode_prepared([_cut(encoder, picture, tiling, number)]).patches[0]


def encoded_tiles(
    encoder: Encoder, picture: LoadedImage, tiling: Tiling, batch: int, notify: Notify = silent
) -> Iterator[Tensor]:
    """The patch tokens of each tile, (layers, N, D), a few tiles at a time.

    A large image takes minutes, so now and then it is told how far it is.
    """
    told = time.monotonic()
    for numbers in batched(range(len(tiling)), batch):
        pixels = [_cut(encoder, picture, tiling, number) for number in numbers]
        yield from encoder.encode_prepared(pixels).patches
        if time.monotonic() - told >= TELL_AFTER:
            told = time.monotonic()
            notify(f"{picture.name}: {numbers[-1] + 1} of {len(tiling)} tiles.")


def _cut(
    encoder: Encoder, picture: LoadedImage, tiling: Tiling, number: int
) -> NDArray[np.float32]:
    settings = encoder.settings
    box = tiling.box(number)
    return picture.to_array(settings.resolution, settings.mean, settings.std, box)


def remembered(detector: "HyperFSAD", picture: LoadedImage, spool: Spool) -> NormalTiles:
    """The tiles of a normal image, on disk."""
    encoder, batch = detector.encoder_, detector._batch_size
    tiling = tiling_of(detector, picture.size)
    writer = TileWriter(spool, tiling)
    for tokens in encoded_tiles(encoder, picture, tiling, batch, detector.notify):
        writer.add(tokens)
    return writer.finish()


def look_closer(detector: "HyperFSAD", image: PreparedImage, whole: TokenScore) -> TokenScore:
    """What the tiles of an image say, given what the image as a whole says."""
    picture = image.whole or image.picture
    if picture is None or picture.size != image.size:
        picture = load_image(image.source, image.name)
    return score_tiles(detector, compared(detector, picture), whole)


def score_tiles(detector: "HyperFSAD", scales: Maps, whole: TokenScore) -> TokenScore:
    """The map of the tiles; the image's score also has what stands out in the image as a whole.

    A small defect stands out in its tile, a large one in the whole. On real parts, enlarged three
    times, the larger of the two orders good and bad parts better than either (docs/tiles.md).
    """
    score_map = max(whole.score_map, detector.pooled(torch.from_numpy(scales[0])))
    score = image_score(score_map, whole.score_cls, detector.lam)
    return TokenScore(scales.mean(axis=0), score, score_map, whole.score_cls)


def compared(detector: "HyperFSAD", picture: LoadedImage) -> Maps:
    """The map of an image at each scale, (scales, rows, columns)."""
    tiling = tiling_of(detector, picture.size)
    tiles = encoded_tiles(detector.encoder_, picture, tiling, detector._batch_size, detector.notify)
    return joined_map(detector.tile_memory_, tiling, tiles)


def joined_map(memory: TileMemory, tiling: Tiling, tiles: Iterable[Tensor]) -> Maps:
    """The map of an image at each scale, given the tokens of its tiles."""
    return tiling.joined(
        tile_map(memory, tokens, tiling, number) for number, tokens in enumerate(tiles)
    )


def tile_map(memory: TileMemory, tokens: Tensor, tiling: Tiling, number: int) -> Maps:
    """The map of a tile at its place, (scales, grid, grid)."""
    found = memory.distances(tuple(tokens), *tiling.centre(number))
    return found.reshape(-1, tiling.grid, tiling.grid).cpu().numpy()


def tiling_of(detector: "HyperFSAD", size: tuple[int, int]) -> Tiling:
    """How a detector cuts an image of this size."""
    assert detector.tile_side is not None
    return Tiling.of(size, detector.tile_side, detector.settings.grid)


def colour_scale(bank: MemoryBank, how: Comparison) -> tuple[float, float]:
    """As `colours.colour_scale`, but from a few tiles of the normal images."""
    bank, device = bank.first(LEVEL_BANK), bank.cls.device
    views = bank.views
    found = []
    if len(views) == 1:
        lone = TileMemory(bank.tiles[:1], how, device)
        found = [lone.against_itself(0, n) for n in spread(len(bank.tiles[0]), 2 * LEVEL_TILES)]
    else:
        for of_image in views[:LEVEL_IMAGES]:
            others = TileMemory(bank.without(*of_image).tiles, how, device)
            image = bank.tiles[of_image[0]]
            for number in spread(len(image), LEVEL_TILES):
                tokens = image.tokens(number).to(device)
                found.append(others.distances(tuple(tokens), *image.tiling.centre(number)))
    level = torch.cat([scales.mean(dim=0) for scales in found]).quantile(LEVEL_QUANTILE)
    low = max(float(level), 1e-6)
    return low, SPAN * low


def spread(count: int, most: int) -> Sequence[int]:
    """At most so many of the numbers below `count`, evenly spread."""
    kept = min(count, most)
    return [(2 * i + 1) * count // (2 * kept) for i in range(kept)]
