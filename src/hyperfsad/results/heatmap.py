"""Pictures: the heat map over the image, on one fixed scale, so that good parts look calm."""

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ..disk.atomic import atomic_path
from ..errors import UsageError
from .result import AnomalyResult

# From pale yellow to dark red, ever darker: legible for the colour-blind and in grey.
_COLOURS = ((255, 225, 90), (254, 180, 60), (244, 90, 40), (190, 10, 40), (95, 0, 45))
_OPACITY = 0.85
_MIN_WIDTH = 480
_EDGE = (0, 150, 200)
_INK, _PAPER = (30, 30, 30), (255, 255, 255)


def draw_heatmap(image: Image.Image, result: AnomalyResult) -> Image.Image:
    """The map and the regions over the image, with a legend below.

    The picture has the image's own size, or is a reduced one of a large image.
    """
    picture = overlay(image, result.anomaly_map, result.scale)
    return _with_legend(_outlined(picture, result), result)


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


def _outlined(picture: Image.Image, result: AnomalyResult) -> Image.Image:
    """Each region's outline, light on dark, so that it shows on any picture."""
    draw = ImageDraw.Draw(picture)
    line = max(1, round(min(picture.size) / 400))
    for edge in _edges(result.inside, picture.size):
        draw.line(edge, fill=_EDGE, width=line)
    across, down = (shown / own for shown, own in zip(picture.size, result.size, strict=True))
    for region in result.regions:
        corners = [(x * across, y * down) for x, y in region.polygon]
        outline = [*corners, *corners[:2]]  # once around, and over the first corner
        draw.line(outline, fill=_INK, width=3 * line, joint="curve")
        draw.line(outline, fill=_PAPER, width=line, joint="curve")
    return picture


def _edges(
    inside: NDArray[np.bool_] | None, size: tuple[int, int]
) -> list[tuple[float, float, float, float]]:
    """The outline of the region of interest, a line for each side of a patch."""
    if inside is None:
        return []
    rows, columns = inside.shape
    across, down = size[0] / columns, size[1] / rows
    padded = np.pad(inside, 1)
    lines = []
    for row, column in np.argwhere(padded[:-1, 1:-1] != padded[1:, 1:-1]):
        if 0 < row < rows:
            lines.append((column * across, row * down, (column + 1) * across, row * down))
    for row, column in np.argwhere(padded[1:-1, :-1] != padded[1:-1, 1:]):
        if 0 < column < columns:
            lines.append((column * across, row * down, column * across, (row + 1) * down))
    return lines


def save_picture(picture: Image.Image, path: Path) -> None:
    """Writes a picture at once or not at all."""
    options = {"quality": 92, "subsampling": 0} if path.suffix.lower() in (".jpg", ".jpeg") else {}
    kind = Image.registered_extensions().get(path.suffix.lower())
    if kind is None:
        raise UsageError(f"{path.name}: a picture's name ends with .jpg or .png.")
    with atomic_path(path) as temporary:
        picture.save(temporary, format=kind, **options)


@lru_cache(maxsize=1)
def palette() -> "tuple[np.ndarray, np.ndarray]":
    """Colour (256, 3) and opacity (256) of each of the 256 levels; level 0 cannot be seen."""
    place = np.linspace(0, 1, 256)
    stops = np.linspace(0, 1, len(_COLOURS))
    colours = np.stack(
        [np.interp(place, stops, [c[channel] for c in _COLOURS]) for channel in range(3)], axis=1
    )
    opacity = 255 * _OPACITY * np.sqrt(place)
    return np.rint(colours).astype(int), np.rint(opacity).astype(int)


def _with_legend(picture: Image.Image, result: AnomalyResult) -> Image.Image:
    width = max(picture.width, _MIN_WIDTH)
    unit = max(12, round(min(width, 2 * picture.height) / 45))
    band = 4 * unit
    canvas = Image.new("RGB", (width, picture.height + band), _PAPER)
    canvas.paste(picture, ((width - picture.width) // 2, 0))
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size=unit)
    first, middle = picture.height + round(1.2 * unit), picture.height + round(2.8 * unit)
    draw.text((unit, first), result.verdict, _INK, font, anchor="lm")
    stranger = ", fits no product" if result.unknown_product else ""
    words = f"map up to {result.anomaly_map.max():.2f}{stranger}"
    draw.text((unit, middle), words, _INK, font, anchor="lm")

    low, high = result.scale
    bar_width, bar_height = width // 4, unit
    right = width - unit
    high_text, low_text = f"{high:.2f}", f"map {low:.2f}"
    bar_right = right - round(draw.textlength(high_text, font)) - unit // 2
    bar_left = bar_right - bar_width
    draw.text((right, middle), high_text, _INK, font, anchor="rm")
    draw.text((bar_left - unit // 2, middle), low_text, _INK, font, anchor="rm")
    canvas.paste(_bar(bar_width, bar_height), (bar_left, middle - bar_height // 2))
    draw.rectangle(
        (bar_left, middle - bar_height // 2, bar_right, middle + bar_height - bar_height // 2 - 1),
        outline=(150, 150, 150),
    )
    return canvas


def _bar(width: int, height: int) -> Image.Image:
    colours, opacity = palette()
    level = np.linspace(0, 255, width).astype(int)
    cover = (opacity[level] / 255)[:, None]
    row = colours[level] * cover + np.array(_PAPER) * (1 - cover)
    return Image.fromarray(np.repeat(row[None].astype(np.uint8), height, axis=0))
