"""From the tokens of an image to the distance of each patch from normal, at each scale."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .errors import UsageError
from .matching import LOOKUPS, rebuild
from .memory import MemoryBank
from .neighbourhood import SCALES, at_scale
from .pruning import MemoryLayer
from .scoring import mean_of_layers, patch_scores


@dataclass(frozen=True)
class Comparison:
    """How patches are compared with normal ones."""

    grid: int
    lookup: str = "sparsemax"
    sharpness: float = 1.0
    """Similarities are multiplied by it before the lookup: the larger, the fewer normal patches
    rebuild a patch."""
    scales: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if self.lookup not in LOOKUPS:
            raise UsageError(f"The lookup is one of {', '.join(LOOKUPS)}, not {self.lookup!r}.")
        if not 0 < self.sharpness <= 1000:
            raise UsageError(f"The sharpness lies between 0 and 1000, not at {self.sharpness}.")
        if not self.scales or not set(self.scales) <= set(SCALES):
            raise UsageError(f"The scales are 1 and 3, not {list(self.scales)}.")

    def tokens(self, layers: Sequence[Tensor], scale: int) -> list[Tensor]:
        """The tokens of each layer at a scale."""
        return [at_scale(layer, self.grid, scale) for layer in layers]


class Matcher:
    """A memory bank, ready to be asked."""

    def __init__(self, bank: MemoryBank, how: Comparison) -> None:
        self._how = how
        self._scales = [
            [
                MemoryLayer(layer, how.lookup, how.sharpness)
                for layer in how.tokens(bank.patches, scale)
            ]
            for scale in how.scales
        ]

    def distances(self, patches: Sequence[Tensor]) -> Tensor:
        """1 − cos(q, ε) of each patch, averaged over the layers: (scales, N)."""
        return torch.stack(
            [
                mean_of_layers(
                    layer.distances(query)
                    for query, layer in zip(self._how.tokens(patches, scale), layers, strict=True)
                )
                for scale, layers in zip(self._how.scales, self._scales, strict=True)
            ]
        )


def left_out(bank: MemoryBank, views: Sequence[int], how: Comparison) -> Tensor:
    """The distances of a normal image, the first of its views, from the others, (scales, N)."""
    return Matcher(bank.without(*views), how).distances(bank.patches_of(views[0]))


def against_itself(bank: MemoryBank, how: Comparison) -> Tensor:
    """The distances of a lone normal image from itself, each patch without itself and those near
    enough to share pixels with it, (scales, N)."""
    places = torch.cartesian_prod(torch.arange(how.grid), torch.arange(how.grid))
    apart = (places[:, None] - places[None]).abs().amax(dim=-1).to(bank.cls.device)
    found = []
    for scale in how.scales:
        layers = how.tokens(bank.patches, scale)
        rebuilt = [
            rebuild(
                (how.sharpness * layer @ layer.T).masked_fill(apart <= scale, -how.sharpness),
                layer,
                how.lookup,
            )
            for layer in layers
        ]
        found.append(patch_scores(layers, rebuilt))
    return torch.stack(found)
