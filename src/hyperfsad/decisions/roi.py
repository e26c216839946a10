"""A fixed region of interest. The rest is hidden from the encoder and never compared.

A mask is kept as the camera sees it, and laid over each picture at the picture's own size. What
lies outside becomes the encoder's mean colour before anything else happens to the picture, so
that no pixel there can change a token; patches without any pixel inside are neither remembered
nor asked about.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from ..errors import ImageError, UsageError, brief
from ..images.geometry import rotate, rotation_angle
from ..images.loading import (
    ImageSource,
    LoadedImage,
    array_of,
    is_tensor,
    load_image,
    opened_picture,
)
from ..method.memory import MemoryBank

Points: TypeAlias = Sequence[tuple[float, float]]

RoiSource: TypeAlias = ImageSource | Points
"""A mask (bright, or opaque in a cut-out: inspect), or the corners of a polygon in pixels of the
first normal image."""

MAX_MASK_SIDE = 1024
"""Pixels of a stored mask's longer side; several for each patch of any encoder."""

SHAPE_TOLERANCE = 0.05
"""By how much the shapes of a mask and of a picture may differ: thumbnails are rounded."""

MIN_PATCHES = 4
"""Of a region: a lone one is like itself, and a threshold from that would be 0."""

_POINT = r"-?\d+(?:\.\d+)?,-?\d+(?:\.\d+)?"


class Roi:
    """A fixed region in pictures of one shape."""

    def __init__(self, mask: NDArray[np.bool_], aspect: float) -> None:
        """`aspect` is width over height of the pictures."""
        self.mask = mask
        self.aspect = aspect
        self.share = float(mask.mean())
        self._grids: dict[tuple[int, float], Tensor] = {}

    def hide(self, image: LoadedImage, mean: Sequence[float]) -> LoadedImage:
        """The picture with the encoder's mean colour outside the region."""
        width, height = image.size
        if not _same_shape(width / height, self.aspect):
            raise ImageError(
                "roi-shape", image=image.name, width=width, height=height, aspect=self.aspect
            )
        mask = Image.fromarray(self.mask).resize(image.size, Image.Resampling.NEAREST)
        levels = [255 * value for value in mean]
        grey = image.pixels.mode == "F"
        colour = sum(levels) / len(levels) if grey else tuple(round(level) for level in levels)
        hidden = Image.new(image.pixels.mode, image.size, colour)
        hidden.paste(image.pixels, (0, 0), mask)
        return LoadedImage(image.name, hidden)

    def rows(self, bank: MemoryBank, grid: int) -> Tensor:
        """Which rows of a memory bank show something of the region, (K·N,).

        A turned view shows what was inside before it was turned, and is compared only inside.
        """
        turns = [len(places) for places in bank.entries]
        inside = torch.empty(len(bank), grid * grid, dtype=torch.bool)
        for places, count in zip(bank.entries, turns, strict=True):
            for view, place in enumerate(places):
                inside[place] = self.touched(grid) & self.touched(grid, rotation_angle(view, count))
        return inside.flatten().to(bank.cls.device)

    def touched(self, grid: int, angle: float = 0.0) -> Tensor:
        """The patches with a pixel of the region, perhaps of the region turned, (N,)."""
        if (grid, angle) not in self._grids:
            height = max(self.mask.shape[0], 2 * grid)
            size = (max(round(height * self.aspect), 2 * grid), height)
            shown = Image.fromarray(self.mask.astype(np.uint8) * 255)
            shown = shown.resize(size, Image.Resampling.NEAREST)
            values = np.asarray(rotate(LoadedImage("mask", shown), angle).pixels) > 127
            rows, columns = np.nonzero(values)
            found = torch.zeros(grid, grid, dtype=torch.bool)
            found[rows * grid // size[1], columns * grid // size[0]] = True
            self._grids[grid, angle] = found.flatten()
        return self._grids[grid, angle]

    def described(self) -> dict[str, Any]:
        """What a detector file says of it beside the mask itself."""
        digest = hashlib.sha256(self.mask.astype(np.uint8).tobytes()).hexdigest()
        return {"aspect": self.aspect, "share": self.share, "sha256": digest}

    def tensor(self) -> Tensor:
        """The mask as a detector file keeps it, uint8."""
        return torch.from_numpy(self.mask.astype(np.uint8))

    @classmethod
    def stored(cls, tensor: Tensor, described: dict[str, Any]) -> "Roi":
        """The region of a detector file, checked."""
        aspect = float(described["aspect"])
        fits = tensor.ndim == 2 and tensor.dtype == torch.uint8 and 0 < aspect < 1e4
        if not fits or not 1 <= max(tensor.shape) <= MAX_MASK_SIDE or not tensor.any():
            raise ValueError("its region of interest is not a mask")
        return cls(tensor.numpy() > 0, aspect)


def make_roi(source: RoiSource, size: tuple[int, int], grid: int) -> Roi:
    """The region that a mask or a polygon describes, for pictures of the first one's size."""
    points = parse_polygon(source)
    roi = _from_mask(source, size) if points is None else _from_polygon(points, size)  # type: ignore[arg-type]
    patches = int(roi.touched(grid).sum())
    if patches < MIN_PATCHES:
        raise UsageError("roi-too-small", patches=patches, grid=grid, needed=MIN_PATCHES)
    return roi


def parse_polygon(source: object) -> list[tuple[float, float]] | None:
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


def check_region(source: RoiSource) -> None:
    """Refuses what is neither a polygon nor a mask, before any picture is read."""
    if parse_polygon(source) is None:
        _read_mask(source)  # type: ignore[arg-type]


def _read_mask(source: ImageSource) -> tuple[LoadedImage, NDArray[np.uint8] | None]:
    """A mask as a picture, and how opaque it is where it hides something."""
    if isinstance(source, str) and not os.path.lexists(source):
        raise UsageError("roi-unknown", given=source)
    try:
        if is_tensor(source):
            source = array_of(source)
        if isinstance(source, np.ndarray) and source.dtype == np.bool_:
            source = source.astype(np.uint8) * np.uint8(255)
        loaded = load_image(source, None if isinstance(source, str | os.PathLike) else "mask")
        return loaded, _opacity(source)
    except ImageError as error:
        raise UsageError("roi-mask-unusable", error=error) from error


def _from_mask(source: ImageSource, size: tuple[int, int]) -> Roi:
    loaded, values = _read_mask(source)
    width, height = loaded.size
    if not _same_shape(width / height, size[0] / size[1]):
        raise UsageError(
            "roi-mask-shape", mask=loaded.name, size=f"{width}×{height}", of=f"{size[0]}×{size[1]}"
        )
    if values is None:
        values = np.asarray(loaded.rgb().convert("L"))
    if not values.any():
        raise UsageError("roi-mask-empty", mask=loaded.name)
    return Roi(_bounded(values > values.max() / 2), size[0] / size[1])


def _opacity(source: ImageSource) -> NDArray[np.uint8] | None:
    """Of a cut-out, how opaque each pixel is; None for a picture that hides nothing.

    The source was read before, so it is a picture of a size that can be read.
    """
    if isinstance(source, np.ndarray):
        if source.ndim != 3 or source.shape[2] != 4:
            return None
        opaque = np.iinfo(source.dtype).max if source.dtype.kind == "u" else 1.0
        values = np.rint(255 * (source[..., 3] / opaque)).astype(np.uint8)
    elif isinstance(source, Image.Image):
        if not source.has_transparency_data:
            return None
        values = np.asarray(ImageOps.exif_transpose(source).convert("RGBA").getchannel("A"))
    else:
        path = os.fspath(source)  # type: ignore[arg-type]
        with opened_picture(path, path) as file:
            return _opacity(file)
    return values if values.min() < 255 else None


def _from_polygon(points: list[tuple[float, float]], size: tuple[int, int]) -> Roi:
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
    return Roi(mask, width / height)


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


def _same_shape(one: float, other: float) -> bool:
    return max(one / other, other / one) <= 1 + SHAPE_TOLERANCE
