"""A grid of patches over an image: from patches to pixels and back."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
