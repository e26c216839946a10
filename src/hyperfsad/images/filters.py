"""Masks and maps as pictures: connected pieces, wider and closed shapes, soft edges.

The same values as scipy.ndimage gives, which is as large as all that we bring with us.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
Kind = TypeVar("Kind", np.float32, np.float64)


def pieces(mask: Mask, *, corners: bool = True) -> tuple[NDArray[np.intp], int]:
    """The connected pieces of a mask: of each pixel its number, from 1 in reading order or 0
    outside, and how many there are; `corners` connects pixels that touch there."""
    height, width = mask.shape
    stride, reach = width + 2, int(corners)
    steps = np.zeros((height, stride), dtype=np.int8)  # a run of pixels begins at 1, ends at −1
    steps[:, 0:width] = mask
    steps[:, 1 : width + 1] -= mask
    first, last = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    low = np.searchsorted(last, first + stride - reach, side="right")
    high = np.searchsorted(first, last + stride + reach, side="left")
    touching = np.maximum(high - low, 0)  # runs of the next row
    upper = np.repeat(np.arange(len(first)), touching)
    before = np.cumsum(touching) - touching
    lower = np.arange(len(upper)) + np.repeat(low - before, touching)
    roots = _joined(len(first), upper, lower)
    found, numbers = np.unique(roots, return_inverse=True)
    labels = np.zeros(mask.shape, dtype=np.intp)
    labels[mask] = np.repeat(numbers + 1, last - first)
    return labels, len(found)


def _joined(count: int, one: NDArray[np.intp], other: NDArray[np.intp]) -> NDArray[np.intp]:
    """The first member of each one's group, where pairs say who belong together."""
    roots = np.arange(count)
    while (apart := roots[one] != roots[other]).any():
        one, other = one[apart], other[apart]
        left, right = roots[one], roots[other]
        np.minimum.at(roots, np.maximum(left, right), np.minimum(left, right))
        while (further := roots[roots]).tobytes() != roots.tobytes():
            roots = further
    return roots


def widened(mask: Mask, times: int = 1, *, corners: bool = True) -> Mask:
    """A mask with the pixels that touch it, so many times."""
    for _ in range(times):
        around = np.pad(mask, 1)
        if corners:
            rows = around[:-2] | around[1:-1] | around[2:]
            mask = rows[:, :-2] | rows[:, 1:-1] | rows[:, 2:]
        else:
            beside = around[1:-1, :-2] | around[1:-1, 2:]
            mask = mask | beside | around[:-2, 1:-1] | around[2:, 1:-1]
    return mask


def narrowed(mask: Mask, times: int = 1, *, corners: bool = True) -> Mask:
    """A mask without the pixels that touch what lies outside it, or the picture's border."""
    height, width = mask.shape
    outside = widened(np.pad(~mask, times, constant_values=True), times, corners=corners)
    inside: Mask = ~outside[times : times + height, times : times + width]
    return inside


def opened(mask: Mask, times: int = 1, *, corners: bool = True) -> Mask:
    """A mask without what is too thin."""
    return widened(narrowed(mask, times, corners=corners), times, corners=corners)


def closed(mask: Mask, times: int = 1, *, corners: bool = True) -> Mask:
    """A mask with gaps that are thin; at the picture's border nothing is closed."""
    return narrowed(widened(mask, times, corners=corners), times, corners=corners)


def filled(mask: Mask) -> Mask:
    """A mask without holes."""
    labels, _ = pieces(~np.pad(mask, 1), corners=False)
    outside: Mask = labels == labels[0, 0]
    return ~outside[1:-1, 1:-1]


def blurred(values: NDArray[Kind], sigma: float) -> NDArray[Kind]:
    """A Gaussian of a deviation in pixels, mirrored at the border; 0 leaves it as it is."""
    if not sigma:
        return values
    places = np.arange(int(4 * sigma + 0.5) + 1)
    weights = np.exp(-0.5 / sigma**2 * places**2)
    weights /= np.concatenate([weights[:0:-1], weights]).sum()
    for axis in range(values.ndim):
        values = _weighted(values, weights, axis, "symmetric").astype(values.dtype)
    return values


def softened(maps: Floats) -> Floats:
    """Maps (n, rows, columns), each averaged with its neighbours: 1 2 1 along both axes. At the
    border the outermost values count again."""
    for axis in (1, 2):
        maps = _weighted(maps, np.array([0.5, 0.25]), axis, "edge")
    return maps


def _weighted(
    values: NDArray[np.float32] | Floats, weights: Floats, axis: int, mode: str
) -> Floats:
    """Σ_d weights[|d|]·v[i + d] along an axis."""
    reach, count = len(weights) - 1, values.shape[axis]
    margins = [(reach, reach) if each == axis else (0, 0) for each in range(values.ndim)]
    lines = np.moveaxis(np.pad(values, margins, mode=mode).astype(np.float64), axis, 0)  # type: ignore[call-overload]
    found = weights[0] * lines[reach : reach + count]
    for away in range(reach, 0, -1):
        before, after = lines[reach - away :][:count], lines[reach + away :][:count]
        found += weights[away] * (before + after)
    return np.moveaxis(found, 0, axis)
