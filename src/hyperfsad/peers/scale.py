"""The colour scale of any method, from the normal images alone."""

from copy import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..encoders.tokens import ImageTokens
from ..method.memory import MemoryBank
from ..views.view import LEVEL_IMAGES, scale_of

if TYPE_CHECKING:
    from .peer import Peer


def good_scale(detector: "Peer") -> tuple[float, float]:
    """Where pictures begin to glow, at the score that 99 % of good patches stay below, and the top.

    See `colours.colour_scale`, which does the same for Sparse Hyper Matching alone.
    """
    return scale_of(good_scores(detector))


def good_scores(detector: "Peer") -> Tensor:
    """The scores of patches of good parts.

    Each normal image is scored by a copy of the method that has never seen it, nor any turned view
    of it; of a lone image, one half of its patches by a copy that knows the other half.
    """
    views = detector.memory_.entries
    if len(views) == 1:
        return _half_by_half(detector)
    return torch.cat([_left_out(detector, group) for group in views[:LEVEL_IMAGES]])


def _left_out(detector: "Peer", views: list[int]) -> Tensor:
    bank = detector.memory_
    image = ImageTokens(bank.patches_of(views[0]), bank.cls[views[0]])
    return detector.leaving_out(views).patch_scores(image)


def _half_by_half(detector: "Peer") -> Tensor:
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
