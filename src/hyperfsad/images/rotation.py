"""Support images turned about their centre, for parts that lie at any angle."""

import math

import numpy as np
from PIL import Image

from .loading import LoadedImage


def turned(image: LoadedImage, rotations: int, longest: int | None = None) -> list[LoadedImage]:
    """The image in that many orientations, itself first; all of its shape, corners mirrored.

    `longest` bounds the sides of the turned ones: turning all pixels of a large image would take
    longer than encoding it.
    """
    if rotations == 1:
        return [image]
    small = image if longest is None else shrunk(image, longest)
    angles = [angle_of(place, rotations) for place in range(1, rotations)]
    return [image, *(turn(small, angle) for angle in angles)]


def angle_of(place: int, rotations: int) -> float:
    """Degrees, against the clock, by which the view at a place is turned."""
    return 360 * place / rotations


def turn(image: LoadedImage, angle: float) -> LoadedImage:
    """The image turned by so many degrees; an image that is not turned is itself."""
    if not angle:
        return image
    width, height = image.size
    radius = math.hypot(width, height) / 2
    across, down = math.ceil(radius - width / 2), math.ceil(radius - height / 2)
    values = np.asarray(image.pixels)
    margins = ((down, down), (across, across), (0, 0))[: values.ndim]
    mirrored = Image.fromarray(np.pad(values, margins, mode="reflect"))
    whole = mirrored.rotate(angle, Image.Resampling.BICUBIC)
    return LoadedImage(image.name, whole.crop((across, down, across + width, down + height)))


def turned_back(x: float, y: float, angle: float, size: tuple[int, int]) -> tuple[float, float]:
    """Where a place of a turned image lies in the image itself, both as parts of width and height.

    A place in a mirrored corner goes to what is mirrored there.
    """
    width, height = size
    across, down = (x - 0.5) * width, (y - 0.5) * height
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return (
        _folded(0.5 + (across * cos - down * sin) / width),
        _folded(0.5 + (across * sin + down * cos) / height),
    )


def _folded(part: float) -> float:
    """Back into 0 to 1, mirrored at both ends."""
    part = math.fmod(abs(part), 2)
    return min(part, 2 - part)


def shrunk(image: LoadedImage, longest: int) -> LoadedImage:
    width, height = image.size
    scale = longest / max(width, height)
    if scale >= 1:
        return image
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return LoadedImage(image.name, image.pixels.resize(size, Image.Resampling.BICUBIC))
