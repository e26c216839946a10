"""The same similarities serve all runs, shots and lookups: what makes the protocol fast.

The support sets of a category overlap, so each query is compared once with the pool of all
support images. For sparsemax the best candidates of each support image are found once as well; a
support set then merges those of its images.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..encoders.encoder import ImageTokens
from ..method.lookups import project_sorted, rebuild, trimmed, weighted_rows
from ..method.scoring import cls_distances

SHARED_CANDIDATES = 64
"""Kept of each support image; rows that need more are computed from all similarities."""

MERGED_CANDIDATES = 128
"""Kept of a support set; the same holds."""

THRESHOLD_SLACK = 1e-6
"""Rounding: a candidate this close to the threshold counts as one that may be active."""


class SharedMatcher:
    """Reconstruction distances of one query image to many subsets of a pool of support images."""

    def __init__(self, pool: Sequence[ImageTokens]) -> None:
        layers = zip(*(image.patches for image in pool), strict=True)
        self._memory = [torch.stack(layer) for layer in layers]
        self._cls = torch.stack([image.cls for image in pool])

    def distances(
        self, image: ImageTokens, subsets: Sequence[tuple[int, ...]], lookups: Sequence[str]
    ) -> dict[str, Tensor]:
        """1 − cos(q, ε) for each lookup: (subsets, layers, N)."""
        found: dict[str, list[Tensor]] = {lookup: [] for lookup in lookups}
        for query, memory in zip(image.patches, self._memory, strict=True):
            # Similarities to each support image: (N, images, N), as the memory is (images, N, D).
            z = (query @ memory.flatten(0, 1).T).view(len(query), *memory.shape[:2])
            for lookup in lookups:
                if lookup == "sparsemax":
                    best = z.topk(min(SHARED_CANDIDATES, z.shape[2]), dim=-1)
                    rebuilt = [_merged(z, memory, list(s), *best) for s in subsets]
                else:
                    rebuilt = [_plain(z, memory, list(s), lookup) for s in subsets]
                cosines = [torch.cosine_similarity(query, normal, dim=-1) for normal in rebuilt]
                found[lookup].append(1 - torch.stack(cosines))
        return {lookup: torch.stack(layers, dim=1) for lookup, layers in found.items()}

    def cls_distances(self, image: ImageTokens, subset: tuple[int, ...]) -> Tensor:
        """1 − max_k⟨c, c_k⟩ of each layer."""
        return cls_distances(image.cls, self._cls[list(subset)])


def _merged(z: Tensor, memory: Tensor, subset: list[int], values: Tensor, index: Tensor) -> Tensor:
    """Sparsemax over a subset, from the best candidates of each support image."""
    last = values[:, subset, -1]
    starts = torch.tensor(subset, device=z.device)[:, None] * z.shape[2]
    values, index = values[:, subset].flatten(1), (index[:, subset] + starts).flatten(1)
    if len(subset) > 1:
        values, order = values.topk(min(MERGED_CANDIDATES, values.shape[1]), dim=-1)
        index = index.gather(-1, order)
    weights = project_sorted(values)
    threshold = values[:, :1] - weights[:, :1] - THRESHOLD_SLACK
    unsure = (last > threshold).any(dim=1) & (len(subset) * SHARED_CANDIDATES < z[0].numel())
    if values.shape[1] == MERGED_CANDIDATES:
        unsure |= weights[:, -1] > 0
    rebuilt = weighted_rows(memory.flatten(0, 1), *trimmed(index, weights))
    if unsure.any():
        rebuilt[unsure] = _plain(z[unsure], memory, subset, "sparsemax")
    return rebuilt


def _plain(z: Tensor, memory: Tensor, subset: list[int], lookup: str) -> Tensor:
    return rebuild(z[:, subset].flatten(1), memory[subset].flatten(0, 1), lookup)
