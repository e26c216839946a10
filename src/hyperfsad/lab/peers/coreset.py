"""Greedy coresets: few features that leave none of the others far away."""

import math

import torch
from torch import Tensor


def greedy_coreset(features: Tensor, count: int, dimensions: int = 128, seed: int = 0) -> Tensor:
    """The indices of `count` features, each the farthest from all that were picked before.

    Algorithm 1 of PatchCore (Roth et al., CVPR 2022), the k-centre greedy of Sener and Savarese
    (ICLR 2018). Distances are those of a random projection to `dimensions` where that is fewer
    than the features have (Johnson–Lindenstrauss). The paper leaves the first pick open; here it
    is the feature farthest from the mean.
    """
    points, size = features, features.shape[1]
    if size > dimensions:
        generator = torch.Generator().manual_seed(seed)
        matrix = torch.randn(size, dimensions, generator=generator) / math.sqrt(dimensions)
        points = features @ matrix.to(features)
    squares = points.square().sum(dim=1)
    free = torch.ones(len(points), dtype=torch.bool, device=points.device)
    gaps = (points - points.mean(dim=0)).square().sum(dim=1)
    picked: list[Tensor] = []
    for _ in range(min(count, len(points))):
        index = gaps.where(free, -torch.inf).argmax()
        free[index] = False
        distances = squares - 2 * (points @ points[index]) + squares[index]
        gaps = torch.minimum(gaps, distances) if picked else distances
        picked.append(index)
    return torch.stack(picked)
