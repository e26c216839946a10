"""Small pictures for the report: an image in a few kilobytes, and its map to lay over it."""

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..results.heatmap import palette

LARGEST = 8_000
"""Bytes of a JPEG; with its map and contours an image then takes about 15 kB of the report."""
PIXELS = 320 * 240
LONGEST = 640
MAP_SIDE = 40
"""Cells along a side of the map; larger maps are reduced, each cell to its highest value."""
QUALITIES = (75, 62, 48, 34)


def thumbnail(picture: Image.Image) -> str:
    """A small JPEG, as base64; never larger than the picture."""
    width, height = picture.size
    scale = min((PIXELS / (width * height)) ** 0.5, LONGEST / max(width, height), 1.0)
    while True:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        small = picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
        for quality in QUALITIES:
            file = io.BytesIO()
            small.save(file, format="JPEG", quality=quality, optimize=True)
            if len(file.getvalue()) <= LARGEST:
                return base64.b64encode(file.getvalue()).decode()
        scale *= 0.75


def map_overlay(anomaly_map: NDArray[np.float32], scale: tuple[float, float]) -> str:
    """The map in the colours of the heat maps, as a PNG with transparency that browsers enlarge."""
    low, high = scale
    cells = _reduced(np.nan_to_num(anomaly_map.astype(np.float64)))
    level = np.clip((cells - low) * 255 / (high - low), 0, 255).astype(int)
    colours, opacity = palette()
    pixels = np.concatenate([colours[level], opacity[level][..., None]], axis=-1).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def _reduced(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    for axis in (0, 1):
        count = cells.shape[axis]
        if count > MAP_SIDE:
            starts = np.arange(MAP_SIDE) * count // MAP_SIDE
            cells = np.maximum.reduceat(cells, starts, axis=axis)
    return cells
