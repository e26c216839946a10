"""The active rows of a memory: which normal patches a lookup gives weight to."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from ..method.lookups import LOOKUPS, SPARSE
from ..method.matching import Comparison
from .patch import LayerEvidence, Neighbour

MOST_NEIGHBOURS = 512
"""Active patches listed of a layer: sparsemax has dozens, dense lookups have the whole memory."""

Namer: TypeAlias = Callable[[int, float, float], Neighbour]
"""The neighbour at a row of a memory, given its weight and its similarity."""


def layer_evidence(
    layer: int, query: Tensor, memory: Tensor, how: Comparison, named: Namer
) -> LayerEvidence:
    """The active rows of a memory (M, D) for one query patch (D,), `named` as neighbours."""
    similarities = query[None] @ memory.T
    sharp = how.sharpness * similarities
    if how.lookup in SPARSE:
        ((_, index, weights),) = [group for group in SPARSE[how.lookup](sharp) if len(group[0])]
        index, weights = index[0], weights[0]
    else:
        weights, index = LOOKUPS[how.lookup](sharp)[0].sort(descending=True, stable=True)
    rebuilt = weights @ memory[index]
    unexplained = 1 - float(torch.cosine_similarity(query, rebuilt, dim=0))
    active = int((weights > 0).sum())
    listed = min(active, MOST_NEIGHBOURS)
    cosines = similarities[0, index[:listed]].tolist()
    rows = zip(index[:listed].tolist(), weights[:listed].tolist(), cosines, strict=True)
    neighbours = tuple(named(row, weight, cosine) for row, weight, cosine in rows)
    rest = max(0.0, float(weights[listed:].sum())) if listed < active else 0.0
    return LayerEvidence(layer, unexplained, rest, neighbours)
