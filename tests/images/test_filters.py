"""Masks and maps, against scipy."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from hyperfsad.images.filters import (
    blurred,
    closed,
    filled,
    narrowed,
    opened,
    pieces,
    softened,
    widened,
)

BOX = np.ones((3, 3), dtype=bool)
CROSS = ndimage.generate_binary_structure(2, 1)


def _masks() -> list[NDArray[np.bool_]]:
    random = np.random.default_rng(0)
    noise = [
        random.random((rows, columns)) < share
        for rows, columns in ((1, 1), (1, 9), (9, 1), (7, 12), (64, 64), (60, 41))
        for share in (0.0, 0.2, 0.5, 0.6, 0.8, 1.0)
    ]
    spiral = np.zeros((41, 41), dtype=bool)
    row, column, down, across, length = 20, 20, 0, 1, 2
    while length < 40:
        for _ in range(2):
            for _ in range(length):
                spiral[row, column] = True
                row, column = row + down, column + across
            down, across = across, -down
        length += 2
    return [*noise, spiral, ~spiral]


@pytest.mark.parametrize("mask", _masks())
@pytest.mark.parametrize("corners", [True, False])
def test_masks_are_those_of_scipy(mask: NDArray[np.bool_], corners: bool) -> None:
    around = BOX if corners else CROSS
    labels, count = ndimage.label(mask, around)
    own, own_count = pieces(mask, corners=corners)
    assert own_count == count
    assert np.array_equal(own, labels)
    assert np.array_equal(filled(mask), ndimage.binary_fill_holes(mask))
    for times in (1, 2):
        for ours, theirs in (
            (widened, ndimage.binary_dilation),
            (narrowed, ndimage.binary_erosion),
            (opened, ndimage.binary_opening),
            (closed, ndimage.binary_closing),
        ):
            expected = theirs(mask, around, iterations=times)
            assert np.array_equal(ours(mask, times, corners=corners), expected)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("shape", [(64, 50), (5, 3), (1, 1)])
def test_a_blur_is_that_of_scipy(sigma: float, shape: tuple[int, int], kind: type) -> None:
    values: NDArray[Any] = np.random.default_rng(1).random(shape).astype(kind)
    found = blurred(values, sigma)
    assert found.dtype == kind
    assert np.array_equal(found, ndimage.gaussian_filter(values, sigma))


def test_softened_maps_are_those_of_scipy() -> None:
    maps = np.random.default_rng(2).standard_normal((3, 9, 7))
    expected = maps
    for axis in (1, 2):
        expected = ndimage.convolve1d(expected, np.array([1, 2, 1]) / 4, axis, mode="nearest")
    assert np.array_equal(softened(maps), expected)
