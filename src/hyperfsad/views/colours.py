"""What normal images alone tell of the level of their maps."""

import torch

from ..method.matcher import Comparison, against_itself, left_out
from ..method.memory import MemoryBank

LEVEL_IMAGES = 4
"""Normal images that set the level; more cost time and move it little."""

LEVEL_BANK = 16
"""Normal images that they are compared with; hundreds would cost minutes and change no colour."""

LEVEL_VIEWS = 128
"""Views of normal images that they are compared with, where each is remembered in many."""

LEVEL_QUANTILE = 0.99

SPAN = 2.5
"""The scale ends at this multiple of its start. On five real products (bottle, tile, bracket,
cookie, chest X-ray) good parts then stay in its lower third; clear defects reach its upper half."""


def colour_scale(bank: MemoryBank, how: Comparison) -> tuple[float, float]:
    """Where pictures of a map begin to glow, and the top of their scale.

    It begins at the level that 99 % of the patches of a good part stay below: each normal image
    against the others, or a lone one against itself without the patch in question and its
    neighbours (measured on those five: 0.19 to 0.25, where further good parts have 0.19 to 0.31).
    """
    views = bank.views
    images = min(LEVEL_BANK, max(LEVEL_IMAGES, LEVEL_VIEWS // max(map(len, views))))
    bank = bank.first(sum(map(len, views[:images])))
    views = views[:images]
    if len(views) == 1:
        maps = [against_itself(bank.first(1), how)]
    else:
        maps = [left_out(bank, of_image, how) for of_image in views[:LEVEL_IMAGES]]
    level = torch.cat([scales.mean(dim=0) for scales in maps]).quantile(LEVEL_QUANTILE)
    low = max(float(level), 1e-6)
    return low, SPAN * low
