"""The colour scale of any method, from the normal images alone."""

from copy import copy

import torch
from torch import Tensor

from ..detector.base import FewShotDetector
from ..encoders.tokens import ImageTokens
from ..method.memory import MemoryBank
from ..views.colours import LEVEL_IMAGES, LEVEL_QUANTILE, SPAN


def good_scale(detector: FewShotDetector) -> tuple[float, float]:
    """Where pictures begin to glow, at the score that 99 % of good patches stay below, and the top.

    See `colours.colour_scale`, which does the same for Sparse Hyper Matching alone.
    """
    low = max(float(good_scores(detector).quantile(LEVEL_QUANTILE)), 1e-6)
    return low, SPAN * low


def good_scores(detector: FewShotDetector) -> Tensor:
    """The scores of patches of good parts.

    Each normal image is scored by a copy of the method that has never seen it, nor any turned view
    of it; of a lone image, one half of its patches by a copy that knows the other half.
    """
    views = detector.memory_.views
    if len(views) == 1:
        return _half_by_half(detector)
    return torch.cat([_left_out(detector, group) for group in views[:LEVEL_IMAGES]])


def _left_out(detector: FewShotDetector, views: list[int]) -> Tensor:
    bank = detector.memory_
    image = ImageTokens(bank.patches_of(views[0]), bank.cls[views[0]])
    return detector.leaving_out(views).patch_scores(image)


def _half_by_half(detector: FewShotDetector) -> Tensor:
    """The white squares of a chessboard scored by what is known of the black ones.

    Methods may expect whole grids, so each half fills the places of the other with the patch next
    to them.
    """
    bank, grid = detector.memory_, detector.settings.grid
    if grid == 1:
        return torch.zeros(1)
    places = torch.arange(grid * grid, device=bank.cls.device).reshape(grid, grid)
    columns = torch.arange(grid, device=places.device)
    beside = places[:, torch.where((columns ^ 1) < grid, columns ^ 1, columns - 1)]
    white = (columns[:, None] + columns) % 2 == 1
    known = torch.where(white, beside, places).flatten()
    asked = torch.where(white, places, beside).flatten()
    half = MemoryBank(tuple(layer[known] for layer in bank.patches), bank.cls[:1], bank.images[:1])
    image = ImageTokens(tuple(layer[asked] for layer in bank.patches), bank.cls[0])
    return copy(detector).remember(half).patch_scores(image)[white.flatten()]
