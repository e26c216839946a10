"""Theorem 2 for patches: how surely a defective patch scores above a normal one.

For a defective patch t_A and a normal patch t_N, before any interpolation,

    η_l = d_A,t_A − d_N,t_N

and the mean over the layers is the difference of the map's values itself. All pairs of patches
are counted: the two sides are drawn independently, so means and variances follow from those of each
side, and no pair is ever formed.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import UsageError
from ...images.finding import find_images
from ...quality.test_set import TestImage, load_mask
from ...quality.tokens import Array
from .ranking import Images, RankingBound, cantelli

HALF = 0.5
"""A patch of which a mask covers this much is defective; one of which it covers nothing is normal;
those between are neither."""

FINER = 8
"""Places along a patch's side at which a mask is read."""


@dataclass(frozen=True)
class PatchReport:
    """η of patches over all pairs of a defective and a normal one."""

    blocks: tuple[int, ...]
    """The encoder's block numbers."""
    masked: bool
    """Whether masks said which patches are defective; otherwise it is t*, one patch an image."""
    defective: int
    normal: int
    """How many patches there are of each side; the pairs are their product."""
    means: Array
    """E[η] of each layer."""
    deviations: Array
    correlations: Array
    """Of η between layers, (layers, layers)."""
    together: RankingBound
    alone: tuple[RankingBound, ...]
    """Each layer by itself."""

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain numbers."""

        def plain(ranked: RankingBound) -> dict[str, Any]:
            return asdict(ranked) | {"layers": [self.blocks[place] for place in ranked.layers]}

        return {
            "layers": list(self.blocks),
            "defective_patches": self.defective,
            "normal_patches": self.normal,
            "defective_by": "mask" if self.masked else "peak",
            "eta_mean": self.means.tolist(),
            "eta_deviation": self.deviations.tolist(),
            "eta_correlation": self.correlations.tolist(),
            "together": plain(self.together),
            "alone": [plain(ranked) for ranked in self.alone],
        }


def rank_patches(
    good: Images, bad: Images, blocks: Sequence[int], masks: Sequence[Array] | None = None
) -> PatchReport:
    """Theorem 2 for patches, from images whose labels are known.

    `masks` hold for each bad image what share of each patch is defective, (N,). Normal are then its
    other patches, too; without masks, t* of each bad image stands against all of the good ones.
    """
    if not good or not bad:
        raise UsageError("Ranking needs at least one good and one bad image.")
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
        raise UsageError("No mask shows a defect; give the masks of the bad images.")
    places = tuple(range(len(blocks)))

    def ranked(layers: tuple[int, ...]) -> RankingBound:
        above, below = high[list(layers)].mean(axis=0), low[list(layers)].mean(axis=0)
        mean, variance = float(above.mean() - below.mean()), float(above.var() + below.var())
        passed = np.searchsorted(np.sort(below), above, side="left")  # ties count against us
        misranked = 1 - float(passed.mean()) / len(below)
        return RankingBound(layers, mean, variance, cantelli(mean, variance), misranked)

    covariances = _covariances(high) + _covariances(low)
    deviations = np.sqrt(np.diag(covariances))
    scale = np.outer(deviations, deviations)
    return PatchReport(
        tuple(blocks),
        masks is not None,
        high.shape[1],
        low.shape[1],
        high.mean(axis=1) - low.mean(axis=1),
        deviations,
        np.divide(covariances, scale, out=np.eye(len(blocks)), where=scale > 0),
        ranked(places),
        tuple(ranked((place,)) for place in places),
    )


def read_masks(images: Images, folder: str | os.PathLike[str], grid: int) -> list[Array]:
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
            raise UsageError(
                f"{image.name} has no mask in {folder}; expected {stem}_mask.png or {stem}.png"
                f" there, or in a folder {above} below it."
            )
        pixels = load_mask(TestImage(image.name, True, "", mask), grid * FINER)
        shares = pixels.reshape(grid, FINER, grid, FINER).mean(axis=(1, 3))
        found.append(np.asarray(shares.reshape(-1), dtype=np.float64))
    return found


def _defective(mask: Array) -> list[int]:
    """The places of the defective patches; of a small defect the patch that has most of it."""
    places: list[int] = np.flatnonzero(mask >= HALF).tolist()
    return places if places or not mask.any() else [int(mask.argmax())]


def _covariances(values: Array) -> Array:
    """Between layers, over all patches, (layers, layers)."""
    centred = values - values.mean(axis=1, keepdims=True)
    return np.asarray(centred @ centred.T / values.shape[1])
