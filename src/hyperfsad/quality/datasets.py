"""What a data set is made of: categories, each with normal images, test images and masks."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps

from ..errors import UsageError
from ..images.loading import opened_picture

_T = TypeVar("_T")
_ASPECT_TOLERANCE = 0.01
_SIDEWAYS = (5, 6, 7, 8)  # the EXIF orientations that swap width and height


@dataclass(frozen=True)
class TestImage:
    """One image to be judged, and the truth about it."""

    __test__ = False  # or pytest would take it for a class of tests

    path: str
    anomalous: bool
    defect: str
    mask: str | None


@dataclass(frozen=True)
class Category:
    """One kind of object: its normal images, from which support is drawn, and its test images."""

    dataset: str
    name: str
    normal: tuple[str, ...]
    test: tuple[TestImage, ...]
    root: str = ""
    """The folder of the data set."""

    def name_of(self, path: str) -> str:
        """The path of an image relative to the data set, with forward slashes."""
        return os.path.relpath(path, self.root or os.curdir).replace(os.sep, "/")

    @property
    def has_masks(self) -> bool:
        """Whether there are anomalous test images, and each of them has a mask."""
        masks = [image.mask for image in self.test if image.anomalous]
        return bool(masks) and None not in masks


def load_mask(image: TestImage, size: int) -> NDArray[np.bool_]:
    """Where the defect is, (size, size), resized nearest; all False for a good image."""
    if not image.anomalous:
        return np.zeros((size, size), dtype=np.bool_)
    if image.mask is None:
        raise UsageError(f"{image.path} is anomalous and has no mask, so no pixels can be judged.")
    width, height = _reading(image.path, _upright_size)
    defect = _reading(image.mask, _nonzero)
    mask_height, mask_width = defect.shape
    aspect = (mask_width * height) / (mask_height * width)
    if max(aspect, 1 / aspect) > 1 + _ASPECT_TOLERANCE:
        raise UsageError(
            f"The mask {image.mask} is {mask_width}×{mask_height} and its image {image.path} is"
            f" {width}×{height}; a mask has the shape of its image."
        )
    resized = Image.fromarray(defect).resize((size, size), Image.Resampling.NEAREST)
    return np.array(resized, dtype=np.bool_)


def _reading(path: str, read: Callable[[Image.Image], _T]) -> _T:
    with opened_picture(path, path) as image:
        return read(image)


def _upright_size(image: Image.Image) -> tuple[int, int]:
    width, height = image.size
    # A PNG is decoded to the end for its orientation; most sets are square and need none.
    if width != height and image.getexif().get(ExifTags.Base.Orientation) in _SIDEWAYS:
        return height, width
    return width, height


def _nonzero(mask: Image.Image) -> NDArray[np.bool_]:
    upright = ImageOps.exif_transpose(mask)
    if upright.mode in ("1", "L", "F") or upright.mode.startswith("I"):
        return np.asarray(np.asarray(upright) != 0)
    # What can be seen on black counts: an opaque alpha channel alone is no defect.
    values = np.asarray(upright.convert("RGBA"))
    return np.asarray(values[:, :, :3].any(axis=2) & (values[:, :, 3] > 0))
