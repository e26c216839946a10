"""Galleries of the benchmark: anomaly maps over images, method by method or beside the truth."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...results.heatmap import overlay, palette
from .canvas import INK, new_figure, style, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOW_QUANTILE, HIGH_QUANTILE = 0.90, 0.998
"""Of all values of a method: where its maps begin to glow, and the top of their scale. Defects fill
a few percent of an image, so what lies below the first is good surface."""

_TILE, _TINY_TILE = 1.15, 0.82  # inches
_CAPTION_SIZE = 6.5  # size of letters
_PIXELS = 320  # longer side of a tile
_COLUMNS = 8
_OUTLINE = (("black", 1.3), ("#00E5FF", 0.65))
"""Colour and width: a bright outline, far from every colour of the palette, on a dark one."""

MapScale: TypeAlias = tuple[float, float]


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
    titles = ["\n".join(textwrap.wrap(title, 16)) for title in ("image", "truth", *methods)]
    heights = [_TILE * _aspect([row]) for row in rows]
    labels = text_width([line for row in rows for line in row.label.split("\n")])
    width = labels + 0.2 + (_TILE + 0.06) * len(titles)
    figure = new_figure(width, 0.9 + sum(heights) + 0.06 * len(rows), layout="constrained")
    panels = _panels(figure, len(titles), heights)
    for axes, title in zip(panels[0], titles, strict=True):
        axes.set_title(title)
    for line, row in zip(panels, rows, strict=True):
        line[0].set_ylabel(row.label, rotation=0, ha="right", va="center", color=INK, size=8)
        image = _sized(row.image)
        tiles = [image, None if row.mask is None else _mask_tile(row.mask, image)]
        tiles += [overlay(image, row.maps[method], scales[method]) for method in methods]
        for axes, tile in zip(line, tiles, strict=True):
            if tile is None:
                place = {"ha": "center", "va": "center", "transform": axes.transAxes}
                axes.text(0.5, 0.5, "–", color=INK, **place)
            else:
                axes.imshow(np.asarray(tile))
    _bars(figure, panels, [None, None, *scales.values()])
    return figure


@style()
def truth_over_map(rows: Sequence[GalleryRow], method: str) -> "Figure":
    """One method's maps in small tiles, the outline of the ground truth drawn over them."""
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import withStroke

    scale = map_scale(rows, method)
    strips = [rows[start : start + _COLUMNS] for start in range(0, len(rows), _COLUMNS)]
    columns = max(len(strips[0]), 3)  # the legend needs the width of three
    heights = [_TINY_TILE * _aspect(strip) + 0.34 for strip in strips]
    width = (_TINY_TILE + 0.06) * columns
    figure = new_figure(width, 0.7 + sum(heights), layout="constrained")
    panels = _panels(figure, columns, heights)
    for axes in panels.flat[len(rows) :]:
        axes.set_visible(False)
    for axes, row in zip(panels.flat, rows, strict=False):
        image = _sized(row.image)
        axes.imshow(np.asarray(overlay(image, row.maps[method], scale)))
        if row.mask is not None and row.mask.any():
            _outline(axes, row.mask, image)
        caption = "\n".join(map(_shortened, row.label.split("\n")))
        axes.set_xlabel(caption, size=_CAPTION_SIZE, color=INK, labelpad=2)
    _bars(figure, panels, [scale, *[None] * (columns - 1)])
    (dark, wide), (bright, narrow) = _OUTLINE
    line = Line2D([], [], color=bright, linewidth=narrow, label="ground truth")
    line.set_path_effects([withStroke(linewidth=wide, foreground=dark)])
    figure.legend(handles=[line], loc="outside lower right", fontsize=_CAPTION_SIZE)
    return figure


def map_scale(rows: Sequence[GalleryRow], method: str) -> MapScale:
    """The one scale of a method, over all of its maps: never of one image, or good ones glow."""
    values = [np.ravel(row.maps[method]) for row in rows]
    low, high = np.quantile(np.concatenate(values), (LOW_QUANTILE, HIGH_QUANTILE))
    return float(low), float(max(high, low + 1e-6))


def _panels(figure: "Figure", columns: int, heights: Sequence[float]) -> Any:
    """Empty tiles in rows of these heights."""
    space = {"wspace": 0.01, "hspace": 0.01, "w_pad": 0.02, "h_pad": 0.02}
    figure.get_layout_engine().set(**space)  # type: ignore[union-attr]
    panels = figure.subplots(len(heights), columns, squeeze=False, height_ratios=list(heights))
    for axes in panels.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    return panels


def _bars(figure: "Figure", panels: Any, scales: Sequence[MapScale | None]) -> None:
    """Colour bars below the columns that have a scale, with the values at their ends.

    The other columns get an invisible one, so that all tiles stay in line.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    colour_map = ListedColormap(np.column_stack(palette()) / 255)
    place: dict[str, Any] = {"orientation": "horizontal", "aspect": 12, "pad": 0.02}
    for column, scale in enumerate(scales):
        low, high = scale or (0, 1)
        mappable = ScalarMappable(Normalize(low, high), colour_map)
        bar = figure.colorbar(mappable, ax=list(panels[:, column]), ticks=[low, high], **place)
        bar.ax.tick_params(labelsize=_CAPTION_SIZE, length=0)
        bar.ax.set_visible(scale is not None)
        left, right = bar.ax.set_xticklabels([f"{low:.2g}", f"{high:.2g}"])
        left.set_horizontalalignment("left")
        right.set_horizontalalignment("right")


def _aspect(rows: Sequence[GalleryRow]) -> float:
    """Height of a row of tiles as a multiple of their width; what is taller is shown smaller."""
    return min(1.5, max(row.image.height / row.image.width for row in rows))


def _sized(image: Image.Image) -> Image.Image:
    share = _PIXELS / max(image.size)
    size = max(1, round(image.width * share)), max(1, round(image.height * share))
    return image.convert("RGB").resize(size, Image.Resampling.LANCZOS)


def _mask_tile(mask: NDArray[np.bool_], image: Image.Image) -> Image.Image:
    """White on black, at the size of the tile."""
    grey = Image.fromarray(mask.astype(np.uint8) * 255)
    return grey.resize(image.size, Image.Resampling.BOX).convert("RGB")


def _outline(axes: "Axes", mask: NDArray[np.bool_], image: Image.Image) -> None:
    """Draws the border of the ground truth."""
    # A single pixel of a large image counts as well; the rim closes outlines at the border.
    tile = np.pad(np.asarray(_mask_tile(mask, image))[..., 0] > 0, 1)
    rows, columns = (np.arange(-1, side - 1) for side in tile.shape)
    for colour, width in _OUTLINE:
        axes.contour(columns, rows, tile.astype(float), [0.5], colors=[colour], linewidths=[width])


def _shortened(text: str) -> str:
    """The text, cut where it would be wider than a small tile."""
    shown = text
    while len(shown) > 1 and text_width([shown], _CAPTION_SIZE) > _TINY_TILE:
        text = text[:-1]
        shown = text.rstrip() + "…"
    return shown
