"""How an image is seen: whole, or in tiles; the detector asks which."""

from .tile_files import stored_tiles
from .tiled import TiledView
from .tiling import Tiling
from .view import PlainView, View, ViewSettings
from .whole import WholeView

__all__ = [
    "PlainView",
    "TiledView",
    "View",
    "ViewSettings",
    "WholeView",
    "count_tiles",
    "stored_tiles",
]

count_tiles = Tiling.count
