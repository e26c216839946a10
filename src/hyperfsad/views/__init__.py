"""How images are looked at: whole, or in tiles. Only this file asks which."""

from pathlib import Path
from typing import Any

import numpy as np

from ..decisions.region_of_interest import RegionOfInterest
from ..errors import UsageError
from ..method.memory import MemoryBank
from .tile_files import stored_tiles
from .tiled import TiledView
from .tiling import Tiling
from .view import Plain, Rules, View
from .whole import WholeView

__all__ = [
    "Plain",
    "Rules",
    "View",
    "count_tiles",
    "make_view",
    "refuse_with_tiles",
    "stored_extras",
    "tile_side",
]


def tile_side(asked: int | bool | None, resolution: int, grid: int) -> int | None:
    """A tile's side in pixels of the image: True stands for the encoder's own resolution."""
    if asked is None or asked is False:
        return None
    if asked is True:
        return resolution
    if not isinstance(asked, int | np.integer) or asked < grid:
        raise UsageError(
            f"A tile's side is a whole number of pixels, at least {grid}, not {asked!r}."
        )
    return int(asked)


def count_tiles(size: tuple[int, int], side: int, grid: int) -> int:
    """How many tiles of a side an image of a width and height is cut into."""
    return Tiling.count(size, side, grid)


def make_view(rules: Rules, region: RegionOfInterest, side: int | None) -> View:
    """The view of a detector: in tiles of a side, or whole."""
    return WholeView(rules, region) if side is None else TiledView(rules, side)


def refuse_with_tiles(side: int | None, rotations: int | str, roi: object) -> None:
    """Refuses what does not go with tiles."""
    if side is None:
        return
    if rotations != 1:
        raise UsageError(
            "Tiles are compared near their own place and parts that lie at any angle have none;"
            " take tiles or rotations, not both."
        )
    if roi is not None:
        raise UsageError(
            "Tiles do not know a region of interest; take tiles or a region, not both."
        )


def stored_extras(path: Path, tensors: Any, bank: MemoryBank, header: dict[str, Any]) -> Any:
    """What a detector file keeps beside the tokens of each entry; `tensors` is the open file."""
    return () if header.get("tiles") is None else stored_tiles(path, tensors, bank, header)
