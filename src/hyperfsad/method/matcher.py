"""From the tokens of an image to the distance of each patch from normal, at each scale."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..errors import UsageError
from .matching import LOOKUPS, rebuild
from .memory import MemoryBank
from .pruning import MemoryLayer
from .scales import SCALES, at_scale
from .scoring import mean_of_layers, patch_scores


class Inside(Protocol):
    """Tells which patches are compared at all."""

    def patches(self, layers: Sequence[Tensor], grid: int) -> Tensor:
        """Those of an image, given its tokens, (N,)."""

    def rows(self, bank: MemoryBank, grid: int) -> Tensor | None:
        """Those of a memory bank, (K·N,); None means all."""


@dataclass(frozen=True)
class Comparison:
    """How patches are compared with normal ones."""

    grid: int
    lookup: str = "sparsemax"
    sharpness: float = 1.0
    """Similarities are multiplied by it before the lookup: the larger, the fewer normal patches
    rebuild a patch."""
    scales: tuple[int, ...] = (1,)
    inside: Inside | None = None
    """None: all patches are compared."""

    def __post_init__(self) -> None:
        if self.lookup not in LOOKUPS:
            raise UsageError(f"The lookup is one of {', '.join(LOOKUPS)}, not {self.lookup!r}.")
        if not 0 < self.sharpness <= 1000:
            raise UsageError(f"The sharpness lies between 0 and 1000, not at {self.sharpness}.")
        if not self.scales or not set(self.scales) <= set(SCALES):
            raise UsageError(f"The scales are 1 and 3, not {list(self.scales)}.")

    def patches(self, layers: Sequence[Tensor]) -> Tensor | None:
        """The patches of an image that are compared, (N,); None means all."""
        return None if self.inside is None else self.inside.patches(layers, self.grid)

    def rows(self, bank: MemoryBank) -> Tensor | None:
        """The rows of a memory bank that they are compared with, (K·N,); None means all."""
        return None if self.inside is None else self.inside.rows(bank, self.grid)

    def tokens(
        self, layers: Sequence[Tensor], scale: int, inside: Tensor | None = None
    ) -> list[Tensor]:
        """The tokens of each layer at a scale, of those inside alone."""
        found = [at_scale(layer, self.grid, scale, inside) for layer in layers]
        return found if inside is None else [layer[inside] for layer in found]


class Matcher:
    """A memory bank, ready to be asked."""

    def __init__(self, bank: MemoryBank, how: Comparison) -> None:
        self._how = how
        inside = how.rows(bank)
        self._scales = [
            [
                MemoryLayer(layer, how.lookup, how.sharpness)
                for layer in how.tokens(bank.patches, scale, inside)
            ]
            for scale in how.scales
        ]

    def distances(self, patches: Sequence[Tensor]) -> Tensor:
        """1 − cos(q, ε) of each patch, averaged over the layers: (scales, N); 0 outside."""
        inside = self._how.patches(patches)
        found = distances(self._scales, patches, self._how, inside)
        if inside is None:
            return found
        whole = found.new_zeros(len(found), len(inside))
        whole[:, inside] = found
        return whole


def distances(
    scales: Sequence[Iterable[MemoryLayer]],
    patches: Sequence[Tensor],
    how: Comparison,
    inside: Tensor | None = None,
) -> Tensor:
    """1 − cos(q, ε) of each patch inside from the layers of each scale, one after the other."""
    return torch.stack(
        [
            mean_of_layers(
                layer.distances(query)
                for query, layer in zip(how.tokens(patches, scale, inside), layers, strict=True)
            )
            for scale, layers in zip(how.scales, scales, strict=True)
        ]
    )


def left_out(bank: MemoryBank, views: Sequence[int], how: Comparison) -> Tensor:
    """The distances of a normal image, the first of its views, from the others, (scales, N).

    Only of patches that are compared.
    """
    patches = bank.patches_of(views[0])
    found = Matcher(bank.without(*views), how).distances(patches)
    inside = how.patches(patches)
    return found if inside is None else found[:, inside]


def against_itself(bank: MemoryBank, how: Comparison) -> Tensor:
    """The distances of a lone normal image from itself, each patch without itself and those near
    enough to share pixels with it, (scales, N); only of those that are compared."""
    inside = how.rows(bank)
    places = torch.cartesian_prod(torch.arange(how.grid), torch.arange(how.grid))
    apart = (places[:, None] - places[None]).abs().amax(dim=-1).to(bank.cls.device)
    if inside is not None:
        apart = apart[inside][:, inside]
    found = []
    for scale in how.scales:
        layers = how.tokens(bank.patches, scale, inside)
        rebuilt = [
            rebuild(
                (how.sharpness * layer @ layer.T).masked_fill(apart <= scale, -how.sharpness),
                layer,
                how.lookup,
            )
            for layer in layers
        ]
        found.append(patch_scores(layers, rebuilt))
    asked = how.patches(bank.patches) if inside is None else None
    return torch.stack(found) if asked is None else torch.stack(found)[:, asked]
