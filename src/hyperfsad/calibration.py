"""What normal images alone tell of the level of their maps."""

import torch
from torch import Tensor

from .matching import rebuild
from .memory import MemoryBank
from .pruning import MemoryLayer
from .scoring import mean_of_layers, patch_scores

LEVEL_IMAGES = 4
"""Normal images that set the level; more cost time and move it little."""

LEVEL_BANK = 16
"""Normal images that they are compared with; hundreds would cost minutes and change no colour."""

LEVEL_QUANTILE = 0.99

SPAN = 2.5
"""The scale ends at this multiple of its start. On five real products (bottle, tile, bracket,
cookie, chest X-ray) good parts then stay in its lower third; clear defects reach its upper half."""


def colour_scale(bank: MemoryBank, grid: int, lookup: str) -> tuple[float, float]:
    """Where pictures of a map begin to glow, and the top of their scale.

    It begins at the level that 99 % of the patches of a good part stay below: each normal image
    against the others, or a lone one against itself without the patch in question and its
    neighbours (measured on those five: 0.19 to 0.25, where further good parts have 0.19 to 0.31).
    """
    bank = bank.first(LEVEL_BANK)
    if len(bank) == 1:
        maps = [_against_itself(bank, grid, lookup)]
    else:
        maps = [_left_out(bank, index, lookup) for index in range(min(len(bank), LEVEL_IMAGES))]
    low = max(float(torch.cat(maps).quantile(LEVEL_QUANTILE)), 1e-6)
    return low, SPAN * low


def _left_out(bank: MemoryBank, index: int, lookup: str) -> Tensor:
    size = bank.patches[0].shape[0] // len(bank)
    queries = [layer[index * size : (index + 1) * size] for layer in bank.patches]
    others = bank.without(index).patches
    return mean_of_layers(
        MemoryLayer(other, lookup).distances(query)
        for query, other in zip(queries, others, strict=True)
    )


def _against_itself(bank: MemoryBank, grid: int, lookup: str) -> Tensor:
    places = torch.cartesian_prod(torch.arange(grid), torch.arange(grid)).to(bank.cls.device)
    near = (places[:, None] - places[None]).abs().amax(dim=-1) <= 1
    rebuilt = [
        rebuild((layer @ layer.T).masked_fill(near, -1.0), layer, lookup) for layer in bank.patches
    ]
    return patch_scores(bank.patches, rebuilt)
