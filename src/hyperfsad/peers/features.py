"""Patch features that some peers make of the tokens of several layers."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d


def mean_of_layers(layers: Sequence[Tensor]) -> Tensor:
    """The mean of the tokens of all layers, (M, D) from one (M, D) a layer."""
    return torch.stack(tuple(layers)).mean(dim=0)


def local_features(layers: Sequence[Tensor], grid: int) -> Tensor:
    """Locally aware patch features: the mean of each 3×3 neighbourhood, layers side by side.

    Takes one (K·N, D) a layer with N = grid² patches an image, gives (K·N, layers·D). At the
    border only the patches that exist are averaged.
    """
    pooled = []
    for layer in layers:
        maps = layer.reshape(-1, grid, grid, layer.shape[1]).permute(0, 3, 1, 2)
        means = avg_pool2d(maps, 3, stride=1, padding=1, count_include_pad=False)
        pooled.append(means.permute(0, 2, 3, 1).reshape(layer.shape))
    return torch.cat(pooled, dim=1)
