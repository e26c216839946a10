"""Good parts as another day would show them: light, shift, turn, noise, blur. Never defects."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from .loading import LoadedImage
from .rotation import shrunk, turn

LARGEST = 1024
"""Longest side that is perturbed: noise of single pixels means the same for every camera."""

LIGHT = 1.1
SHIFT = (0.015, 0.01)
"""Parts of the width and the height; borders are mirrored."""
ANGLE = 3.0
NOISE = 4.0
"""Standard deviation, of 255 grey levels."""
BLUR = 0.7
"""Radius in pixels of the perturbed picture."""

Pixels = NDArray[np.float32]


def perturbed(image: LoadedImage) -> list[LoadedImage]:
    """The same good part under each of five small perturbations; always the same ones."""
    small = shrunk(image, LARGEST)
    return [
        _each_pixel(small, lambda pixels: pixels * np.float32(LIGHT)),
        _each_pixel(small, _shifted),
        turn(small, ANGLE),
        _each_pixel(small, _noisy),
        LoadedImage(image.name, _blurred(small.pixels)),
    ]


def _each_pixel(image: LoadedImage, perturb: Callable[[Pixels], Pixels]) -> LoadedImage:
    pixels = np.clip(perturb(np.asarray(image.pixels, dtype=np.float32)), 0, 255)
    if image.pixels.mode == "RGB":
        return LoadedImage(image.name, Image.fromarray(np.rint(pixels).astype(np.uint8)))
    return LoadedImage(image.name, Image.fromarray(pixels))


def _shifted(pixels: Pixels) -> Pixels:
    height, width = pixels.shape[:2]
    across, down = round(SHIFT[0] * width), round(SHIFT[1] * height)
    margins = ((0, down), (0, across), (0, 0))[: pixels.ndim]
    return np.pad(pixels, margins, mode="reflect")[down:, across:]


def _noisy(pixels: Pixels) -> Pixels:
    """As of a sensor, each colour on its own; the same for every picture of a size.

    What is overexposed, or black, has no noise: a white backdrop stays white.
    """
    noise = np.random.default_rng(0).normal(0, NOISE, pixels.shape).astype(np.float32)
    return pixels + noise * ((pixels > 0) & (pixels < 255))


def _blurred(pixels: Image.Image) -> Image.Image:
    if pixels.mode == "RGB":
        return pixels.filter(ImageFilter.GaussianBlur(BLUR))
    from scipy.ndimage import gaussian_filter

    return Image.fromarray(gaussian_filter(np.asarray(pixels), BLUR))
