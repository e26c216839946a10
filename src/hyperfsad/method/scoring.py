"""Dual-Branch Image Scoring (Section 4.3): the map, its pooling, and the scores of the branches.

`branches` names the branches and sums them; `ImageScoring` here computes them.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import UsageError
from .branches import BranchScores


@dataclass(frozen=True)
class Pooling:
    """f_pool: the mean of the `count` largest values of the map, or of the largest `share`."""

    name: str
    count: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, name: str) -> "Pooling":
        """`max`, `top-10` (the ten largest) or `top-1%` (the largest hundredth)."""
        if name == "max":
            return cls(name, count=1)
        match = re.fullmatch(r"top-(\d+(?:\.\d+)?)(%?)", name)
        number = float(match[1]) if match else 0.0
        if match and match[2] and 0 < number <= 100:
            return cls(name, share=number / 100)
        if match and not match[2] and number >= 1 and number.is_integer():
            return cls(name, count=int(number))
        raise UsageError(f"The pooling is max, top-N or top-P% (as top-10, top-1%), not {name!r}.")

    def __call__(self, anomaly_map: Tensor, patches: int | None = None) -> Tensor:
        """`patches` says what a share is a share of, where that is not the map itself."""
        values = anomaly_map.flatten()
        count = self.patches_of(len(values) if patches is None else patches)
        return values.topk(min(count, len(values))).values.mean()

    def patches_of(self, whole: int) -> int:
        """How many of so many values are averaged, if there are as many."""
        count = self.count if self.count is not None else math.ceil((self.share or 0) * whole)
        return max(count, 1)


def patch_scores(queries: Sequence[Tensor], rebuilt: Sequence[Tensor]) -> Tensor:
    """S_q: 1 − cos(Q, E), averaged over the layers (Equation 9). One (N, D) tensor a layer."""
    return mean_of_layers(
        1 - torch.cosine_similarity(query, normal, dim=-1)
        for query, normal in zip(queries, rebuilt, strict=True)
    )


def mean_of_layers(distances: Iterable[Tensor]) -> Tensor:
    """The map from the distances 1 − cos(Q, E) of each layer; rounding never makes it negative."""
    return torch.stack(list(distances)).mean(dim=0).clamp(min=0)


def cls_distances(query: Tensor, memory: Tensor) -> Tensor:
    """1 − max_k⟨c, c_k⟩ of each layer (Equation 4), from (layers, D) and (K, layers, D)."""
    similarities = torch.einsum("ld,kld->kl", query, memory)
    return (1 - similarities.amax(dim=0)).clamp(min=0)


def cls_score(query: Tensor, memory: Tensor) -> Tensor:
    """S_cls: the mean of these distances over the layers (Equation 4)."""
    return cls_distances(query, memory).mean()


@dataclass(frozen=True)
class ImageScoring:
    """How an image score comes about: from the branches that have a weight."""

    pooling: Pooling
    weights: Mapping[str, float]

    def __call__(
        self, patches: Tensor, cls: Tensor, normal_cls: Tensor, missing: float = 0.0
    ) -> BranchScores:
        """From the distances of the patches that count, the CLS tokens c and c_k, and what the
        image lacks of good parts (`missing.py`)."""
        scores: dict[str, Callable[[], Tensor | float]] = {
            "map": lambda: self.pooling(patches),
            "cls": lambda: cls_score(cls, normal_cls),
            "missing": lambda: missing,
        }
        values = {name: float(scores[name]()) for name in self.weights}
        return BranchScores(values, self.weights)
