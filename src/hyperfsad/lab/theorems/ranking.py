"""Theorem 2: why several layers rank better than one, and which ones are worth keeping.

For a good image N and a bad image A, with one patch t* of A for all layers,

    η_l = λ·(d_A,t* − max_t d_N,t) + (1 − λ)·(g_A − g_N),    S(A) − S(N) ≥ mean of η_l

so the chance of ranking a random pair wrongly is at most v/(v + μ²), with μ and v the mean and the
variance of the layers' mean (Cantelli). Over a finite set of pairs that is a fact, not an estimate.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from ...errors import UsageError
from ...quality.tokens import Array
from .layerwise import Discrepancies

Images: TypeAlias = Sequence[Discrepancies]

MOST_LAYERS = 12
"""Up to here all sets of layers are compared: 4,095 of them, 9 s of one core for 56 images."""


def layer_margins(good: Images, bad: Images, lam: float) -> Array:
    """η of Equation 25, (good, bad, layers)."""
    height = np.stack([image.distances[:, image.peak] for image in bad])
    level = np.stack([image.distances.max(axis=1) for image in good])
    near, far = (np.stack([image.cls for image in images]) for images in (good, bad))
    local = height[None, :] - level[:, None]
    return np.asarray(lam * local + (1 - lam) * (far[None, :] - near[:, None]))


def score_gaps(good: Images, bad: Images, lam: float) -> Array:
    """S(A) − S(N), (good, bad)."""
    normal, anomalous = (np.array([image.score(lam) for image in some]) for some in (good, bad))
    return np.asarray(anomalous[None, :] - normal[:, None])


def cantelli(mean: float, variance: float) -> float:
    """Equation 32: Pr[X ≤ 0] ≤ v/(v + μ²); 1, which says nothing, unless the mean is positive."""
    if mean <= 0:
        return 1.0
    return variance / (variance + mean**2)


def uniform_bound(mean: float, variance: float, correlation: float, layers: int) -> float:
    """Equation 28: the bound from what holds for every layer and every two of them.

    c = (1 + (m − 1)·ρ)/m is what m layers leave of the variance of one.
    """
    share = (1 + (layers - 1) * max(0.0, correlation)) / layers
    return cantelli(mean, variance * share)


@dataclass(frozen=True)
class RankingBound:
    """Theorem 2 for one set of layers."""

    layers: tuple[int, ...]
    """Places among the layers of the detector."""
    mean: float
    variance: float
    bound: float
    """Misranked at most."""
    misranked: float
    """Misranked in fact; ties count against us, so that AUROC is at least 1 less this."""

    @property
    def auroc(self) -> float:
        return 1 - self.misranked


@dataclass(frozen=True)
class LayerReport:
    """Theorem 2 for a detector's layers, from pairs whose labels are known."""

    blocks: tuple[int, ...]
    """The encoder's block numbers."""
    means: Array
    """E[η] of each layer."""
    deviations: Array
    correlations: Array
    """Of η between layers, (layers, layers)."""
    together: RankingBound
    uniform: float
    """Equation 28 with the worst layer's mean and variance and the largest covariance."""
    single: float
    """The same for one layer: σ²/(σ² + μ²)."""
    alone: tuple[RankingBound, ...]
    """Each layer by itself."""
    without: tuple[RankingBound, ...]
    """All but one layer; empty where there is only one."""
    best: RankingBound | None
    """The set of layers with the lowest bound; None where there are too many sets."""

    def keep(self) -> tuple[int, ...]:
        """Blocks without which the bound would be higher: the ones worth keeping."""
        if not self.without:
            return self.blocks
        return tuple(
            block
            for block, rest in zip(self.blocks, self.without, strict=True)
            if rest.bound > self.together.bound
        )

    def named(self, ranked: RankingBound) -> str:
        """The blocks of a set of layers, as 2, 4, 6."""
        return ", ".join(str(self.blocks[place]) for place in ranked.layers)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain numbers."""

        def plain(ranked: RankingBound) -> dict[str, Any]:
            return asdict(ranked) | {"layers": [self.blocks[place] for place in ranked.layers]}

        return {
            "layers": list(self.blocks),
            "eta_mean": self.means.tolist(),
            "eta_deviation": self.deviations.tolist(),
            "eta_correlation": self.correlations.tolist(),
            "together": plain(self.together),
            "uniform_bound": self.uniform,
            "single_layer_bound": self.single,
            "alone": [plain(ranked) for ranked in self.alone],
            "without": [plain(ranked) for ranked in self.without],
            "best": None if self.best is None else plain(self.best),
            "keep": list(self.keep()),
        }


def rank_layers(good: Images, bad: Images, lam: float, blocks: Sequence[int]) -> LayerReport:
    """Theorem 2 over all pairs of good and bad images."""
    if not good or not bad:
        raise UsageError("Ranking needs at least one good and one bad image.")
    count = len(blocks)
    places = tuple(range(count))

    def ranked(layers: tuple[int, ...]) -> RankingBound:
        normal, anomalous = ([image.of_layers(layers) for image in some] for some in (good, bad))
        average = layer_margins(normal, anomalous, lam).mean(axis=2)
        misranked = float((score_gaps(normal, anomalous, lam) <= 0).mean())
        mean, variance = float(average.mean()), float(average.var())
        return RankingBound(layers, mean, variance, cantelli(mean, variance), misranked)

    pairs = layer_margins(good, bad, lam).reshape(-1, count)
    means, deviations = pairs.mean(axis=0), pairs.std(axis=0)
    covariances = (pairs - means).T @ (pairs - means) / len(pairs)
    largest = float(deviations.max() ** 2)
    off = covariances[~np.eye(count, dtype=bool)]
    shared = float(off.max()) / largest if len(off) and largest > 0 else 0.0
    scale = np.outer(deviations, deviations)
    correlations = np.divide(covariances, scale, out=np.eye(count), where=scale > 0)
    worst = float(means.min())
    without = [places[:place] + places[place + 1 :] for place in places] if count > 1 else []
    best = None
    if count <= MOST_LAYERS:
        every = (chosen for size in places for chosen in combinations(places, size + 1))
        best = min(map(ranked, every), key=lambda found: (found.bound, len(found.layers)))
    return LayerReport(
        tuple(blocks),
        means,
        deviations,
        correlations,
        ranked(places),
        uniform_bound(worst, largest, shared, count),
        cantelli(worst, largest),
        tuple(ranked((place,)) for place in places),
        tuple(map(ranked, without)),
        best,
    )
