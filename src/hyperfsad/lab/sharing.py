"""The same similarities serve all runs, shots and lookups: what makes the protocol fast.

The support sets of a category overlap, so each query is compared once with the pool of all
support images. For sparsemax the best candidates of each support image are found once as well; a
support set then merges those of its images.
"""

from collections.abc import Sequence

from ..arrays import Array, gathered, like, namespace, top_k, weighted_rows
from ..encoders.encoder import ImageTokens
from ..method.lookups import project_sorted, rebuild, trimmed
from ..method.scoring import cls_distances, cosines

SHARED_CANDIDATES = 64
"""Kept of each support image; rows that need more are computed from all similarities."""

MERGED_CANDIDATES = 128
"""Kept of a support set; the same holds."""

THRESHOLD_SLACK = 1e-6
"""Rounding: a candidate this close to the threshold counts as one that may be active."""


class SharedMatcher:
    """Reconstruction distances of one query image to many subsets of a pool of support images."""

    def __init__(self, pool: Sequence[ImageTokens]) -> None:
        xp = namespace(pool[0].cls)
        layers = zip(*(image.patches for image in pool), strict=True)
        self._memory = [xp.stack(layer) for layer in layers]
        self._cls = xp.stack([image.cls for image in pool])

    def distances(
        self, image: ImageTokens, subsets: Sequence[tuple[int, ...]], lookups: Sequence[str]
    ) -> dict[str, Array]:
        """1 − cos(q, ε) for each lookup: (subsets, layers, N)."""
        xp = namespace(image.cls)
        found: dict[str, list[Array]] = {lookup: [] for lookup in lookups}
        for query, memory in zip(image.patches, self._memory, strict=True):
            # Similarities to each support image: (N, images, N), as the memory is (images, N, D).
            z = xp.reshape(query @ _rows(memory).T, (len(query), *memory.shape[:2]))
            for lookup in lookups:
                if lookup == "sparsemax":
                    best = top_k(z, min(SHARED_CANDIDATES, z.shape[2]))
                    rebuilt = [_merged(z, memory, list(s), *best) for s in subsets]
                else:
                    rebuilt = [_plain(z, memory, list(s), lookup) for s in subsets]
                found[lookup].append(1 - xp.stack([cosines(query, each) for each in rebuilt]))
        return {lookup: xp.stack(layers, axis=1) for lookup, layers in found.items()}

    def cls_distances(self, image: ImageTokens, subset: tuple[int, ...]) -> Array:
        """1 − max_k⟨c, c_k⟩ of each layer."""
        return cls_distances(image.cls, self._cls[list(subset)])


def _merged(z: Array, memory: Array, subset: list[int], values: Array, index: Array) -> Array:
    """Sparsemax over a subset, from the best candidates of each support image."""
    xp, last = namespace(z), values[:, subset, -1]
    starts = like(subset, index)[:, None] * z.shape[2]
    values, index = _flat(values[:, subset]), _flat(index[:, subset] + starts)
    if len(subset) > 1:
        values, order = top_k(values, min(MERGED_CANDIDATES, values.shape[1]))
        index = gathered(index, order)
    weights = project_sorted(values)
    threshold = values[:, :1] - weights[:, :1] - THRESHOLD_SLACK
    incomplete = len(subset) * SHARED_CANDIDATES < z.shape[1] * z.shape[2]
    unsure = xp.any(last > threshold, axis=1) & incomplete
    if values.shape[1] == MERGED_CANDIDATES:
        unsure |= weights[:, -1] > 0
    rebuilt = weighted_rows(_rows(memory), *trimmed(index, weights))
    if xp.any(unsure):
        rebuilt[unsure] = _plain(z[unsure], memory, subset, "sparsemax")
    return rebuilt


def _plain(z: Array, memory: Array, subset: list[int], lookup: str) -> Array:
    return rebuild(_flat(z[:, subset]), _rows(memory[subset]), lookup)


def _rows(memory: Array) -> Array:
    """The patches of all images, one below the other."""
    return namespace(memory).reshape(memory, (-1, memory.shape[2]))


def _flat(values: Array) -> Array:
    """What each query has of all images, side by side."""
    return namespace(values).reshape(values, (len(values), -1))
