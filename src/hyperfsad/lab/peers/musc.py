"""MuSc, mutual scoring of unlabelled images (Li, Huang, Xue and Zhou, "MuSc: Zero-Shot Industrial
Anomaly Classification and Segmentation with Mutual Scoring of the Unlabeled Images", ICLR 2024).

No image is known to be good: normal patches recur in other images, defects seldom do. Of one of
n + 1 images, z is a patch feature in a layer: the mean of its r×r neighbourhood at length 1
(LNAMD). Image j scores it by the distance to the nearest of its own features,

    a_j(z) = min_m ‖z − z_jm‖,

and the patch gets the mean of the lowest 30 % of its n scores (MSM), averaged over the layers and
r = 1, 3, 5. An image gets its largest patch score, averaged with those of the images whose CLS
tokens are most similar, weighted by the similarity, and over windows of 1, 2 and 3 images, itself
among them (RsCIN).

Read in the authors' code (xrli-U/MuSc); it has windows of 1, 8 and 9 for VisA. Different here: unit
tokens of the selected layers without their layer norm, the CLS token of the last of them; at least
one image counts where 30 % are none; each query is scored with the n unlabelled images alone, never
by other queries; scores are not stretched to 0…1, which would depend on the query.
"""

from collections.abc import Callable
from typing import ClassVar, TypeAlias

import numpy as np

from ...arrays import Array, namespace, to_numpy
from ...encoders.encoder import ImageTokens
from ...errors import UsageError
from ...method.scoring import BranchScores, TokenScore
from .features import local_mean, nearest_distance, unit
from .peer import MethodOptions, Peer

Features: TypeAlias = tuple[Array, ...]
"""Of an image: unit features (N, D) of each layer at each degree."""


class MuSc(Peer):
    """The mean distance to the nearest patches of unlabelled images, which `fit` takes."""

    OPTIONS: ClassVar[MethodOptions] = {
        "degrees": ("odd degrees", lambda sides: sides and all(r > 0 and r % 2 for r in sides)),
        "share": ("0 < share ≤ 1", lambda share: 0 < share <= 1),
        "windows": ("windows ≥ 1", lambda counts: counts and min(counts) >= 1),
    }
    unlabelled = True
    degrees: tuple[int, ...] = (1, 3, 5)
    """r, the sides of the neighbourhoods; (1,) leaves LNAMD out."""
    share: float = 0.3
    """The part of the other images that counts, the nearest."""
    windows: tuple[int, ...] = (1, 2, 3)
    """Images over which scores are averaged; (1,) leaves RsCIN out."""
    features_: list[Features]
    """Of each unlabelled image."""

    def learn(self) -> None:
        """Aggregates the patches of the unlabelled images."""
        bank = self.memory_
        self.features_ = [self.features(bank.patches_of(entry)) for entry in range(len(bank))]
        self._among: dict[int, list[Array]] = {}

    def features(self, layers: tuple[Array, ...]) -> Features:
        """The patches of an image."""
        grid, sides = self.encoding_.grid, self.degrees
        means = (local_mean(layer, grid, side) for layer in layers for side in sides)
        return tuple(unit(mean) for mean in means)

    def patch_scores(self, image: ImageTokens) -> Array:
        """Scored by all unlabelled images."""
        mine = self.features(image.patches)
        return self.mutual([distances(mine, other) for other in self.features_])

    def mutual(self, scores: list[Array]) -> Array:
        """The patch scores (N,) by those that each other image gives, (features, N) each."""
        count = max(1, int(self.share * len(scores)))
        xp = namespace(*scores)
        return xp.mean(xp.sort(xp.stack(scores), axis=0)[:count], axis=(0, 1))

    def image_score(self, anomaly_map: Array, image: ImageTokens) -> float:
        """Its largest patch score and those of similar unlabelled images, which it scores too."""
        mine = self.features(image.patches)
        alike = self.memory_.cls[:, -1] @ image.cls[-1]
        return self.rescored(anomaly_map, alike, lambda index: self.member(index, mine))

    def own_scores(self) -> list[TokenScore]:
        """The map and the score of each unlabelled image, by the others alone."""
        if len(self.features_) < 2:
            raise UsageError("musc-alone")
        grid, cls = self.encoding_.grid, self.memory_.cls[:, -1]
        maps = [to_numpy(self.member(index)).reshape(grid, grid) for index in range(len(cls))]
        alike = to_numpy(cls @ cls.T)
        np.fill_diagonal(alike, -np.inf)
        return [
            TokenScore(
                one,
                BranchScores.of_map(self.rescored(one, row, maps.__getitem__)),
            )
            for one, row in zip(maps, alike, strict=True)
        ]

    def member(self, index: int, *queries: Features) -> Array:
        """The patch scores of an unlabelled image by the others, and by queries beside them."""
        mine = self.features_[index]
        if index not in self._among:
            others = [*self.features_[:index], *self.features_[index + 1 :]]
            self._among[index] = [distances(mine, other) for other in others]
        return self.mutual([*self._among[index], *(distances(mine, one) for one in queries)])

    def rescored(self, own: Array, alike: Array, other: Callable[[int], Array]) -> float:
        """RsCIN: an image's score, by its patch scores, the similarities of the other images'
        CLS tokens (−∞: none) and what gives their patch scores."""
        known = to_numpy(alike)
        count = min(max(self.windows) - 1, int(np.isfinite(known).sum()))
        near = np.argsort(-known, kind="stable")[:count]
        weights = np.array([1.0, *known[near]])
        scores = np.array([to_numpy(one).max() for one in (own, *map(other, near.tolist()))])
        means = [np.average(scores[:size], weights=weights[:size]) for size in self.windows]
        return float(np.mean(means))


def distances(features: Features, others: Features) -> Array:
    """a_j of each feature of an image, (features, N)."""
    pairs = zip(features, others, strict=True)
    found = [nearest_distance(mine, theirs) for mine, theirs in pairs]
    return namespace(*found).stack(found)
