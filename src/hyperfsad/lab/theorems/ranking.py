"""Theorem 2: why several layers rank better than one, and which ones are worth keeping.

For a good image N and a bad image A, with one patch t* of A for all layers,

    η_l = λ·(d_A,t* − max_t d_N,t) + (1 − λ)·(g_A − g_N),    S(A) − S(N) ≥ mean of η_l

so the chance of ranking a random pair wrongly is at most v/(v + μ²), with μ and v the mean and the
variance of the layers' mean (Cantelli). Over a finite set of pairs that is a fact, not an estimate.

For a defective patch t_A and a normal patch t_N, η_l = d_A,t_A − d_N,t_N, before any interpolation:
the mean over the layers is the difference of the map's values itself. The two sides are drawn
independently, so the moments over all pairs of patches follow from those of each side.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import UsageError
from ...images.reading import find_images
from ...quality.test_set import TestImage, load_mask
from ...quality.tokens import Array
from .layerwise import Discrepancies

COMPARED_LAYERS = 12
"""Up to here all sets of layers are compared: 4,095 of them, 9 s of one core for 56 images."""

DEFECTIVE_SHARE = 0.5
"""A patch of which a mask covers this much is defective; one of which it covers nothing is normal;
those between are neither."""

MASK_SAMPLES = 8
"""Places along a patch's side at which a mask is read."""


def layer_margins(good: Sequence[Discrepancies], bad: Sequence[Discrepancies], lam: float) -> Array:
    """η of Equation 25, (good, bad, layers)."""
    height = np.stack([image.distances[:, image.peak] for image in bad])
    level = np.stack([image.distances.max(axis=1) for image in good])
    near, far = (np.stack([image.cls for image in images]) for images in (good, bad))
    local = height[None, :] - level[:, None]
    return np.asarray(lam * local + (1 - lam) * (far[None, :] - near[:, None]))


def score_gaps(good: Sequence[Discrepancies], bad: Sequence[Discrepancies], lam: float) -> Array:
    """S(A) − S(N), (good, bad)."""
    normal, anomalous = (np.array([image.score(lam) for image in some]) for some in (good, bad))
    return np.asarray(anomalous[None, :] - normal[:, None])


def cantelli(mean: float, variance: float) -> float:
    """Equation 32: Pr[X ≤ 0] ≤ v/(v + μ²); 1, which says nothing, unless the mean is positive."""
    return 1.0 if mean <= 0 else variance / (variance + mean**2)


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
    misranked: float
    """Misranked in fact; ties count against us, so that AUROC is at least 1 less this."""

    @property
    def bound(self) -> float:
        """Misranked at most."""
        return cantelli(self.mean, self.variance)

    def to_json(self, blocks: Sequence[int]) -> dict[str, Any]:
        """Everything, as plain numbers."""
        moments = {"mean": self.mean, "variance": self.variance}
        shares = {"bound": self.bound, "misranked": self.misranked}
        return {"layers": [blocks[place] for place in self.layers], **moments, **shares}


@dataclass(frozen=True)
class EtaMoments:
    """η of each layer, over all pairs."""

    blocks: tuple[int, ...]
    """The encoder's block numbers."""
    means: Array
    covariances: Array
    """Between layers, (layers, layers)."""

    @property
    def deviations(self) -> Array:
        """Of each layer."""
        return np.sqrt(np.diag(self.covariances))

    @property
    def correlations(self) -> Array:
        """Between layers; 0 where a layer never varies."""
        scale = np.outer(self.deviations, self.deviations)
        return np.divide(self.covariances, scale, out=np.eye(len(self.blocks)), where=scale > 0)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain numbers."""
        return {
            "eta_mean": self.means.tolist(),
            "eta_deviation": self.deviations.tolist(),
            "eta_correlation": self.correlations.tolist(),
        }


@dataclass(frozen=True)
class LayerReport:
    """Theorem 2 for a detector's layers, from pairs whose labels are known."""

    eta: EtaMoments
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
            return self.eta.blocks
        rest = zip(self.eta.blocks, self.without, strict=True)
        return tuple(block for block, others in rest if others.bound > self.together.bound)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain numbers."""
        blocks = self.eta.blocks
        return {
            "layers": list(blocks),
            **self.eta.to_json(),
            "together": self.together.to_json(blocks),
            "uniform_bound": self.uniform,
            "single_layer_bound": self.single,
            "alone": [ranked.to_json(blocks) for ranked in self.alone],
            "without": [ranked.to_json(blocks) for ranked in self.without],
            "best": None if self.best is None else self.best.to_json(blocks),
            "keep": list(self.keep()),
        }


def rank_layers(
    good: Sequence[Discrepancies], bad: Sequence[Discrepancies], lam: float, blocks: Sequence[int]
) -> LayerReport:
    """Theorem 2 over all pairs of good and bad images."""
    if not good or not bad:
        raise UsageError("ranking-needs-both")
    count = len(blocks)
    places = tuple(range(count))

    def ranked(layers: tuple[int, ...]) -> RankingBound:
        normal, anomalous = ([image.of_layers(layers) for image in some] for some in (good, bad))
        average = layer_margins(normal, anomalous, lam).mean(axis=2)
        misranked = float((score_gaps(normal, anomalous, lam) <= 0).mean())
        return RankingBound(layers, float(average.mean()), float(average.var()), misranked)

    pairs = layer_margins(good, bad, lam).reshape(-1, count).T
    eta = EtaMoments(tuple(blocks), pairs.mean(axis=1), _covariances(pairs))
    worst, largest = float(eta.means.min()), float(np.diag(eta.covariances).max())
    off = eta.covariances[~np.eye(count, dtype=bool)]
    shared = float(off.max()) / largest if len(off) and largest > 0 else 0.0
    without = [places[:place] + places[place + 1 :] for place in places] if count > 1 else []
    best = None
    if count <= COMPARED_LAYERS:
        every = (chosen for size in places for chosen in combinations(places, size + 1))
        best = min(map(ranked, every), key=lambda found: (found.bound, len(found.layers)))
    return LayerReport(
        eta,
        ranked(places),
        uniform_bound(worst, largest, shared, count),
        cantelli(worst, largest),
        tuple(ranked((place,)) for place in places),
        tuple(map(ranked, without)),
        best,
    )


@dataclass(frozen=True)
class PatchReport:
    """Theorem 2 for patches, over all pairs of a defective and a normal one."""

    eta: EtaMoments
    masked: bool
    """Whether masks said which patches are defective; otherwise it is t*, one patch an image."""
    defective: int
    normal: int
    """How many patches there are of each side; the pairs are their product."""
    together: RankingBound
    alone: tuple[RankingBound, ...]
    """Each layer by itself."""

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain numbers."""
        blocks = self.eta.blocks
        return {
            "layers": list(blocks),
            "defective_patches": self.defective,
            "normal_patches": self.normal,
            "defective_by": "mask" if self.masked else "peak",
            **self.eta.to_json(),
            "together": self.together.to_json(blocks),
            "alone": [ranked.to_json(blocks) for ranked in self.alone],
        }


def rank_patches(
    good: Sequence[Discrepancies],
    bad: Sequence[Discrepancies],
    blocks: Sequence[int],
    masks: Sequence[Array] | None = None,
) -> PatchReport:
    """Theorem 2 for patches, from images whose labels are known.

    `masks` hold for each bad image what share of each patch is defective, (N,). Normal are then its
    other patches, too; without masks, t* of each bad image stands against all of the good ones.
    """
    if not good or not bad:
        raise UsageError("ranking-needs-both")
    normal = [image.distances for image in good]
    if masks is None:
        defective = [image.distances[:, [image.peak]] for image in bad]
    else:
        defective = []
        for image, mask in zip(bad, masks, strict=True):
            defective.append(image.distances[:, _defective(mask)])
            normal.append(image.distances[:, mask == 0])
    high, low = np.concatenate(defective, axis=1), np.concatenate(normal, axis=1)
    if not high.shape[1]:
        raise UsageError("masks-without-defect")
    places = tuple(range(len(blocks)))

    def ranked(layers: tuple[int, ...]) -> RankingBound:
        above, below = high[list(layers)].mean(axis=0), low[list(layers)].mean(axis=0)
        mean, variance = float(above.mean() - below.mean()), float(above.var() + below.var())
        passed = np.searchsorted(np.sort(below), above, side="left")  # ties count against us
        return RankingBound(layers, mean, variance, 1 - float(passed.mean()) / len(below))

    means = high.mean(axis=1) - low.mean(axis=1)
    return PatchReport(
        EtaMoments(tuple(blocks), means, _covariances(high) + _covariances(low)),
        masks is not None,
        high.shape[1],
        low.shape[1],
        ranked(places),
        tuple(ranked((place,)) for place in places),
    )


def read_masks(
    images: Sequence[Discrepancies], folder: str | os.PathLike[str], grid: int
) -> list[Array]:
    """What share of each patch is defective, (N,), from masks named as their images are.

    A mask is `<name>_mask` or `<name>`, in a folder named as that of its image, or in `folder`
    itself.
    """
    known: dict[tuple[str, str], str] = {}
    root = os.path.abspath(folder)
    for path in find_images([folder]).paths:
        above, stem = os.path.split(os.path.splitext(os.path.abspath(path))[0])
        place = "" if above == root else os.path.basename(above)
        known[place, stem.removesuffix("_mask")] = path
    found = []
    for image in images:
        stem, above = Path(image.name).stem, Path(image.name).absolute().parent.name
        mask = known.get((above, stem)) or known.get(("", stem))
        if mask is None:
            facts = {"image": image.name, "folder": folder, "stem": stem, "subfolder": above}
            raise UsageError("mask-missing", **facts)
        pixels = load_mask(TestImage(image.name, True, "", mask), grid * MASK_SAMPLES)
        shares = pixels.reshape(grid, MASK_SAMPLES, grid, MASK_SAMPLES).mean(axis=(1, 3))
        found.append(np.asarray(shares.reshape(-1), dtype=np.float64))
    return found


def _defective(mask: Array) -> list[int]:
    """The places of the defective patches; of a small defect the patch that has most of it."""
    places: list[int] = np.flatnonzero(mask >= DEFECTIVE_SHARE).tolist()
    return places if places or not mask.any() else [int(mask.argmax())]


def _covariances(values: Array) -> Array:
    """Between layers, over all columns, (layers, layers)."""
    centred = values - values.mean(axis=1, keepdims=True)
    return np.asarray(centred @ centred.T / values.shape[1])
