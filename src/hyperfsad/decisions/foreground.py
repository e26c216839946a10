"""The part itself, apart from what it lies on: found in each picture from its tokens alone.

Along the first principal axis of the support's patch tokens, parts and what surrounds them lie
apart; the edge of the picture says which is which. Where the two do not separate, or the edge
belongs to neither (textures, parts that fill the picture), there is no foreground, and the whole
picture is looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..method.memory import MemoryBank

IMAGES = 16
"""Entries of the memory bank that the axis is taken from."""

EDGE = 0.85
"""Share of the outermost patches of normal images that must not be the part. Measured with the
default encoder, 1 and 4 images: bottle, bracket and cookie have 0.91 to 1.00, tile 0.34 to 0.42,
chest X-ray 0.49 to 0.62."""

APART = 0.7
"""Share of the variance along the axis that the two sides must explain: there 0.71 to 0.88, tile
0.66 to 0.69."""

LEAST = 0.25
"""A picture with less of a part than this share of the normal ones is looked at as a whole: it
shows something else, or nothing."""

SPECK = 0.15
"""What is smaller than this share of the largest piece is no piece of the part."""


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
        return self._found(layers[-1], grid)

    def _found(self, tokens: Tensor, grid: int) -> Tensor:
        along = _smoothed((tokens - self.mean) @ self.axis, grid)
        found = np.stack([_whole(image > self.threshold) for image in along])
        found[found.mean(axis=(1, 2)) < LEAST * self.usual] = True
        return torch.from_numpy(found.flatten()).to(tokens.device)


def find_foreground(bank: MemoryBank, grid: int) -> Foreground | None:
    """What tells parts from their surroundings in these normal images; None where nothing does."""
    tokens = bank.first(IMAGES).patches[-1]
    mean = tokens.mean(dim=0)
    centred = (tokens - mean).double()
    axis = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -1]
    along = _smoothed(centred @ axis, grid)
    edge = np.ones((grid, grid), dtype=bool)
    edge[1:-1, 1:-1] = False
    at_edge = along[:, edge]
    if at_edge.mean() > 0:
        axis, along, at_edge = -axis, -along, -at_edge
    threshold, apart = _otsu(along.flatten())
    if apart < APART or (at_edge <= threshold).mean() < EDGE:
        return None
    axis = axis.to(tokens.dtype)
    found = Foreground(mean, axis, threshold, 0.0)
    usual = float(found.patches((tokens,), grid).float().mean())
    return Foreground(mean, axis, threshold, usual)


def _smoothed(along: Tensor, grid: int) -> NDArray[np.float64]:
    """Places along the axis, each averaged with its neighbours: single patches stray."""
    from scipy import ndimage

    maps = along.double().reshape(-1, grid, grid).cpu().numpy()
    weights = np.array([1, 2, 1]) / 4
    for side in (1, 2):
        maps = ndimage.convolve1d(maps, weights, axis=side, mode="nearest")
    return np.asarray(maps)


def _otsu(values: NDArray[np.float64]) -> tuple[float, float]:
    """The threshold that separates best, and the share of the variance that it explains."""
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
        part = np.isin(labels, 1 + np.nonzero(sizes >= SPECK * sizes.max())[0])
    around = np.ones((3, 3), dtype=bool)
    closed = ndimage.binary_closing(np.pad(part, 1), around)
    filled = ndimage.binary_fill_holes(closed)
    return np.asarray(ndimage.binary_dilation(filled, around)[1:-1, 1:-1])
