"""The same similarities serve all runs, shots and lookups: what makes the protocol fast.

The support sets of a category overlap, so each query is compared once with the pool of all
support images. For sparsemax the best candidates of each support image are found once as well; a
support set then merges those of its images.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..encoders.tokens import ImageTokens
from ..method.lookups import project_sorted, rebuild, trimmed, weighted_rows
from ..method.scoring import cls_distances

CANDIDATES = 64
"""Kept of each support image; rows that need more are computed from all similarities."""

MERGED = 128
"""Kept of a support set; the same holds."""

SLACK = 1e-6
"""Rounding: a candidate this close to the threshold counts as one that may be active."""


class SharedMatcher:
    """Reconstruction distances of one query image to many subsets of a pool of support images."""

    def __init__(self, pool: Sequence[ImageTokens]) -> None:
        self._memory = [torch.cat(layer) for layer in zip(*(i.patches for i in pool), strict=True)]
        self._cls = torch.stack([image.cls for image in pool])
        self._size = pool[0].patches[0].shape[0]

    def distances(
        self, image: ImageTokens, subsets: Sequence[tuple[int, ...]], lookups: Sequence[str]
    ) -> dict[str, Tensor]:
        """1 − cos(q, ε) for each lookup: (subsets, layers, N)."""
        found: dict[str, list[list[Tensor]]] = {lookup: [] for lookup in lookups}
        for query, memory in zip(image.patches, self._memory, strict=True):
            z = query @ memory.T
            for lookup in lookups:
                if lookup == "sparsemax":
                    rebuilt = self._sparsemax(z, memory, subsets)
                else:
                    rebuilt = [self._plain(z, memory, subset, lookup) for subset in subsets]
                found[lookup].append(
                    [1 - torch.cosine_similarity(query, normal, dim=-1) for normal in rebuilt]
                )
        return {
            lookup: torch.stack([torch.stack(layer) for layer in layers], dim=1)
            for lookup, layers in found.items()
        }

    def cls_distances(self, image: ImageTokens, subset: tuple[int, ...]) -> Tensor:
        """1 − max_k⟨c, c_k⟩ of each layer."""
        return cls_distances(image.cls, self._cls[list(subset)])

    def _sparsemax(
        self, z: Tensor, memory: Tensor, subsets: Sequence[tuple[int, ...]]
    ) -> list[Tensor]:
        used = sorted({image for subset in subsets for image in subset})
        best = {image: self._best(z, image) for image in used}
        return [self._merged(z, memory, subset, best) for subset in subsets]

    def _best(self, z: Tensor, image: int) -> tuple[Tensor, Tensor]:
        start = image * self._size
        columns = z[:, start : start + self._size]
        values, index = columns.topk(min(CANDIDATES, self._size), dim=-1)
        return values, index + start

    def _merged(
        self,
        z: Tensor,
        memory: Tensor,
        subset: tuple[int, ...],
        best: dict[int, tuple[Tensor, Tensor]],
    ) -> Tensor:
        values = torch.cat([best[image][0] for image in subset], dim=1)
        index = torch.cat([best[image][1] for image in subset], dim=1)
        if len(subset) > 1:
            values, order = values.topk(min(MERGED, values.shape[1]), dim=-1)
            index = index.gather(-1, order)
        weights = project_sorted(values)
        threshold = values[:, :1] - weights[:, :1] - SLACK
        last = torch.stack([best[image][0][:, -1] for image in subset], dim=1)
        unsure = (last > threshold).any(dim=1) & (last.shape[1] * CANDIDATES < z.shape[1])
        if values.shape[1] == MERGED:
            unsure |= weights[:, -1] > 0
        rebuilt = weighted_rows(memory, *trimmed(index, weights))
        if unsure.any():
            rebuilt[unsure] = self._plain(z[unsure], memory, subset, "sparsemax")
        return rebuilt

    def _plain(self, z: Tensor, memory: Tensor, subset: tuple[int, ...], lookup: str) -> Tensor:
        slices = [slice(image * self._size, (image + 1) * self._size) for image in subset]
        columns = torch.cat([z[:, part] for part in slices], dim=1)
        return rebuild(columns, torch.cat([memory[part] for part in slices]), lookup)
