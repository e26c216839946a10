"""Support images turned about their centre, for methods that remember several orientations."""

import math

import numpy as np
from PIL import Image

from ..errors import UsageError
from ..images import LoadedImage

ROTATIONS = (1, 8)
"""As it is, or in steps of 45 degrees."""


def check_rotations(rotations: int) -> None:
    """Refuses any other number of orientations."""
    if rotations not in ROTATIONS:
        raise UsageError(f"The number of rotations is 1 or 8, not {rotations}.")


def turned(image: LoadedImage, rotations: int) -> list[LoadedImage]:
    """The image in that many orientations, itself first; all of its size, corners mirrored."""
    return [turn(image, 360 * place / rotations) for place in range(rotations)]


def turn(image: LoadedImage, angle: float) -> LoadedImage:
    """The image turned by so many degrees; an image that is not turned is itself."""
    return LoadedImage(image.name, _turn(image.pixels, angle)) if angle else image


def _turn(pixels: Image.Image, angle: float) -> Image.Image:
    width, height = pixels.size
    radius = math.hypot(width, height) / 2
    across, down = math.ceil(radius - width / 2), math.ceil(radius - height / 2)
    values = np.asarray(pixels)
    margins = ((down, down), (across, across), (0, 0))[: values.ndim]
    mirrored = Image.fromarray(np.pad(values, margins, mode="reflect"))
    whole = mirrored.rotate(angle, Image.Resampling.BICUBIC)
    return whole.crop((across, down, across + width, down + height))
