"""Galleries of the benchmark: anomaly maps over images, method by method or beside the truth."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...errors import UsageError
from ...report.canvas import INK, new_figure, style, text_width
from ...results.heatmap import overlay, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOW_QUANTILE, HIGH_QUANTILE = 0.90, 0.998
"""Of all values of a method: where its maps begin to glow, and the top of their scale. Defects fill
a few percent of an image, so what lies below the first is good surface."""

# Lengths in inches.
_TILE, _SMALL_TILE = 1.15, 0.82
_TALLEST = 1.5  # as a multiple of the width; what is taller is shown smaller
_GAP, _EDGE, _LINE, _BAR = 0.04, 0.08, 0.14, 0.09
_SMALL = 6.5  # size of letters
_PIXELS = 320  # longer side of a tile
_COLUMNS = 8
_TITLE_LETTERS = 16
_OUTLINE = (("black", 1.3), ("#00E5FF", 0.65))
"""Colour and width: a bright outline, far from every colour of the palette, on a dark one."""


@dataclass(frozen=True)
class GalleryRow:
    """An image, its ground truth where there is one, and each method's map of it."""

    label: str
    image: Image.Image
    mask: NDArray[np.bool_] | None = None
    maps: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """By method, on the patch grid or in pixels."""


@style()
def qualitative_grid(rows: Sequence[GalleryRow], methods: Sequence[str]) -> "Figure":
    """Image, truth and every method's map, a row for each image."""
    scales = {method: map_scale(rows, method) for method in methods}
    titles = ["\n".join(textwrap.wrap(t, _TITLE_LETTERS)) for t in ("image", "truth", *methods)]
    lines = max(title.count("\n") + 1 for title in titles)
    labels = text_width([line for row in rows for line in row.label.split("\n")])
    sheet = _Sheet(
        columns=len(titles),
        heights=[_TILE * _aspect([row]) for row in rows],
        tile=_TILE,
        left=labels + 2 * _EDGE,
        top=_EDGE + lines * _LINE,
    )
    for column, title in enumerate(titles):
        sheet.write(sheet.lefts[column] + _TILE / 2, sheet.tops[0] - 0.03, title, va="bottom")
    for index, row in enumerate(rows):
        middle = sheet.tops[index] + sheet.heights[index] / 2
        sheet.write(sheet.lefts[0] - _EDGE, middle, row.label, ha="right", va="center")
        image = _sized(row.image)
        tiles = [image, None if row.mask is None else _mask_tile(row.mask, image)]
        tiles += [_map_tile(image, row, method, scales[method]) for method in methods]
        for column, tile in enumerate(tiles):
            _show(sheet.axes(index, column), tile)
    for column, method in enumerate(methods, start=2):
        sheet.bar(sheet.lefts[column] + 0.05 * _TILE, 0.9 * _TILE, scales[method])
    return sheet.figure


@style()
def truth_over_map(rows: Sequence[GalleryRow], method: str) -> "Figure":
    """One method's maps in small tiles, the outline of the ground truth drawn over them."""
    scale = map_scale(rows, method)
    captions = [[_shortened(line) for line in row.label.split("\n")] for row in rows]
    places = [divmod(index, _COLUMNS) for index in range(len(rows))]
    strips = [rows[start : start + _COLUMNS] for start in range(0, len(rows), _COLUMNS)]
    sheet = _Sheet(
        columns=max(len(strips[0]), 3),  # the legend needs the width of three
        heights=[_SMALL_TILE * _aspect(strip) for strip in strips],
        tile=_SMALL_TILE,
        caption=0.04 + 0.11 * max(map(len, captions)),
    )
    for row, caption, (strip, column) in zip(rows, captions, places, strict=True):
        image, axes = _sized(row.image), sheet.axes(strip, column)
        _show(axes, _map_tile(image, row, method, scale))
        if row.mask is not None and row.mask.any():
            _outline(axes, row.mask, image)
        foot = sheet.tops[strip] + sheet.heights[strip] + 0.02
        sheet.write(sheet.lefts[column] + _SMALL_TILE / 2, foot, "\n".join(caption), size=_SMALL)
    sheet.bar(sheet.lefts[0], 1.5 * _SMALL_TILE, scale)
    sheet.outline_legend(sheet.lefts[0] + 1.5 * _SMALL_TILE + 0.2)
    return sheet.figure


def map_scale(rows: Sequence[GalleryRow], method: str) -> tuple[float, float]:
    """The one scale of a method, over all of its maps: never of one image, or good ones glow."""
    values = [np.ravel(row.maps[method]) for row in rows if method in row.maps]
    if not values:
        raise UsageError(f"No image has a map of {method!r}; there is nothing to draw.")
    low, high = np.quantile(np.concatenate(values), (LOW_QUANTILE, HIGH_QUANTILE))
    if not np.isfinite(high - low):
        raise UsageError(f"The maps of {method!r} hold values that are no numbers.")
    return float(low), float(max(high, low + 1e-6))


class _Sheet:
    """Tiles in rows and columns, measured in inches from the top left of the figure."""

    def __init__(
        self,
        *,
        columns: int,
        heights: Sequence[float],
        tile: float,
        left: float = _EDGE,
        top: float = _EDGE,
        caption: float = 0.0,
    ) -> None:
        self.heights, self._tile = heights, tile
        self.lefts = [left + column * (tile + _GAP) for column in range(columns)]
        steps = [height + caption + _GAP for height in heights]
        self.tops = [top + sum(steps[:row]) for row in range(len(steps))]
        self._foot = top + sum(steps)
        self._width = self.lefts[-1] + tile + _EDGE
        self._height = self._foot + _GAP + _BAR + _LINE + _EDGE
        self.figure = new_figure(self._width, self._height)

    def axes(self, row: int, column: int) -> "Axes":
        return self._axes(self.lefts[column], self.tops[row], self._tile, self.heights[row])

    def write(self, x: float, y: float, text: str, **options: Any) -> None:
        """Text, unless the options say otherwise centred below the place."""
        place = x / self._width, 1 - y / self._height
        self.figure.text(*place, text, color=INK, **{"ha": "center", "va": "top", **options})

    def bar(self, left: float, width: float, scale: tuple[float, float]) -> None:
        """A colour bar at the foot, with the values at its ends."""
        colours, opacity = palette()
        axes = self._axes(left, self._foot + _GAP, width, _BAR)
        axes.imshow(np.column_stack([colours, opacity])[None] / 255, aspect="auto")
        axes.spines[:].set(visible=True, linewidth=0.4, edgecolor="#999999")
        digits = max(0, 1 - math.floor(math.log10(scale[1] - scale[0])))
        foot = self._foot + _GAP + _BAR + 0.03
        for x, value, side in zip((left, left + width), scale, ("left", "right"), strict=True):
            self.write(x, foot, f"{value:.{digits}f}", ha=side, size=_SMALL)

    def outline_legend(self, left: float) -> None:
        axes = self._axes(left, self._foot + _GAP, 0.25, _BAR)
        axes.set(xlim=(0, 1), ylim=(0, 1))
        for colour, width in _OUTLINE:
            axes.plot([0, 1], [0.5, 0.5], color=colour, linewidth=width)
        middle = self._foot + _GAP + _BAR / 2
        self.write(left + 0.3, middle, "ground truth", ha="left", va="center", size=_SMALL)

    def _axes(self, left: float, top: float, width: float, height: float) -> "Axes":
        w, h = self._width, self._height
        axes = self.figure.add_axes((left / w, 1 - (top + height) / h, width / w, height / h))
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        return axes


def _aspect(rows: Sequence[GalleryRow]) -> float:
    """Height of a row of tiles as a multiple of their width."""
    return min(_TALLEST, max(row.image.height / row.image.width for row in rows))


def _sized(image: Image.Image) -> Image.Image:
    share = _PIXELS / max(image.size)
    size = max(1, round(image.width * share)), max(1, round(image.height * share))
    return image.convert("RGB").resize(size, Image.Resampling.LANCZOS)


def _mask_tile(mask: NDArray[np.bool_], image: Image.Image) -> Image.Image:
    """White on black, at the size of the tile."""
    grey = Image.fromarray(mask.astype(np.uint8) * 255)
    return grey.resize(image.size, Image.Resampling.BOX).convert("RGB")


def _map_tile(
    image: Image.Image, row: GalleryRow, method: str, scale: tuple[float, float]
) -> Image.Image | None:
    """The map over the image in the colours of the heat maps; what is below the scale is clear."""
    return overlay(image, row.maps[method], scale) if method in row.maps else None


def _show(axes: "Axes", tile: Image.Image | None) -> None:
    if tile is None:
        axes.text(0.5, 0.5, "–", ha="center", va="center", color=INK, transform=axes.transAxes)
    else:
        axes.imshow(np.asarray(tile))


def _outline(axes: "Axes", mask: NDArray[np.bool_], image: Image.Image) -> None:
    """Draws the border of the ground truth."""
    # A single pixel of a large image counts as well; the rim closes outlines at the border.
    tile = np.pad(np.asarray(_mask_tile(mask, image))[..., 0] > 0, 1)
    rows, columns = (np.arange(-1, side - 1) for side in tile.shape)
    for colour, width in _OUTLINE:
        axes.contour(columns, rows, tile.astype(float), [0.5], colors=[colour], linewidths=[width])


def _shortened(text: str) -> str:
    """The text, cut where it would be wider than a small tile."""
    kept = text
    while len(kept) > 1 and text_width([kept], _SMALL) > _SMALL_TILE:
        text = text[:-1]
        kept = text.rstrip() + "…"
    return kept
