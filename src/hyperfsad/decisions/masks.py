"""Masks of a region of interest, drawn as a picture or as the corners of a polygon."""

import os
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ..errors import ImageError, UsageError, brief
from ..images.loading import (
    ImageSource,
    LoadedImage,
    array_of,
    is_tensor,
    load_image,
    opened_picture,
)

RoiSource: TypeAlias = ImageSource | Sequence[tuple[float, float]]
"""A mask (bright, or opaque in a cut-out: inspect), or the corners of a polygon in pixels of the
first normal image."""

MAX_MASK_SIDE = 1024
"""Pixels of a stored mask's longer side; several for each patch of any encoder."""

SHAPE_TOLERANCE = 0.05
"""By how much the shapes of a mask and of a picture may differ: thumbnails are rounded."""

_POINT = r"-?\d+(?:\.\d+)?,-?\d+(?:\.\d+)?"


def make_mask(source: RoiSource, size: tuple[int, int]) -> NDArray[np.bool_]:
    """What a mask or a polygon encloses in pictures of the first one's size."""
    points = _polygon(source)
    if points is None:
        return _from_mask(source, size)  # type: ignore[arg-type]
    return _from_polygon(points, size)


def check_mask(source: RoiSource) -> None:
    """Refuses what is neither a polygon nor a mask, before any picture is read."""
    if _polygon(source) is None:
        _read_mask(source)  # type: ignore[arg-type]


def _polygon(source: object) -> list[tuple[float, float]] | None:
    """The corners in a text such as "10,20 300,20 300,240", or in a sequence; None is a mask."""
    if isinstance(source, str):
        if not re.fullmatch(rf"\s*{_POINT}(\s+{_POINT})*\s*", source):
            return None
        pairs = [point.split(",") for point in source.split()]
        return [(float(x), float(y)) for x, y in pairs]
    if isinstance(source, os.PathLike | Image.Image | np.ndarray) or is_tensor(source):
        return None
    try:
        return [(float(x), float(y)) for x, y in source]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise UsageError("roi-invalid", given=brief(source)) from None


def _read_mask(source: ImageSource) -> tuple[LoadedImage, NDArray[Any]]:
    """A mask as a picture, and how bright it is, or how opaque where it hides something."""
    if isinstance(source, str) and not os.path.lexists(source):
        raise UsageError("roi-unknown", given=source)
    try:
        if is_tensor(source):
            source = array_of(source)
        if isinstance(source, np.ndarray) and source.dtype == np.bool_:
            source = source.astype(np.uint8) * np.uint8(255)
        loaded = load_image(source, None if isinstance(source, str | os.PathLike) else "mask")
        opacity = _opacity(source)
    except ImageError as error:
        raise UsageError("roi-mask-unusable", error=error) from error
    return loaded, np.asarray(loaded.rgb().convert("L")) if opacity is None else opacity


def _opacity(source: ImageSource) -> NDArray[Any] | None:
    """Of a cut-out, how opaque each pixel is; None for a picture that is so everywhere alike."""
    if isinstance(source, np.ndarray):
        found = source[..., 3] if source.ndim == 3 and source.shape[2] == 4 else None
    elif isinstance(source, Image.Image):
        cut = source.has_transparency_data
        upright = ImageOps.exif_transpose(source) if cut else source
        found = np.asarray(upright.convert("RGBA").getchannel("A")) if cut else None
    else:
        path = os.fspath(source)  # type: ignore[arg-type]
        with opened_picture(path, path) as file:
            return _opacity(file)
    return None if found is None or found.min() == found.max() > 0 else found


def _from_mask(source: ImageSource, size: tuple[int, int]) -> NDArray[np.bool_]:
    loaded, values = _read_mask(source)
    width, height = loaded.size
    if not same_shape(width / height, size[0] / size[1]):
        raise UsageError(
            "roi-mask-shape", mask=loaded.name, size=f"{width}×{height}", of=f"{size[0]}×{size[1]}"
        )
    if not values.any():
        raise UsageError("roi-mask-empty", mask=loaded.name)
    return _bounded(values > values.max() / 2)


def _from_polygon(points: list[tuple[float, float]], size: tuple[int, int]) -> NDArray[np.bool_]:
    width, height = size
    if len(set(points)) < 3:
        raise UsageError("roi-few-corners", given=len(set(points)))
    for x, y in points:
        if not (0 <= x <= width and 0 <= y <= height):
            raise UsageError("roi-corner-outside", x=x, y=y, width=width, height=height)
    scale = min(1.0, MAX_MASK_SIDE / max(size))
    shown = (max(1, round(width * scale)), max(1, round(height * scale)))
    corners = np.array(points) * (shown[0] / width, shown[1] / height)
    mask = _filled(corners, shown)
    if not mask.any():
        raise UsageError("roi-encloses-nothing")
    return mask


def _filled(corners: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.bool_]:
    """The pixels whose centres lie inside a polygon: an odd number of its sides to their right."""
    x, y = np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5
    inside = np.zeros((size[1], size[0]), dtype=np.bool_)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        crossed = (y0 <= y) != (y1 <= y)
        at = x0 + (y[crossed] - y0) * (x1 - x0) / (y1 - y0)
        inside[crossed] ^= x < at[:, None]
    return inside


def _bounded(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """At most MAX_MASK_SIDE pixels a side; nothing inside is lost, however thin."""
    height, width = mask.shape
    scale = MAX_MASK_SIDE / max(height, width)
    if scale >= 1:
        return mask
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    part = Image.fromarray(mask.astype(np.float32)).resize(size, Image.Resampling.BOX)
    return np.asarray(part) > 1e-6


def same_shape(one: float, other: float) -> bool:
    """Whether two ratios of width and height are those of the same pictures."""
    return max(one / other, other / one) <= 1 + SHAPE_TOLERANCE
