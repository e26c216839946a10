"""Formulas that several peers share."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from ...method.lookups import in_chunks
from ...method.scoring import Pooling


def top_percent(anomaly_map: Tensor) -> float:
    """The mean of the largest hundredth, rounded down as in the authors' code, at least one."""
    return float(Pooling("top-1%", count=max(1, anomaly_map.numel() // 100))(anomaly_map))


def local_features(layers: Sequence[Tensor], grid: int, *, zeros: bool = False) -> Tensor:
    """Locally aware patch features: the mean of each 3×3 neighbourhood, layers side by side.

    Takes one (K·N, D) a layer with N = grid² patches an image, gives (K·N, layers·D). At the
    border only the patches that exist are averaged, or `zeros` beyond it count too.
    """
    return torch.cat([local_mean(layer, grid, zeros=zeros) for layer in layers], dim=1)


def local_mean(layer: Tensor, grid: int, side: int = 3, *, zeros: bool = False) -> Tensor:
    """The mean of the side×side neighbourhood of each patch, (K·N, D) as the layer itself."""
    maps = layer.reshape(-1, grid, grid, layer.shape[1]).permute(0, 3, 1, 2)
    means = avg_pool2d(maps, side, stride=1, padding=side // 2, count_include_pad=zeros)
    return means.permute(0, 2, 3, 1).reshape(layer.shape)


def best_similarity(queries: Tensor, memory: Tensor) -> Tensor:
    """max_m⟨q, m⟩ for each row of `queries` (N, D) over the rows of `memory` (M, D), (N,)."""
    return torch.cat([(chunk @ memory.T).amax(dim=1) for chunk in in_chunks(queries, memory)])


def nearest_distance(queries: Tensor, memory: Tensor) -> Tensor:
    """The Euclidean distance of each query to its nearest row of the memory.

    The row is found by ‖m‖² − 2⟨q, m⟩, but the distance is taken from the difference itself: the
    expanded square would give a patch a distance of about 10⁻³ to itself.
    """
    squares = memory.square().sum(dim=1)
    found = [
        torch.addmm(squares, chunk, memory.T, alpha=-2).argmin(dim=1)
        for chunk in in_chunks(queries, memory)
    ]
    distances: Tensor = torch.linalg.vector_norm(queries - memory[torch.cat(found)], dim=1)
    return distances


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
