"""Sparse Hyper Matching (Section 4.2): from patches to their distances from normal, 1 − cos(q, ε).

A distance is a mean over the layers (Equation 9). The paper compares patches as they are; a second
scale compares each averaged with its neighbours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import UsageError
from .lookups import LOOKUPS, rebuild
from .pruning import MemoryLayer
from .scoring import mean_of_layers, patch_scores

SCALES = (1, 3)


@dataclass(frozen=True)
class Comparison:
    """How patches are compared with normal ones."""

    grid: int
    """Patches along one side of what the encoder sees at once."""
    lookup: str = "sparsemax"
    sharpness: float = 1.0
    """Similarities are multiplied by it before the lookup: the larger, the fewer normal patches
    rebuild a patch."""
    scales: tuple[int, ...] = (1,)
    smooth: bool = False
    """Whether the map of a whole image is averaged with its neighbours; its score never is."""

    def __post_init__(self) -> None:
        if self.lookup not in LOOKUPS:
            raise UsageError(f"The lookup is one of {', '.join(LOOKUPS)}, not {self.lookup!r}.")
        if not 0 < self.sharpness <= 1000:
            raise UsageError(f"The sharpness lies between 0 and 1000, not at {self.sharpness}.")
        if not self.scales or not set(self.scales) <= set(SCALES):
            raise UsageError(f"The scales are 1 and 3, not {list(self.scales)}.")

    def map_of(self, distances: Tensor, kept: Tensor | None = None) -> Tensor:
        """The map of an image from its distances at all scales, (N,) from (scales, N)."""
        found = distances.mean(dim=0)
        return smoothed(found, self.grid, kept) if self.smooth else found

    def tokens(
        self, layers: Iterable[Tensor], scale: int, kept: Tensor | None = None
    ) -> list[Tensor]:
        """The tokens of each layer at a scale; `kept` masks those that are compared at all."""
        found = [at_scale(layer, self.grid, scale, kept) for layer in layers]
        return found if kept is None else [layer[kept] for layer in found]

    def memory_layers(
        self, layers: Sequence[Tensor], kept: Tensor | None = None
    ) -> list[list[MemoryLayer]]:
        """The memory of each scale and layer, ready to be asked."""
        return [
            [
                MemoryLayer(tokens, self.lookup, self.sharpness)
                for tokens in self.tokens(layers, scale, kept)
            ]
            for scale in self.scales
        ]


class Matcher:
    """The patches of a memory bank, ready to be asked."""

    def __init__(
        self, memory: Sequence[Tensor], how: Comparison, kept: Tensor | None = None
    ) -> None:
        """`memory` is P^l for each layer, (K·N, D); `kept` masks the rows that are used, (K·N,)."""
        self._how = how
        self._scales = how.memory_layers(memory, kept)
        self._kept = kept

    def distances(
        self,
        patches: Sequence[Tensor],
        kept: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """1 − cos(q, ε) of each patch, averaged over the layers: (scales, N).

        `kept` masks the patches that are compared, (N,); the distance of others is 0. `rows` masks
        the rows of the memory that they are compared with, (K·N,).
        """
        scales: Sequence[Iterable[MemoryLayer]] = self._scales
        if rows is not None:
            index = (rows if self._kept is None else rows[self._kept]).nonzero().flatten()
            scales = [[layer.only(index) for layer in layers] for layers in self._scales]
        found = distances(scales, patches, self._how, kept)
        if kept is None:
            return found
        whole = found.new_zeros(len(found), len(kept))
        whole[:, kept] = found
        return whole


def distances(
    scales: Sequence[Iterable[MemoryLayer]],
    patches: Sequence[Tensor],
    how: Comparison,
    kept: Tensor | None = None,
) -> Tensor:
    """1 − cos(q, ε) of each kept patch from the layers of each scale, one after the other."""
    return torch.stack(
        [
            mean_of_layers(
                layer.distances(query)
                for query, layer in zip(how.tokens(patches, scale, kept), layers, strict=True)
            )
            for scale, layers in zip(how.scales, scales, strict=True)
        ]
    )


def distances_apart(
    queries: Sequence[Sequence[Tensor]],
    memory: Sequence[Sequence[Tensor]],
    apart: Tensor,
    how: Comparison,
) -> Tensor:
    """The distances of an image from itself, each patch without those that share pixels with it.

    `queries` and `memory` hold the tokens of each scale and layer; `apart` says how many patches
    apart the places of a query and of a row are. (scales, queries)
    """
    found = []
    for scale, of_queries, of_memory in zip(how.scales, queries, memory, strict=True):
        rebuilt = [
            rebuild(
                (how.sharpness * query @ rows.T).masked_fill(apart <= scale, -how.sharpness),
                rows,
                how.lookup,
            )
            for query, rows in zip(of_queries, of_memory, strict=True)
        ]
        found.append(patch_scores(of_queries, rebuilt))
    return torch.stack(found)


def smoothed(values: Tensor, grid: int, kept: Tensor | None = None) -> Tensor:
    """A map (N,) averaged with its neighbours: 1 2 1 along both axes, as in `at_scale`.

    What lies outside the image does not count, nor do patches that are not `kept`; these get 0.
    """
    counts = values.new_ones(len(values)) if kept is None else kept.to(values)
    line = values.new_tensor([1.0, 2.0, 1.0])
    maps = torch.stack([values * counts, counts]).reshape(2, 1, grid, grid)
    spread = torch.nn.functional.conv2d(maps, (line[:, None] * line)[None, None], padding=1)
    mean: Tensor = counts * spread[0].flatten() / spread[1].flatten().clamp(min=1.0)
    return mean


def at_scale(tokens: Tensor, grid: int, scale: int, kept: Tensor | None = None) -> Tensor:
    """Unit tokens (images·N, D), patches row by row, as they are or averaged over 3×3 patches.

    The neighbours weigh 1 2 1 along both axes, so that the patch itself counts most; what lies
    outside the image does not count, nor do rows that are not `kept`, (images·N,).
    """
    if scale == 1:
        return tokens
    if kept is not None:
        tokens = tokens * kept[:, None]  # their weight goes with the length of the mean
    maps = tokens.reshape(-1, grid, grid, tokens.shape[-1])
    mean = _smoothed(_smoothed(maps, 1), 2)
    return torch.nn.functional.normalize(mean, dim=-1).reshape(tokens.shape)


def _smoothed(maps: Tensor, axis: int) -> Tensor:
    size = maps.shape[axis]
    total, weight = 2 * maps, maps.new_full((size,), 4.0)
    weight[0] -= 1
    weight[-1] -= 1
    inner = size - 1
    total.narrow(axis, 1, inner).add_(maps.narrow(axis, 0, inner))
    total.narrow(axis, 0, inner).add_(maps.narrow(axis, 1, inner))
    shape = [1] * maps.ndim
    shape[axis] = size
    return total / weight.reshape(shape)
