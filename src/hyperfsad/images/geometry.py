"""Where patches lie on an image, and images rotated about their centre."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .loading import LoadedImage


@dataclass(frozen=True)
class PatchGrid:
    """Rows and columns of patches over an image of a size (width, height)."""

    rows: int
    columns: int
    size: tuple[int, int]

    @classmethod
    def of(cls, anomaly_map: NDArray[np.float32], size: tuple[int, int]) -> "PatchGrid":
        """The grid of a map over its image."""
        rows, columns = anomaly_map.shape
        return cls(rows, columns, size)

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """Row and column of the patch at a pixel."""
        width, height = self.size
        row, column = int(y * self.rows / height), int(x * self.columns / width)
        return min(row, self.rows - 1), min(column, self.columns - 1)

    def centre(self, row: int, column: int) -> tuple[float, float]:
        """x and y of a patch's centre, in pixels."""
        width, height = self.size
        return (column + 0.5) * width / self.columns, (row + 0.5) * height / self.rows

    def box(self, row: int, column: int) -> tuple[float, float, float, float]:
        """x, y, width and height of a patch, in pixels."""
        width, height = self.size
        left, upper = column * width / self.columns, row * height / self.rows
        return left, upper, width / self.columns, height / self.rows


def rotated_copies(
    image: LoadedImage, rotations: int, longest: int | None = None
) -> list[LoadedImage]:
    """The image in that many orientations, itself first; all of its shape, corners mirrored.

    `longest` limits the sides of the rotated ones: rotating all pixels of a large image would take
    longer than encoding it.
    """
    if rotations == 1:
        return [image]
    small, scale = image, min(1.0, (longest or math.inf) / max(image.size))
    if scale < 1:
        size = [max(1, round(side * scale)) for side in image.size]
        small = LoadedImage(image.name, image.pixels.resize(size, Image.Resampling.BICUBIC))
    angles = [rotation_angle(view, rotations) for view in range(1, rotations)]
    return [image, *(rotate(small, angle) for angle in angles)]


def rotation_angle(view: int, rotations: int) -> float:
    """Degrees, anticlockwise, by which a view is rotated."""
    return 360 * view / rotations


def rotate(image: LoadedImage, angle: float) -> LoadedImage:
    """The image rotated by an angle in degrees, its corners mirrored."""
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


def rotate_back(x: float, y: float, angle: float, size: tuple[int, int]) -> tuple[float, float]:
    """Where a point of a rotated image lies in the image itself, both as parts of width and height.

    A point in a mirrored corner goes to what is mirrored there.
    """
    width, height = size
    across, down = (x - 0.5) * width, (y - 0.5) * height
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    turned = (across * cos - down * sin) / width, (across * sin + down * cos) / height
    x, y = (math.fmod(abs(0.5 + part), 2) for part in turned)
    return min(x, 2 - x), min(y, 2 - y)
