"""Missing pieces (`method/missing.py`) for a batch of images, as a graph can hold them."""

import torch
from torch import Tensor, nn

from ..method.missing import (
    AROUND,
    FLOOR,
    MOST,
    MOST_SHOWN,
    NEAR,
    NEAREST,
    POOLING,
    SHOWN,
    MissingPieces,
)


class Lacking(nn.Module):
    """What images lack of the good parts that they resemble most."""

    images: Tensor
    cls: Tensor
    usual: Tensor
    around: Tensor
    row: Tensor
    column: Tensor
    steps: Tensor

    def __init__(self, pieces: MissingPieces, grid: int) -> None:
        super().__init__()
        self._grid, self._count = grid, grid * grid
        self._pooled = min(POOLING.patches_of(self._count), self._count)
        usual = torch.stack([pieces.variation(number) for number in range(len(pieces.images))])
        own = torch.arange(self._count)
        self.register_buffer("images", torch.stack(list(pieces.images)).cpu().clone())
        self.register_buffer("cls", pieces.cls.cpu().clone())
        self.register_buffer("usual", usual.cpu())
        self.register_buffer("around", _neighbours(grid))
        self.register_buffer("row", own // grid)
        self.register_buffer("column", own % grid)
        self.register_buffer("steps", torch.arange(-NEAR, NEAR + 1))

    def forward(self, patches: Tensor, cls: Tensor) -> tuple[Tensor, Tensor]:
        """The score of each image and what it adds to the map: (images,) and (images, N)."""
        images, usual = self._resembled(cls)
        similarities = images @ patches[:, None].transpose(-1, -2)
        residuals, expected = self._looked_for(similarities)
        excess = ((residuals - usual) / (usual + FLOOR)).clamp(max=MOST)
        scores = excess.topk(self._pooled, dim=-1).values.mean(dim=-1).clamp(min=0)
        least = _first_least(scores)
        place = least[:, :, None].expand(-1, -1, self._count)
        excess, expected = excess.gather(1, place)[:, 0], expected.gather(1, place)[:, 0]
        values = torch.where(_largest(excess, MOST_SHOWN) & (excess > SHOWN), excess, 0.0)
        there = expected[:, :, None] == torch.arange(self._count)
        added = (values[:, :, None] * there.to(values.dtype)).amax(dim=1)
        return scores.gather(1, least)[:, 0], added

    def _resembled(self, cls: Tensor) -> tuple[Tensor, Tensor]:
        """The patches of the good parts that each image is asked about, in their order, and how
        these vary: (images or 1, few, N, D) and (images or 1, few, N)."""
        if len(self.images) <= NEAREST:
            return self.images[None], self.usual[None]
        nearest = (cls @ self.cls.T).topk(NEAREST, dim=-1).indices.to(cls.dtype)
        nearest = nearest.topk(NEAREST, dim=-1, largest=False).values.long()
        return self.images[nearest], self.usual[nearest]

    def _looked_for(self, similarities: Tensor) -> tuple[Tensor, Tensor]:
        """The residual of each patch of each good part, and where it is expected."""
        grid = self._grid
        found = similarities.argmax(dim=-1)
        row = torch.div(found, grid, rounding_mode="trunc")
        column = found - row * grid
        row = self.row + self._median(row - self.row)
        column = self.column + self._median(column - self.column)
        inside = (row >= 0) & (row < grid) & (column >= 0) & (column < grid)
        row, column = row.clamp(0, grid - 1), column.clamp(0, grid - 1)
        rows = (row[..., None, None] + self.steps[:, None]).clamp(0, grid - 1)
        columns = (column[..., None, None] + self.steps).clamp(0, grid - 1)
        near = (rows * grid + columns).flatten(-2)
        best = similarities.gather(-1, near).amax(dim=-1)
        return (1 - best).clamp(min=0) * inside.to(best.dtype), row * grid + column

    def _median(self, moves: Tensor) -> Tensor:
        """The median of whole numbers over the neighbourhood of each patch; their count is odd."""
        around = moves.float()[..., self.around]
        middle = self.around.shape[1] // 2 + 1
        return around.topk(middle, dim=-1).values[..., -1].long()


def _neighbours(grid: int) -> Tensor:
    """The patches around each, mirrored at the border, (N, side²)."""
    reach = min(AROUND // 2, grid - 1)
    line = torch.arange(grid)[:, None] + torch.arange(-reach, reach + 1)
    line = line.abs()
    line = torch.where(line > grid - 1, 2 * (grid - 1) - line, line)
    return (line[:, None, :, None] * grid + line[None, :, None, :]).reshape(grid * grid, -1)


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
