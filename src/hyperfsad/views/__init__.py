"""How an image is seen: whole, or in tiles. Only this file asks which."""

from pathlib import Path
from typing import Any

from ..decisions.region_of_interest import RegionOfInterest
from ..method.memory import MemoryBank
from .tile_files import stored_tiles
from .tiled import TiledView
from .tiling import Tiling
from .view import PlainView, View, ViewSettings
from .whole import WholeView

__all__ = ["PlainView", "View", "ViewSettings", "count_tiles", "make_view", "stored_extras"]

count_tiles = Tiling.count


def make_view(settings: ViewSettings, region: RegionOfInterest, side: int | None) -> View:
    """The view of a detector: in tiles of a side, or whole."""
    return WholeView(settings, region) if side is None else TiledView(settings, side)


def stored_extras(path: Path, tensors: Any, bank: MemoryBank, header: dict[str, Any]) -> Any:
    """What a detector file keeps beside the tokens of each entry; `tensors` is the open file."""
    return () if header.get("tiles") is None else stored_tiles(path, tensors, bank, header)
