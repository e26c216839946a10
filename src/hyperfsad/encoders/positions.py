"""Where a patch is: tables of positions at another resolution, and DINOv3's angles.

The tables are resized as `transformers` does it: bicubic, pixel centres at half, which torch rounds
to float32. The angles are those of its DINOv3. Both depend on the size of the picture alone, so in
a graph they are constants.
"""

import math

import numpy as np
from numpy.typing import NDArray


def resized(table: NDArray[np.float32], side: int, antialias: bool = False) -> NDArray[np.float32]:
    """A table of (patches of a square, D), row by row, for a square of side × side patches."""
    trained = math.isqrt(len(table))
    if trained**2 != len(table):
        raise ValueError(f"a table of {len(table)} positions is no square")
    if trained == side:
        return table
    weights = (_smoothed_weights if antialias else _cubic_weights)(trained, side)
    grid = table.reshape(trained, trained, -1).astype(np.float64)
    found: NDArray[np.float64] = np.einsum("ir,jc,rcd->ijd", weights, weights, grid, optimize=True)
    return found.reshape(side * side, -1).astype(np.float32)


def _cubic(distance: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
    """The cubic convolution kernel (Keys, 1981) at some distances."""
    x = np.abs(distance)
    near = (slope + 2) * x**3 - (slope + 3) * x**2 + 1
    far = slope * (x**3 - 5 * x**2 + 8 * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _centres(trained: int, side: int) -> NDArray[np.float32]:
    """The middle of each of `side` places on a scale of `trained` ones."""
    middles = np.arange(side, dtype=np.float32) + np.float32(0.5)
    found: NDArray[np.float32] = middles * np.float32(trained / side)
    return found


def _cubic_weights(trained: int, side: int) -> NDArray[np.float64]:
    """What each of `side` places takes from each of `trained` ones; beyond the edge it repeats."""
    centres = _centres(trained, side) - np.float32(0.5)
    weights = np.zeros((side, trained))
    for step in range(-1, 3):
        place = np.floor(centres).astype(int) + step
        amount = _cubic(centres.astype(np.float64) - place, -0.75)
        np.add.at(weights, (np.arange(side), place.clip(0, trained - 1)), amount)
    return weights


def _smoothed_weights(trained: int, side: int) -> NDArray[np.float64]:
    """The same with the kernel as wide as a place; beyond the edge there is nothing."""
    width = max(trained / side, 1.0)
    centres = _centres(trained, side).astype(np.float64)[:, None]
    places = np.arange(trained)[None]
    first = np.maximum((centres - 2 * width + 0.5).astype(int), 0)
    last = np.minimum((centres + 2 * width + 0.5).astype(int), trained)
    weights = _cubic((places - centres + 0.5) / width, -0.5)
    weights = np.where((places >= first) & (places < last), weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def rotary(
    side: int, head_width: int, theta: float, prefix: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cosine and sine, each (prefix + patches, head_width), by which DINOv3 turns queries and keys.

    The tokens before the patches have no place and are not turned.
    """
    centres = (np.arange(side) + 0.5) / side * 2 - 1
    rows, columns = np.meshgrid(centres, centres, indexing="ij")
    places = np.stack([rows, columns], axis=-1).reshape(-1, 2, 1)
    frequencies = theta ** -(np.arange(head_width // 4) * 4 / head_width)
    angles = (2 * np.pi * places * frequencies).reshape(len(places), -1)
    angles = np.tile(angles, 2)
    none = np.zeros((prefix, head_width))
    angles = np.concatenate([none, angles])
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
