"""Where to inspect: everywhere, inside a mask or a polygon, or the part itself.

A mask or a polygon is the same place in all pictures. A mask is kept as the camera sees it, and
laid over each picture at the picture's own size. What lies outside becomes the encoder's mean
colour before anything else happens to the picture, so that no pixel there can change a token;
patches without any pixel inside are neither remembered nor compared.

The part itself is found in each picture from its tokens alone. Along the first principal axis of
the support's patch tokens, parts and what surrounds them lie apart; the edge of the picture says
which is which. Where the two do not separate, or the edge belongs to neither (textures, parts that
fill the picture), the whole picture is inspected.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..arrays import Array, like, to_numpy
from ..errors import ImageError, UsageError
from ..images.filters import closed, filled, pieces, softened, widened
from ..images.geometry import rotate, rotation_angle
from ..images.loading import LoadedImage
from ..messages import Notice
from ..method.memory import MemoryBank
from .masks import MAX_MASK_SIDE, RoiSource, check_mask, make_mask, same_shape

AUTO_ROI = "auto"
"""The part itself, found in each picture."""

FOREGROUND_IMAGES = 16
"""Entries of the memory bank that the axis is taken from."""

MIN_EDGE = 0.85
"""Share of the outermost patches of normal images that must not be the part. Measured with the
default encoder, 1 and 4 images: bottle, bracket and cookie have 0.91 to 1.00, tile 0.34 to 0.42,
chest X-ray 0.49 to 0.62."""

MIN_SEPARATION = 0.7
"""Share of the variance along the axis that the two sides must explain: there 0.71 to 0.88, tile
0.66 to 0.69."""

MIN_PART = 0.25
"""A picture with less of a part than this share of the normal ones is inspected as a whole: it
shows something else, or nothing."""

MIN_PIECE = 0.15
"""What is smaller than this share of the largest piece does not belong to the part."""


MIN_PATCHES = 4
"""Of a region: a lone one is like itself, and a threshold from that would be 0."""


class RegionOfInterest:
    """Everywhere; subclasses say where."""

    note: ClassVar[Notice | None] = None
    """What a user should know of it after learning."""
    share: float | None = None
    """Of the picture, where the region is the same in all pictures."""

    def visible(self, image: LoadedImage, mean: Sequence[float]) -> LoadedImage:
        """What the encoder may see of a picture; `mean` is its mean colour."""
        return image

    def learnt(self, bank: MemoryBank, grid: int) -> "RegionOfInterest":
        """The same, with what the normal images say of it."""
        return self

    def patches(self, layers: Sequence[Array], grid: int) -> Array | None:
        """The patches of an image that are compared, given its tokens, (N,); None means all."""
        return None

    def rows(self, bank: MemoryBank, grid: int) -> Array | None:
        """The rows of a memory bank that are used, (K·N,); None means all."""
        return None

    def described(self) -> Any:
        """What the header of a detector file says of it."""
        return None

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What a detector file keeps of it."""
        return {}


class Roi(RegionOfInterest):
    """A mask: the same place in all pictures, which have one shape."""

    def __init__(self, mask: NDArray[np.bool_], aspect: float) -> None:
        """`aspect` is width over height of the pictures."""
        self.mask, self.aspect, self.share = mask, aspect, float(mask.mean())
        self._grids: dict[tuple[int, float], NDArray[np.bool_]] = {}

    def visible(self, image: LoadedImage, mean: Sequence[float]) -> LoadedImage:
        width, height = image.size
        if not same_shape(width / height, self.aspect):
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

    def patches(self, layers: Sequence[Array], grid: int) -> Array:
        return like(self.touched(grid), layers[0])

    def rows(self, bank: MemoryBank, grid: int) -> Array:
        """Which rows of a memory bank show something of the region, (K·N,).

        A turned view shows what was inside before it was turned, and is compared only inside.
        """
        inside = np.empty((len(bank), grid * grid), dtype=np.bool_)
        for places in bank.entries:
            for view, place in enumerate(places):
                angle = rotation_angle(view, len(places))
                inside[place] = self.touched(grid) & self.touched(grid, angle)
        return like(inside.ravel(), bank.cls)

    def touched(self, grid: int, angle: float = 0.0) -> NDArray[np.bool_]:
        """The patches with a pixel of the region, perhaps of the region turned, (N,)."""
        if (grid, angle) not in self._grids:
            height = max(self.mask.shape[0], 2 * grid)
            size = (max(round(height * self.aspect), 2 * grid), height)
            shown = Image.fromarray(self.mask.astype(np.uint8) * 255)
            shown = shown.resize(size, Image.Resampling.NEAREST)
            values = np.asarray(rotate(LoadedImage("mask", shown), angle).pixels) > 127
            rows, columns = np.nonzero(values)
            found = np.zeros((grid, grid), dtype=np.bool_)
            found[rows * grid // size[1], columns * grid // size[0]] = True
            self._grids[grid, angle] = found.ravel()
        return self._grids[grid, angle]

    def described(self) -> dict[str, Any]:
        digest = sha256(self.tensors()["roi"].tobytes()).hexdigest()
        return {"aspect": self.aspect, "share": self.share, "sha256": digest}

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {"roi": self.mask.astype(np.uint8)}

    @classmethod
    def stored(cls, tensor: NDArray[Any], aspect: float) -> "Roi":
        """The region of a detector file, checked."""
        fits = tensor.ndim == 2 and tensor.dtype == np.uint8
        if not fits or not 1 <= max(tensor.shape) <= MAX_MASK_SIDE or not tensor.any():
            raise ValueError("its region of interest is not a mask")
        return cls(tensor > 0, aspect)


class PartRegion(RegionOfInterest):
    """The part, before it was searched for, or where it does not stand out: everywhere."""

    note: ClassVar[Notice | None] = Notice("part-not-found")

    def learnt(self, bank: MemoryBank, grid: int) -> RegionOfInterest:
        return find_foreground(bank, grid) or PartRegion()

    def described(self) -> str:
        return AUTO_ROI


@dataclass(frozen=True, eq=False)
class Foreground(PartRegion):
    """What tells the part from its surroundings.

    It restricts the patches of a query, never the memory: what is taken for the part by mistake
    then finds its like. (On cookie PRO is 0.1 and P-AP 4 points higher than with parts alone.)
    """

    note = None
    mean: NDArray[np.float32]
    axis: NDArray[np.float32]
    threshold: float
    usual: float
    """The part's share of a normal image."""

    def patches(self, layers: Sequence[Array], grid: int) -> Array:
        along = _averaged((to_numpy(layers[-1]) - self.mean) @ self.axis, grid)
        found = np.stack([_whole(image > self.threshold) for image in along])
        found[found.mean(axis=(1, 2)) < MIN_PART * self.usual] = True
        return like(found.ravel(), layers[-1])


def find_foreground(bank: MemoryBank, grid: int) -> Foreground | None:
    """What tells parts from their surroundings in these normal images; None where nothing does."""
    tokens = to_numpy(bank.first(FOREGROUND_IMAGES).patches[-1])
    mean = tokens.mean(axis=0)
    centred = (tokens - mean).astype(np.float64)
    axis = np.linalg.eigh(centred.T @ centred).eigenvectors[:, -1]
    along = _averaged(centred @ axis, grid)
    edge = np.ones((grid, grid), dtype=bool)
    edge[1:-1, 1:-1] = False
    at_edge = along[:, edge]
    if at_edge.mean() > 0:
        axis, along, at_edge = -axis, -along, -at_edge
    threshold, apart = otsu(along.flatten())
    if apart < MIN_SEPARATION or (at_edge <= threshold).mean() < MIN_EDGE:
        return None
    axis = axis.astype(tokens.dtype)
    found = Foreground(mean, axis, threshold, 0.0)
    usual = float(found.patches((tokens,), grid).mean())
    return Foreground(mean, axis, threshold, usual)


def _averaged(along: NDArray[np.floating[Any]], grid: int) -> NDArray[np.float64]:
    """Places along the axis, each averaged with its neighbours: single patches stray."""
    return softened(along.astype(np.float64).reshape(-1, grid, grid))


def otsu(values: NDArray[np.float64]) -> tuple[float, float]:
    """The best threshold (Otsu, 1979), and the share of the variance that it explains."""
    ordered = np.sort(values)
    count = len(ordered)
    below = np.arange(1, count)
    sums = np.cumsum(ordered)
    low, high = sums[:-1] / below, (sums[-1] - sums[:-1]) / (count - below)
    between = below * (count - below) / count**2 * (high - low) ** 2
    best = int(between.argmax())
    variance = float(values.var())
    share = float(between[best]) / variance if variance > 0 else 0.0
    return float(ordered[best] + ordered[best + 1]) / 2, share


def _whole(part: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Without specks and holes, and one patch wider: a defect may lie on the outline."""
    labels, count = pieces(part, corners=False)
    if count > 1:
        sizes = np.bincount(labels.ravel())[1:]
        part = np.isin(labels, 1 + np.nonzero(sizes >= MIN_PIECE * sizes.max())[0])
    return widened(filled(closed(np.pad(part, 1))))[1:-1, 1:-1]


def make_region(
    source: RoiSource | None, size: tuple[int, int] | None, grid: int
) -> RegionOfInterest:
    """What a user asked for: None, `auto`, a mask, or the corners of a polygon.

    A mask or a polygon is measured by the size of the first picture. Before that is known it is
    only checked, and nothing is hidden.
    """
    if isinstance(source, str) and source == AUTO_ROI:
        return PartRegion()
    if source is None or size is None:
        if source is not None:
            check_mask(source)
        return RegionOfInterest()
    roi = Roi(make_mask(source, size), size[0] / size[1])
    if (patches := int(roi.touched(grid).sum())) < MIN_PATCHES:
        raise UsageError("roi-too-small", patches=patches, grid=grid, needed=MIN_PATCHES)
    return roi
