"""Good parts that nobody has to bring, where images are cut into tiles: some tiles stand for all.

An image of a hundred million pixels has hundreds of tiles, and to change and encode all of them
five times would take an hour. A few, spread over the image, are cut out as pictures, changed,
encoded and compared at their place: once while their image is remembered, once while it is left
out. What they say of the cells that they decide is a sample of the image's map.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..decisions.thresholds import Rehearsal, Showing
from ..encoders.tokens import Tokens
from ..images.loading import LoadedImage, NormalImage
from ..images.perturbation import changed_copies
from ..method.scoring import Pooling, image_score
from .tiled import spread, tile_map
from .tiling import Maps, Tiling

if TYPE_CHECKING:
    from ..detector.hyperfsad import HyperFSAD
    from ..method.scoring import TokenScore

IMAGES = 4
"""Normal images that are asked."""
TILES = 16
"""Tiles of an image that are asked; each costs the time of five more."""
DECIDED = 0.5
"""Where tiles overlap, those asked decide a cell when their words weigh this much together."""
TAIL = 0.98
"""Values above this quantile tell how slowly the map's tail falls."""

_UNLIKE = Pooling.parse("top-2%")


@dataclass(frozen=True)
class _Shown:
    """What a normal image showed at its worst."""

    score: float
    peak: float


@dataclass(frozen=True)
class _Asked:
    """One normal image in the rehearsal."""

    changed: _Shown
    held_out: _Shown | None
    unlike: float


def rehearse_tiles(
    detector: "HyperFSAD", read: Callable[[NormalImage], LoadedImage | None]
) -> Rehearsal | None:
    """What the normal images show, each left out in turn; None where none can be read again."""
    bank = detector.memory_
    asked = []
    for place in range(min(len(bank), IMAGES)):
        picture = read(bank.images[place])
        if picture is not None:
            asked.append(_ask(detector, place, picture))
        del picture  # before the next is read
    if not asked:
        return None
    changed = [image.changed for image in asked]
    held_out = [image.held_out for image in asked if image.held_out is not None]
    return Rehearsal(
        Showing(tuple(s.score for s in changed), tuple(s.score for s in held_out)),
        Showing(tuple(s.peak for s in changed), tuple(s.peak for s in held_out)),
        tuple(image.unlike for image in asked),
        len(bank),
        len(bank) - 1,
    )


def _ask(detector: "HyperFSAD", place: int, picture: LoadedImage) -> _Asked:
    bank, memory = detector.memory_, detector.tile_memory_
    encode, tiles = detector.encoder_.encode, detector.memory_.tiles[place]
    tiling, numbers = tiles.tiling, sample(tiles.tiling)
    others = memory.without(place) if len(bank) > 1 else None
    small = [encode([copy]) for copy in changed_copies(picture)]
    wholes = [score for tokens in small for score in detector.score_tokens(tokens)]
    changed: list[list[Maps]] = []
    held_out: list[list[Maps]] = []
    unlike: list[Tensor] = []
    for number in detector.follow(numbers, f"threshold, image {place + 1}"):
        tile = tiles.tokens(number).to(bank.cls.device)
        copies = [
            encode([copy]).patches[0] for copy in changed_copies(cut(picture, tiling, number))
        ]
        changed.append([tile_map(memory, tokens, tiling, number) for tokens in copies])
        if others is not None:
            versions = (tile, *copies)
            held_out.append([tile_map(others, tokens, tiling, number) for tokens in versions])
        unlike.append(memory.against_itself(place, number)[0])

    def worst(maps: list[list[Maps]], of_wholes: "list[TokenScore]") -> _Shown:
        """Over the copies: `maps` has for each tile the map of each copy."""
        shown = [
            _shown(detector, tiling, numbers, of_copy, whole)
            for of_copy, whole in zip(zip(*maps, strict=True), of_wholes, strict=True)
        ]
        return _Shown(max(s.score for s in shown), max(s.peak for s in shown))

    left_out = None
    if others is not None:
        itself = Tokens(torch.stack(bank.patches_of(place))[None], bank.cls[place : place + 1])
        stranger = detector.leaving_out([place])
        shown = [score for tokens in (itself, *small) for score in stranger.score_tokens(tokens)]
        left_out = worst(held_out, shown)
    return _Asked(worst(changed, wholes), left_out, float(_UNLIKE(torch.cat(unlike))))


def sample(tiling: Tiling) -> list[int]:
    """At most TILES tiles, evenly spread along both sides of the image."""
    rows, columns = tiling.shape
    down = min(rows, math.isqrt(TILES))
    across = min(columns, TILES // down)
    down = min(rows, TILES // across)
    return [
        row * columns + column for row in spread(rows, down) for column in spread(columns, across)
    ]


def cut(picture: LoadedImage, tiling: Tiling, number: int) -> LoadedImage:
    """A tile as a picture, at its own scale."""
    left, upper, right, lower = map(round, tiling.box(number))
    return LoadedImage(picture.name, picture.pixels.crop((left, upper, right, lower)))


def _shown(
    detector: "HyperFSAD",
    tiling: Tiling,
    numbers: Sequence[int],
    maps: Sequence[Maps],
    whole: "TokenScore",
) -> _Shown:
    """Of one copy: its score and its peak as they would be with all of its tiles."""
    values = decided(tiling, numbers, maps)
    missing = tiling.rows * tiling.columns / values.shape[1]
    finest, mean = values[0], values.mean(axis=0)
    close = detector.pooled(torch.from_numpy(finest)) + beyond(finest, missing)
    score = image_score(max(whole.score_map, close), whole.score_cls, detector.lam)
    return _Shown(score, float(mean.max()) + beyond(mean, missing))


def decided(tiling: Tiling, numbers: Sequence[int], maps: Sequence[Maps]) -> Maps:
    """The values of the cells that some tiles decide, (scales, cells); of all tiles, the map."""
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
