"""Where the part is in a picture, from its colours alone: good enough to place a defect on it."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from ...decisions.region_of_interest import otsu

Pixels: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]

SIDE = 512
"""Pixels along the longer side of the reduced picture that is looked at."""

BORDER = 0.04
"""Width of the picture's border, over its shorter side: what a part lies on is looked for there."""

LEAST_PART, MOST_PART = 0.03, 0.9
"""Shares of the picture that a part may cover; otherwise all of it is the part."""

AT_BORDER = 0.5
"""What stands out covers less of the border than this part of its share of the picture; otherwise
it is the pattern of a texture, and all of the picture is the part."""


def find_part(image: Image.Image) -> tuple[Mask, int]:
    """What differs from the picture's border, in a reduced picture; and how often it was reduced.

    Everywhere, where nothing stands out.
    """
    factor = max(1, -(-max(image.size) // SIDE))
    away = _from_border(colours(image.reduce(factor) if factor > 1 else image))
    part: Mask = ndimage.binary_opening(
        away > otsu(away.ravel().astype(np.float64))[0], iterations=2
    )
    edge = np.concatenate([part[0], part[-1], part[:, 0], part[:, -1]])
    share = float(part.mean())
    if not LEAST_PART <= share <= MOST_PART or float(edge.mean()) > AT_BORDER * share:
        part = np.ones_like(part)
    return part, factor


def colours(image: Image.Image) -> Pixels:
    """The pixels of an RGB picture, from 0 to 1."""
    found: Pixels = np.asarray(image, dtype=np.float32) / np.float32(255)
    return found


def _from_border(pixels: Pixels) -> Pixels:
    """How far the colour of each pixel is from the usual one along the border."""
    width = max(1, round(BORDER * min(pixels.shape[:2])))
    frame = np.ones(pixels.shape[:2], dtype=bool)
    frame[width:-width, width:-width] = False
    away = np.linalg.norm(pixels - np.median(pixels[frame], axis=0), axis=2)
    smooth: Pixels = ndimage.gaussian_filter(away.astype(np.float32), 1.5)
    return smooth
