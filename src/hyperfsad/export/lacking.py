"""Missing pieces (`method/missing.py`) for a batch of images, as a graph can hold them."""

import torch
from torch import Tensor, nn

from ..method.missing import (
    COMPARED_PARTS,
    MAX_SHOWN,
    MIN_SHOWN,
    MISSING_POOLING,
    MissingPieces,
    excess_of,
    searched,
)


class Lacking(nn.Module):
    """What images lack of the good parts that they resemble most."""

    images: Tensor
    cls: Tensor
    usual: Tensor

    def __init__(self, pieces: MissingPieces, grid: int) -> None:
        super().__init__()
        self._grid, self._count = grid, grid * grid
        self._pooled = min(MISSING_POOLING.patches_of(self._count), self._count)
        usual = torch.stack([pieces.variation(number) for number in range(len(pieces.images))])
        self.register_buffer("images", torch.stack(list(pieces.images)).cpu().clone())
        self.register_buffer("cls", pieces.cls.cpu().clone())
        self.register_buffer("usual", usual.cpu())

    def forward(self, patches: Tensor, cls: Tensor) -> tuple[Tensor, Tensor]:
        """The score of each image and what it adds to the map: (images,) and (images, N)."""
        images, usual = self._resembled(cls)
        similarities = images @ patches[:, None].transpose(-1, -2)
        residuals, expected = searched(similarities, self._grid)
        excess = excess_of(residuals, usual)
        scores = excess.topk(self._pooled, dim=-1).values.mean(dim=-1).clamp(min=0)
        least = _first_least(scores)
        place = least[:, :, None].expand(-1, -1, self._count)
        excess, expected = excess.gather(1, place)[:, 0], expected.gather(1, place)[:, 0]
        values = torch.where(_largest(excess, MAX_SHOWN) & (excess > MIN_SHOWN), excess, 0.0)
        there = expected[:, :, None] == torch.arange(self._count)
        added = (values[:, :, None] * there.to(values.dtype)).amax(dim=1)
        return scores.gather(1, least)[:, 0], added

    def _resembled(self, cls: Tensor) -> tuple[Tensor, Tensor]:
        """The patches of the good parts that each image is asked about, in their order, and how
        these vary: (images or 1, few, N, D) and (images or 1, few, N)."""
        if len(self.images) <= COMPARED_PARTS:
            return self.images[None], self.usual[None]
        nearest = (cls @ self.cls.T).topk(COMPARED_PARTS, dim=-1).indices.to(cls.dtype)
        nearest = nearest.topk(COMPARED_PARTS, dim=-1, largest=False).values.long()
        return self.images[nearest], self.usual[nearest]


def _first_least(scores: Tensor) -> Tensor:
    """The place of the smallest score of each row, the first of equals, (images, 1).

    Runtimes differ in which of equals their operators take, so none of these is asked.
    """
    equals = scores <= scores.amin(dim=1, keepdim=True)
    count = scores.shape[1]
    return torch.where(equals, torch.arange(count), count).amin(dim=1, keepdim=True)


def _largest(values: Tensor, count: int) -> Tensor:
    """Which values of each row are among the largest, of equals the first, as a mask."""
    ours, others = values[:, :, None], values[:, None]
    places = torch.arange(values.shape[1])
    before = (others > ours) | ((others == ours) & (places < places[:, None]))
    return before.to(values.dtype).sum(dim=-1) < count
