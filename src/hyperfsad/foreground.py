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

from .memory import MemoryBank

IMAGES = 16
"""Entries of the memory bank that the axis is taken from."""

EDGE = 0.85
"""Share of the outermost patches of normal images that must not be the part. Measured with the
default encoder: bottle, bracket and cookie have 0.94 to 0.97, tile 0.04 to 0.14, chest X-ray 0.49
to 0.55."""

APART = 0.75
"""Share of the variance along the axis that the two sides must explain: there 0.80 to 0.90, tile
0.70 to 0.72."""

LEAST = 0.25
"""A picture with less of a part than this share of the normal ones is looked at as a whole: it
shows something else, or nothing."""


@dataclass(frozen=True, eq=False)
class Foreground:
    """What tells the part from its surroundings."""

    mean: Tensor
    axis: Tensor
    threshold: float
    usual: float
    """The part's share of a normal image."""

    def patches(self, layers: Sequence[Tensor], grid: int) -> Tensor:
        """Which patches of an image show the part, (N,)."""
        return self._found(layers[-1], grid)

    def rows(self, bank: MemoryBank, grid: int) -> Tensor:
        """Which rows of a memory bank show the part, (K·N,)."""
        return self._found(bank.patches[-1], grid)

    def _found(self, tokens: Tensor, grid: int) -> Tensor:
        along = (tokens - self.mean) @ self.axis
        parts = (along > self.threshold).reshape(-1, grid, grid).cpu().numpy()
        found = np.stack([_whole(part) for part in parts])
        found[found.mean(axis=(1, 2)) < LEAST * self.usual] = True
        return torch.from_numpy(found.flatten()).to(tokens.device)


def find_foreground(bank: MemoryBank, grid: int) -> Foreground | None:
    """What tells parts from their surroundings in these normal images; None where nothing does."""
    tokens = bank.first(IMAGES).patches[-1]
    mean = tokens.mean(dim=0)
    centred = (tokens - mean).double()
    axis = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -1]
    along = (centred @ axis).cpu().numpy()
    edge = np.ones((grid, grid), dtype=bool)
    edge[1:-1, 1:-1] = False
    at_edge = along.reshape(-1, grid * grid)[:, edge.flatten()]
    if at_edge.mean() > 0:
        axis, along, at_edge = -axis, -along, -at_edge
    threshold, apart = _otsu(along)
    if apart < APART or (at_edge <= threshold).mean() < EDGE:
        return None
    axis = axis.to(tokens.dtype)
    found = Foreground(mean, axis, threshold, 0.0)
    usual = float(found._found(tokens, grid).float().mean())
    return Foreground(mean, axis, threshold, usual)


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

    around = np.ones((3, 3), dtype=bool)
    padded = np.pad(part, 1)
    closed = ndimage.binary_fill_holes(ndimage.binary_closing(padded, around))
    labels, count = ndimage.label(closed, around)
    if count > 1:
        sizes = np.bincount(labels.ravel())[1:]
        kept = 1 + np.nonzero(sizes >= max(4, 0.1 * sizes.max()))[0]
        closed = np.isin(labels, kept)
    return np.asarray(ndimage.binary_dilation(closed, around)[1:-1, 1:-1])
