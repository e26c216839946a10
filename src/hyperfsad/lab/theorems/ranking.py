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

import numpy as np

from ...errors import UsageError
from ...quality.test_set import TestImage, images_in, load_mask
from ...quality.tokens import Array
from ...wording import as_rows
from .layerwise import Discrepancies

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
    """The encoder's block numbers."""
    mean: float
    variance: float
    misranked: float
    """Misranked in fact; ties count against us, so that AUROC is at least 1 less this."""
    bound: float
    """Misranked at most."""

    @classmethod
    def of(
        cls, layers: Sequence[int], mean: float, variance: float, misranked: float
    ) -> "RankingBound":
        """The bound from the moments of η over all pairs."""
        mean, variance, misranked = float(mean), float(variance), float(misranked)
        return cls(tuple(layers), mean, variance, misranked, cantelli(mean, variance))

    @property
    def words(self) -> str:
        """The bound beside what was measured."""
        return (
            f"misranked at most {self.bound:.1%} (AUROC at least {1 - self.bound:.3f}); measured"
            f" {self.misranked:.1%} (AUROC {1 - self.misranked:.3f})"
        )


@dataclass(frozen=True)
class LayerReport:
    """Theorem 2 for a detector's layers, from pairs of images whose labels are known."""

    layers: tuple[int, ...]
    """The encoder's block numbers."""
    eta_mean: Array
    eta_deviation: Array
    eta_correlation: Array
    """Between layers; 0 where a layer never varies."""
    together: RankingBound
    alone: tuple[RankingBound, ...]
    """Each layer by itself."""
    uniform_bound: float
    """Equation 28 with the worst layer's mean and variance and the largest covariance."""
    single_layer_bound: float
    """The same for one layer: σ²/(σ² + μ²)."""
    without: tuple[RankingBound, ...]
    """All but one layer; empty where there is only one."""
    keep: tuple[int, ...]
    """Layers without which the bound would be higher: the ones worth keeping."""

    def to_text(self) -> str:
        """η of each layer, the bound beside what was measured, and what to keep."""
        lines = [
            "Theorem 2: η over all pairs",
            "layer  mean     deviation  alone: bound  misranked",
        ]
        rows = zip(self.layers, self.eta_mean, self.eta_deviation, self.alone, strict=True)
        for block, mean, deviation, alone in rows:
            lines.append(
                f"{block:5}  {mean:+.4f}  {deviation:.4f}     {alone.bound:8.1%}"
                f"      {alone.misranked:.1%}"
            )
        if self.without:
            off = self.eta_correlation[~np.eye(len(self.layers), dtype=bool)]
            lines.append(f"correlation between layers: {off.min():.2f} to {off.max():.2f}")
        lines.append(f"together: {self.together.words}")
        single = self.single_layer_bound
        lines.append(f"uniform bound {self.uniform_bound:.1%}, for one layer {single:.1%}")
        for block, rest in zip(self.layers, self.without, strict=False):
            found = f"at most {rest.bound:.1%}; measured {rest.misranked:.1%}"
            lines.append(f"without {block:2}: {found}")
        kept = ", ".join(map(str, self.keep)) or "none: any one may go"
        lines.append(f"Worth keeping (the bound rises without them): {kept}")
        return as_rows(lines)


def rank_layers(
    good: Sequence[Discrepancies], bad: Sequence[Discrepancies], lam: float, blocks: Sequence[int]
) -> LayerReport:
    """Theorem 2 over all pairs of good and bad images."""
    if not good or not bad:
        raise UsageError("ranking-needs-both")
    count = len(blocks)
    places = tuple(range(count))

    def ranked(chosen: tuple[int, ...]) -> RankingBound:
        normal, anomalous = ([image.of_layers(chosen) for image in some] for some in (good, bad))
        average = layer_margins(normal, anomalous, lam).mean(axis=2)
        misranked = (score_gaps(normal, anomalous, lam) <= 0).mean()
        named = [blocks[place] for place in chosen]
        return RankingBound.of(named, average.mean(), average.var(), misranked)

    pairs = layer_margins(good, bad, lam).reshape(-1, count).T
    covariances = np.atleast_2d(np.cov(pairs, bias=True))
    deviations = np.sqrt(np.diag(covariances))
    scale = np.outer(deviations, deviations)
    worst, largest = float(pairs.mean(axis=1).min()), float(np.diag(covariances).max())
    off = covariances[~np.eye(count, dtype=bool)]
    shared = float(off.max()) / largest if len(off) and largest > 0 else 0.0
    together = ranked(places)
    without = tuple(ranked(rest) for rest in combinations(places, count - 1) if rest)[::-1]
    rises = [rest.bound > together.bound for rest in without] or [True]
    return LayerReport(
        tuple(blocks),
        pairs.mean(axis=1),
        deviations,
        np.divide(covariances, scale, out=np.eye(count), where=scale > 0),
        together,
        tuple(ranked((place,)) for place in places),
        uniform_bound(worst, largest, shared, count),
        cantelli(worst, largest),
        without,
        tuple(block for block, kept in zip(blocks, rises, strict=True) if kept),
    )


@dataclass(frozen=True)
class PatchReport:
    """Theorem 2 for patches, over all pairs of a defective and a normal one."""

    together: RankingBound
    defective_by: str
    """What says which patches are defective: `mask`, or `peak`, t* of each bad image."""
    defective_patches: int
    normal_patches: int
    """How many patches there are of each side; the pairs are their product."""

    def to_text(self) -> str:
        """The bound beside what was measured."""
        where = {"mask": "in the masks", "peak": "the highest of each bad image"}[self.defective_by]
        lines = [
            f"Theorem 2 for patches: {self.defective_patches} defective ({where}) ×"
            f" {self.normal_patches} normal",
            f"η {self.together.mean:+.4f} on average; {self.together.words}",
        ]
        return as_rows(lines)


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
    above, below = high.mean(axis=0), low.mean(axis=0)
    passed = np.searchsorted(np.sort(below), above, side="left")  # ties count against us
    together = RankingBound.of(
        blocks,
        above.mean() - below.mean(),
        above.var() + below.var(),
        1 - passed.mean() / len(below),
    )
    return PatchReport(together, "peak" if masks is None else "mask", len(above), len(below))


def read_masks(
    images: Sequence[Discrepancies], folder: str | os.PathLike[str], grid: int
) -> list[Array]:
    """What share of each patch is defective, (N,), from masks named as their images are.

    A mask is `<name>_mask` or `<name>`, in a folder named as that of its image, or in `folder`
    itself.
    """
    found = []
    for image in images:
        path = Path(image.name).absolute()
        stem, above = path.stem, path.parent.name
        places = [*images_in(Path(folder) / above), *images_in(Path(folder))]
        mask = next((one for one in places if one.stem in (f"{stem}_mask", stem)), None)
        if mask is None:
            facts = {"image": image.name, "folder": folder, "stem": stem, "subfolder": above}
            raise UsageError("mask-missing", **facts)
        pixels = load_mask(TestImage(image.name, True, "", str(mask)), grid * MASK_SAMPLES)
        shares = pixels.reshape(grid, MASK_SAMPLES, grid, MASK_SAMPLES).mean(axis=(1, 3))
        found.append(np.asarray(shares.reshape(-1), dtype=np.float64))
    return found


def _defective(mask: Array) -> list[int]:
    """The places of the defective patches; of a small defect the patch that has most of it."""
    places: list[int] = np.flatnonzero(mask >= DEFECTIVE_SHARE).tolist()
    return places if places or not mask.any() else [int(mask.argmax())]
