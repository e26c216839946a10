"""Formulas that several peers share."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...arrays import Array, like, namespace
from ...method.lookups import in_chunks
from ...method.scoring import Pooling


def top_percent(anomaly_map: Array) -> float:
    """The mean of the largest hundredth, rounded down as in the authors' code, at least one."""
    patches = math.prod(anomaly_map.shape)
    return float(Pooling("top-1%", count=max(1, patches // 100))(anomaly_map))


def unit(vectors: Array) -> Array:
    """The same directions at length 1; zeros stay zeros."""
    xp = namespace(vectors)
    lengths = xp.linalg.vector_norm(vectors, axis=-1, keepdims=True)
    return vectors / xp.where(lengths > 0, lengths, xp.ones_like(lengths))


def lengths(vectors: Array) -> Array:
    """The Euclidean norm of each row."""
    return namespace(vectors).linalg.vector_norm(vectors, axis=-1)


def local_features(layers: Sequence[Array], grid: int, *, zeros: bool = False) -> Array:
    """Locally aware patch features: the mean of each 3×3 neighbourhood, layers side by side.

    Takes one (K·N, D) a layer with N = grid² patches an image, gives (K·N, layers·D). At the
    border only the patches that exist are averaged, or `zeros` beyond it count too.
    """
    means = [local_mean(layer, grid, zeros=zeros) for layer in layers]
    return namespace(*means).concat(means, axis=1)


def local_mean(layer: Array, grid: int, side: int = 3, *, zeros: bool = False) -> Array:
    """The mean of the side×side neighbourhood of each patch, (K·N, D) as the layer itself."""
    xp = namespace(layer)
    means = xp.reshape(layer, (-1, grid, grid, layer.shape[1]))
    reach = side // 2
    for axis in (1, 2):
        line = xp.moveaxis(means, axis, 0)
        total = xp.asarray(line, copy=True)
        for step in range(1, min(reach, grid - 1) + 1):
            total[step:] += line[:-step]
            total[:-step] += line[step:]
        places = np.arange(grid)
        existing = np.minimum(places + reach, grid - 1) - np.maximum(places - reach, 0) + 1
        counts = np.full(grid, side) if zeros else existing
        total /= like(counts, layer, layer.dtype)[:, None, None, None]
        means = xp.moveaxis(total, 0, axis)
    return xp.reshape(means, layer.shape)


def best_similarity(queries: Array, memory: Array) -> Array:
    """max_m⟨q, m⟩ for each row of `queries` (N, D) over the rows of `memory` (M, D), (N,)."""
    xp = namespace(queries)
    return xp.concat([xp.max(part @ memory.T, axis=1) for part in in_chunks(queries, memory)])


def nearest_distance(queries: Array, memory: Array) -> Array:
    """The Euclidean distance of each query to its nearest row of the memory.

    The row is found by ‖m‖² − 2⟨q, m⟩, but the distance is taken from the difference itself: the
    expanded square would give a patch a distance of about 10⁻³ to itself.
    """
    xp = namespace(queries)
    squares = xp.sum(memory * memory, axis=1)
    found = [
        xp.argmin(squares - 2 * (part @ memory.T), axis=1) for part in in_chunks(queries, memory)
    ]
    return lengths(queries - memory[xp.concat(found)])


def greedy_coreset(features: Array, count: int, dimensions: int = 128, seed: int = 0) -> Array:
    """The indices of `count` features, each the farthest from all that were picked before.

    Algorithm 1 of PatchCore (Roth et al., CVPR 2022), the k-centre greedy of Sener and Savarese
    (ICLR 2018). Distances are those of a random projection to `dimensions` where that is fewer
    than the features have (Johnson–Lindenstrauss). The paper leaves the first pick open; here it
    is the feature farthest from the mean.
    """
    xp, points, size = namespace(features), features, features.shape[1]
    if size > dimensions:
        matrix = normal_draws(size, dimensions, seed) / math.sqrt(dimensions)
        points = features @ like(matrix, features, features.dtype)
    squares = xp.sum(points * points, axis=1)
    free = xp.ones_like(squares, dtype=xp.bool)
    gaps = xp.sum((points - xp.mean(points, axis=0)) ** 2, axis=1)
    picked: list[int] = []
    for _ in range(min(count, len(points))):
        index = int(xp.argmax(xp.where(free, gaps, -xp.inf)))
        free[index] = False
        distances = squares - 2 * (points @ points[index]) + squares[index]
        gaps = xp.minimum(gaps, distances) if picked else distances
        picked.append(index)
    return like(picked, features)


def normal_draws(rows: int, columns: int, seed: int) -> NDArray[np.float32]:
    """Standard normal numbers, (rows, columns), those that torch draws: published tables rest on
    coresets of this projection. Box and Muller's transform of the Mersenne twister's numbers, in
    groups of sixteen."""
    twister = np.random.RandomState(seed)
    bits = twister.randint(0, 1 << 32, rows * columns, dtype=np.uint32) & 0xFFFFFF
    uniform = (bits * 2.0**-24).reshape(-1, 2, 8)
    radius, angle = np.sqrt(-2 * np.log(1 - uniform[:, 0])), 2 * np.pi * uniform[:, 1]
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return pairs.reshape(rows, columns).astype(np.float32)
