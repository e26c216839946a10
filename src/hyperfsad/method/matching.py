"""Sparse Hyper Matching (Section 4.2): from patches to their distances from normal, 1 − cos(q, ε).

A distance is the mean over the layers (Equation 9).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import UsageError
from .lookups import LOOKUPS, rebuild
from .pruning import MemoryLayer
from .scoring import mean_of_layers, patch_scores


@dataclass(frozen=True)
class Comparison:
    """How patches are compared with normal ones."""

    grid: int
    """Patches along one side of what the encoder sees at once."""
    lookup: str = "sparsemax"
    sharpness: float = 1.0
    """Similarities are multiplied by it before the lookup: the larger, the fewer normal patches
    rebuild a patch."""
    smooth: bool = False
    """Whether the map of a whole image is averaged with its neighbours; its score never is."""

    def __post_init__(self) -> None:
        if self.lookup not in LOOKUPS:
            raise UsageError(f"The lookup is one of {', '.join(LOOKUPS)}, not {self.lookup!r}.")
        if not 0 < self.sharpness <= 1000:
            raise UsageError(f"The sharpness lies between 0 and 1000, not at {self.sharpness}.")

    def map_of(self, distances: Tensor, kept: Tensor | None = None) -> Tensor:
        """The map of an image from the distances of its patches, (N,)."""
        return smoothed(distances, self.grid, kept) if self.smooth else distances

    def memory_layers(self, layers: Iterable[Tensor]) -> list[MemoryLayer]:
        """The memory of each layer, ready to be asked."""
        return [MemoryLayer(tokens, self.lookup, self.sharpness) for tokens in layers]


class Matcher:
    """The patches of a memory bank, ready to be asked."""

    def __init__(
        self, memory: Sequence[Tensor], how: Comparison, kept: Tensor | None = None
    ) -> None:
        """`memory` is P^l for each layer, (K·N, D); `kept` masks the rows that are used, (K·N,)."""
        self._layers = how.memory_layers(masked(memory, kept))
        self._kept = kept

    def distances(
        self,
        patches: Sequence[Tensor],
        kept: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """1 − cos(q, ε) of each patch, averaged over the layers, (N,).

        `kept` masks the patches that are compared, (N,); the distance of others is 0. `rows` masks
        the rows of the memory that they are compared with, (K·N,).
        """
        layers = self._layers
        if rows is not None:
            index = (rows if self._kept is None else rows[self._kept]).nonzero().flatten()
            layers = [layer.only(index) for layer in layers]
        found = distances(layers, masked(patches, kept))
        if kept is None:
            return found
        whole = found.new_zeros(len(kept))
        whole[kept] = found
        return whole


def masked(layers: Sequence[Tensor], kept: Tensor | None) -> Sequence[Tensor]:
    """The rows of each layer that a mask keeps; None keeps all."""
    return layers if kept is None else [layer[kept] for layer in layers]


def distances(layers: Iterable[MemoryLayer], patches: Sequence[Tensor]) -> Tensor:
    """1 − cos(q, ε) of each patch, averaged over the layers, which are asked one by one."""
    return mean_of_layers(
        layer.distances(query) for query, layer in zip(patches, layers, strict=True)
    )


def distances_apart(
    queries: Sequence[Tensor], memory: Sequence[Tensor], apart: Tensor, how: Comparison
) -> Tensor:
    """The distances of an image from itself, each patch without itself and its neighbours, (N,).

    `queries` and `memory` hold the tokens of each layer; `apart` says how many patches apart the
    places of a query and of a row are.
    """
    rebuilt = [
        rebuild(
            (how.sharpness * query @ rows.T).masked_fill(apart <= 1, -how.sharpness),
            rows,
            how.lookup,
        )
        for query, rows in zip(queries, memory, strict=True)
    ]
    return patch_scores(queries, rebuilt)


def smoothed(values: Tensor, grid: int, kept: Tensor | None = None) -> Tensor:
    """A map (N,) averaged with its neighbours: 1 2 1 along both axes.

    What lies outside the image does not count, nor do patches that are not `kept`; these get 0.
    """
    counts = values.new_ones(len(values)) if kept is None else kept.to(values)
    line = values.new_tensor([1.0, 2.0, 1.0])
    maps = torch.stack([values * counts, counts]).reshape(2, 1, grid, grid)
    spread = torch.nn.functional.conv2d(maps, (line[:, None] * line)[None, None], padding=1)
    mean: Tensor = counts * spread[0].flatten() / spread[1].flatten().clamp(min=1.0)
    return mean
