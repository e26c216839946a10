"""Where to inspect: everywhere, in a fixed region, or the part itself. One interface for all.

The part itself is found in each picture from its tokens alone. Along the first principal axis of
the support's patch tokens, parts and what surrounds them lie apart; the edge of the picture says
which is which. Where the two do not separate, or the edge belongs to neither (textures, parts that
fill the picture), there is no foreground, and the whole picture is inspected.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..images.loading import LoadedImage
from ..messages import Notice
from ..method.memory import MemoryBank
from .roi import Roi, RoiSource, check_region, make_roi

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


class RegionOfInterest:
    """Everywhere; subclasses say where."""

    roi: Roi | None = None
    """The region, where it is the same in all pictures and known by now."""

    @property
    def note(self) -> Notice | None:
        """What a user should know of it after learning."""
        return None

    def visible(self, image: LoadedImage, mean: Sequence[float], grid: int) -> LoadedImage:
        """What the encoder may see of a picture; `mean` is its mean colour."""
        return image

    def learnt(self, bank: MemoryBank, grid: int) -> "RegionOfInterest":
        """The same, with what the normal images say of it."""
        return self

    def patches(self, layers: Sequence[Tensor], grid: int) -> Tensor | None:
        """The patches of an image that are compared, given its tokens, (N,); None means all."""
        return None

    def rows(self, bank: MemoryBank, grid: int) -> Tensor | None:
        """The rows of a memory bank that are used, (K·N,); None means all."""
        return None

    def described(self) -> Any:
        """What the header of a detector file says of it."""
        return None

    def tensors(self) -> dict[str, Tensor]:
        """What a detector file keeps of it."""
        return {}


class FixedRegion(RegionOfInterest):
    """A mask or a polygon: the same place in all pictures, measured by the first one."""

    def __init__(self, source: RoiSource | Roi) -> None:
        self._source = source
        self.roi = source if isinstance(source, Roi) else None
        if not isinstance(source, Roi):
            check_region(source)

    def visible(self, image: LoadedImage, mean: Sequence[float], grid: int) -> LoadedImage:
        if self.roi is None:
            assert not isinstance(self._source, Roi)
            self.roi = make_roi(self._source, image.size, grid)
        return self.roi.hide(image, mean)

    def patches(self, layers: Sequence[Tensor], grid: int) -> Tensor | None:
        return None if self.roi is None else self.roi.touched(grid).to(layers[0].device)

    def rows(self, bank: MemoryBank, grid: int) -> Tensor | None:
        return None if self.roi is None else self.roi.rows(bank, grid)

    def described(self) -> Any:
        return None if self.roi is None else self.roi.described()

    def tensors(self) -> dict[str, Tensor]:
        return {} if self.roi is None else {"roi": self.roi.tensor()}


class PartRegion(RegionOfInterest):
    """The part, found in each picture from its tokens."""

    def __init__(self, foreground: "Foreground | None" = None) -> None:
        self._foreground = foreground

    @property
    def note(self) -> Notice | None:
        return Notice("part-not-found") if self._foreground is None else None

    def learnt(self, bank: MemoryBank, grid: int) -> RegionOfInterest:
        return PartRegion(find_foreground(bank, grid))

    def patches(self, layers: Sequence[Tensor], grid: int) -> Tensor | None:
        return None if self._foreground is None else self._foreground.patches(layers, grid)

    def described(self) -> Any:
        return AUTO_ROI


def make_region(source: "RoiSource | Roi | None") -> RegionOfInterest:
    """What a user asked for: None, `auto`, a mask, or the corners of a polygon."""
    if source is None:
        return RegionOfInterest()
    if isinstance(source, str) and source == AUTO_ROI:
        return PartRegion()
    return FixedRegion(source)


@dataclass(frozen=True, eq=False)
class Foreground:
    """What tells the part from its surroundings.

    It restricts the patches of a query, never the memory: what is taken for the part by mistake
    then finds its like. (On cookie PRO is 0.1 and P-AP 4 points higher than with parts alone.)
    """

    mean: Tensor
    axis: Tensor
    threshold: float
    usual: float
    """The part's share of a normal image."""

    def patches(self, layers: Sequence[Tensor], grid: int) -> Tensor:
        """Which patches of an image show the part, (N,)."""
        tokens = layers[-1]
        along = _averaged((tokens - self.mean) @ self.axis, grid)
        found = np.stack([_whole(image > self.threshold) for image in along])
        found[found.mean(axis=(1, 2)) < MIN_PART * self.usual] = True
        return torch.from_numpy(found.flatten()).to(tokens.device)


def find_foreground(bank: MemoryBank, grid: int) -> Foreground | None:
    """What tells parts from their surroundings in these normal images; None where nothing does."""
    tokens = bank.first(FOREGROUND_IMAGES).patches[-1]
    mean = tokens.mean(dim=0)
    centred = (tokens - mean).double()
    axis = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -1]
    along = _averaged(centred @ axis, grid)
    edge = np.ones((grid, grid), dtype=bool)
    edge[1:-1, 1:-1] = False
    at_edge = along[:, edge]
    if at_edge.mean() > 0:
        axis, along, at_edge = -axis, -along, -at_edge
    threshold, apart = otsu(along.flatten())
    if apart < MIN_SEPARATION or (at_edge <= threshold).mean() < MIN_EDGE:
        return None
    axis = axis.to(tokens.dtype)
    found = Foreground(mean, axis, threshold, 0.0)
    usual = float(found.patches((tokens,), grid).float().mean())
    return Foreground(mean, axis, threshold, usual)


def _averaged(along: Tensor, grid: int) -> NDArray[np.float64]:
    """Places along the axis, each averaged with its neighbours: single patches stray."""
    from scipy import ndimage

    maps = along.double().reshape(-1, grid, grid).cpu().numpy()
    weights = np.array([1, 2, 1]) / 4
    for side in (1, 2):
        maps = ndimage.convolve1d(maps, weights, axis=side, mode="nearest")
    return np.asarray(maps)


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
    from scipy import ndimage

    labels, count = ndimage.label(part)
    if count > 1:
        sizes = np.bincount(labels.ravel())[1:]
        part = np.isin(labels, 1 + np.nonzero(sizes >= MIN_PIECE * sizes.max())[0])
    around = np.ones((3, 3), dtype=bool)
    closed = ndimage.binary_closing(np.pad(part, 1), around)
    filled = ndimage.binary_fill_holes(closed)
    return np.asarray(ndimage.binary_dilation(filled, around)[1:-1, 1:-1])
