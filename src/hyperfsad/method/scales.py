"""Patches at several scales: each by itself, and averaged with its neighbours."""

import torch
from torch import Tensor

SCALES = (1, 3)


def at_scale(tokens: Tensor, grid: int, scale: int, inside: Tensor | None = None) -> Tensor:
    """Unit tokens (images·N, D), patches row by row, as they are or averaged over 3×3 patches.

    The neighbours weigh 1 2 1 along both axes, so that the patch itself counts most; what lies
    outside the image does not count, nor do rows that are not `inside`, (images·N,).
    """
    if scale == 1:
        return tokens
    if inside is not None:
        tokens = tokens * inside[:, None]  # their weight goes with the length of the mean
    maps = tokens.reshape(-1, grid, grid, tokens.shape[-1])
    mean = _smoothed(_smoothed(maps, 1), 2)
    return torch.nn.functional.normalize(mean, dim=-1).reshape(tokens.shape)


def _smoothed(maps: Tensor, axis: int) -> Tensor:
    size = maps.shape[axis]
    total, weight = 2 * maps, maps.new_full((size,), 4.0)
    weight[0] -= 1
    weight[-1] -= 1
    inner = size - 1
    total.narrow(axis, 1, inner).add_(maps.narrow(axis, 0, inner))
    total.narrow(axis, 0, inner).add_(maps.narrow(axis, 1, inner))
    shape = [1] * maps.ndim
    shape[axis] = size
    return total / weight.reshape(shape)
