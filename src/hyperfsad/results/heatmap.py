"""Pictures: the heat map over the image, on one fixed scale, so that good parts look calm."""

import base64
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ..decisions.thresholds import level_of
from ..wording import percent

# From pale yellow to dark red, ever darker: legible for the colour-blind and in grey.
_COLOURS = ((255, 225, 90), (254, 180, 60), (244, 90, 40), (190, 10, 40), (95, 0, 45))
_OPACITY = 0.85
_MIN_WIDTH = 480
_EDGE = (0, 150, 200)
_INK, _PAPER = (30, 30, 30), (255, 255, 255)


@dataclass(frozen=True)
class HeatMap:
    """A map over an image, and what is drawn and written around it."""

    anomaly_map: NDArray[np.float32]
    scale: tuple[float, float]
    """Where the map begins to glow, and the top of the scale."""
    size: tuple[int, int]
    """Width and height of the image that contours are given for."""
    contours: Sequence[Sequence[tuple[float, float]]] = ()
    """Of the regions, in pixels of the image."""
    mark: tuple[float, float] | None = None
    """x and y of the strongest place, where an anomalous image has no region."""
    limit: float | None = None
    """The threshold of the map, which the legend counts in; None gives plain values."""
    inside: NDArray[np.bool_] | None = None
    """The patches in the region of interest; None means all."""
    verdict: str = ""
    note: str = ""
    """Follows the strongest place in the legend."""

    def words(self, value: float) -> str:
        """A value of the map as the legend writes it."""
        return percent(level_of(value, self.limit)) if self.limit else f"{value:.2f}"

    def draw(self, image: Image.Image) -> Image.Image:
        """The map, the contours or the mark over the image, with a legend below.

        The picture has the image's own size, or is a reduced one of a large image.
        """
        picture = overlay(image, self.anomaly_map, self.scale)
        return _with_legend(_outlined(picture, self), self)


def overlay(
    image: Image.Image, anomaly_map: NDArray[np.float32], scale: tuple[float, float]
) -> Image.Image:
    """A map over an RGB image, bilinear; what lies below the scale cannot be seen."""
    low, high = scale
    level = (np.asarray(anomaly_map, dtype=np.float32) - low) * np.float32(255 / (high - low))
    shown = Image.fromarray(level).resize(image.size, Image.Resampling.BILINEAR).convert("L")
    colours, opacity = palette()
    glow = Image.merge("RGB", [shown.point(colours[:, channel].tolist()) for channel in range(3)])
    return Image.composite(glow, image, shown.point(opacity.tolist()))


def _outlined(picture: Image.Image, heat_map: HeatMap) -> Image.Image:
    """Contours and mark light on dark, so that they show on any picture."""
    draw = ImageDraw.Draw(picture)
    width = max(1, round(min(picture.size) / 400))
    for edge in _edges(heat_map.inside, picture.size):
        draw.line(edge, fill=_EDGE, width=width)
    across, down = (shown / own for shown, own in zip(picture.size, heat_map.size, strict=True))
    lines = [[*contour, *contour[:2]] for contour in heat_map.contours]  # over the first corner
    if heat_map.mark is not None:
        lines += mark_lines(heat_map.mark, heat_map.size)
    for line in lines:
        corners = [(x * across, y * down) for x, y in line]
        draw.line(corners, fill=_INK, width=3 * width, joint="curve")
        draw.line(corners, fill=_PAPER, width=width, joint="curve")
    return picture


def mark_lines(
    place: tuple[float, float], size: tuple[int, int]
) -> list[list[tuple[float, float]]]:
    """A ring with four strokes around a place: it points at it and does not outline a defect."""
    radius = min(size) / 20
    turns = [2 * math.pi * step / 48 for step in range(50)]  # closed, and over the first corner

    def at(turn: float, far: float) -> tuple[float, float]:
        return place[0] + far * math.cos(turn), place[1] + far * math.sin(turn)

    strokes = [[at(turn, radius), at(turn, 1.6 * radius)] for turn in turns[:48:12]]
    return [[at(turn, radius) for turn in turns], *strokes]


def _edges(
    inside: NDArray[np.bool_] | None, size: tuple[int, int]
) -> Iterator[tuple[float, float, float, float]]:
    """The outline of the region of interest, one piece for each side of a patch."""
    if inside is None:
        return
    across, down = size[0] / inside.shape[1], size[1] / inside.shape[0]
    for row, column in np.argwhere(inside[:-1] != inside[1:]):
        yield column * across, (row + 1) * down, (column + 1) * across, (row + 1) * down
    for row, column in np.argwhere(inside[:, :-1] != inside[:, 1:]):
        yield (column + 1) * across, row * down, (column + 1) * across, (row + 1) * down


@lru_cache(maxsize=1)
def palette() -> "tuple[np.ndarray, np.ndarray]":
    """Colour (256, 3) and opacity (256) of each of the 256 levels; level 0 cannot be seen."""
    place = np.linspace(0, 1, 256)
    stops = np.linspace(0, 1, len(_COLOURS))
    channels = zip(*_COLOURS, strict=True)
    colours = np.stack([np.interp(place, stops, channel) for channel in channels], axis=1)
    opacity = 255 * _OPACITY * np.sqrt(place)
    return np.rint(colours).astype(int), np.rint(opacity).astype(int)


def _with_legend(picture: Image.Image, heat_map: HeatMap) -> Image.Image:
    width = max(picture.width, _MIN_WIDTH)
    unit = max(12, round(min(width, 2 * picture.height) / 45))
    band = 4 * unit
    canvas = Image.new("RGB", (width, picture.height + band), _PAPER)
    canvas.paste(picture, ((width - picture.width) // 2, 0))
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size=unit)
    first, middle = picture.height + round(1.2 * unit), picture.height + round(2.8 * unit)
    draw.text((unit, first), heat_map.verdict, _INK, font, anchor="lm")
    ring = "" if heat_map.mark is None else " (ring)"
    peak, low_text, high_text = map(heat_map.words, (heat_map.anomaly_map.max(), *heat_map.scale))
    words = f"strongest place{ring}: {peak}{heat_map.note}"
    draw.text((unit, middle), words, _INK, font, anchor="lm")

    bar = _bar(width // 4, unit)
    right = width - unit
    bar_right = right - round(draw.textlength(high_text, font)) - unit // 2
    bar_left, bar_top = bar_right - bar.width, middle - unit // 2
    draw.text((right, middle), high_text, _INK, font, anchor="rm")
    draw.text((bar_left - unit // 2, middle), low_text, _INK, font, anchor="rm")
    canvas.paste(bar, (bar_left, bar_top))
    frame = (bar_left, bar_top, bar_right, bar_top + unit - 1)
    draw.rectangle(frame, outline=(150, 150, 150))
    return canvas


def _bar(width: int, height: int) -> Image.Image:
    colours, opacity = palette()
    level = np.linspace(0, 255, width).astype(int)
    cover = (opacity[level] / 255)[:, None]
    row = colours[level] * cover + np.array(_PAPER) * (1 - cover)
    return Image.fromarray(np.repeat(row[None].astype(np.uint8), height, axis=0))


THUMBNAIL_BYTES = 8_000
"""Bytes of a JPEG; with its map and contours an image then takes about 15 kB of the report."""
THUMBNAIL_PIXELS = 320 * 240
THUMBNAIL_SIDE = 640
MAP_SIDE = 40
"""Cells along a side of the map; larger maps are reduced, each cell to its highest value."""
JPEG_QUALITIES = (75, 62, 48, 34)


def thumbnail(picture: Image.Image) -> str:
    """A small JPEG, as base64; never larger than the picture."""
    width, height = picture.size
    scale = min(
        (THUMBNAIL_PIXELS / (width * height)) ** 0.5, THUMBNAIL_SIDE / max(width, height), 1.0
    )
    while True:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        small = picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
        for quality in JPEG_QUALITIES:
            jpeg = _compressed(small, "JPEG", quality=quality)
            if len(jpeg) <= THUMBNAIL_BYTES:
                return base64.b64encode(jpeg).decode()
        scale *= 0.75


def map_overlay(anomaly_map: NDArray[np.float32], scale: tuple[float, float]) -> str:
    """The map in the colours of the heat maps, as a PNG with transparency that browsers enlarge."""
    low, high = scale
    cells = _reduced(np.nan_to_num(anomaly_map.astype(np.float64)))
    level = np.clip((cells - low) * 255 / (high - low), 0, 255).astype(int)
    colours, opacity = palette()
    pixels = np.concatenate([colours[level], opacity[level][..., None]], axis=-1).astype(np.uint8)
    return base64.b64encode(_compressed(Image.fromarray(pixels), "PNG")).decode()


def _compressed(picture: Image.Image, kind: str, **options: int) -> bytes:
    file = io.BytesIO()
    picture.save(file, format=kind, optimize=True, **options)
    return file.getvalue()


def _reduced(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    for axis in (0, 1):
        count = cells.shape[axis]
        if count > MAP_SIDE:
            starts = np.arange(MAP_SIDE) * count // MAP_SIDE
            cells = np.maximum.reduceat(cells, starts, axis=axis)
    return cells
