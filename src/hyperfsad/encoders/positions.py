"""How position tables are resized to another grid, where `transformers` does it differently, and
how they get into a graph."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def meta_dinov2(
    embeddings: Any, tokens: "torch.Tensor", height: int, width: int, *, mode: str = "bicubic"
) -> "torch.Tensor":
    """DINOv2 without registers, as Meta's own code does it (`interpolate_pos_encoding`).

    For n patches a side it scales the table by (n + 0.1) / 37, where `transformers` takes n / 37:
    towards the right and the bottom the two drift apart, by a tenth of a patch at the border.
    `embeddings` is the module of the model, and `mode` that of torch's `interpolate`.
    """
    import torch

    table: torch.Tensor = embeddings.position_embeddings
    side = int((table.shape[1] - 1) ** 0.5)
    patch = embeddings.patch_embeddings.patch_size
    rows, columns = height // patch[0], width // patch[1]
    if (rows, columns) == (side, side):
        return table
    cls, patches = table[:, :1], table[:, 1:]
    resized = torch.nn.functional.interpolate(
        patches.reshape(1, side, side, -1).permute(0, 3, 1, 2).float(),
        scale_factor=((rows + 0.1) / side, (columns + 0.1) / side),
        mode=mode,
    )
    resized = resized.permute(0, 2, 3, 1).reshape(1, rows * columns, -1)
    return torch.cat([cls, resized.to(cls.dtype)], dim=1)


@contextlib.contextmanager
def constant_positions(model: Any) -> Iterator[None]:
    """Positions of a `TokenModel` depend on the size alone: computed at the first call, they are
    constants later.

    So they get into a graph as torch has them; OpenVINO interpolates position tables
    differently, and tokens would be off by a hundredth.
    """
    owner, _, name = model.family.positions.rpartition(".")
    holder = model.model.get_submodule(owner)
    compute = getattr(holder, name)
    own = vars(holder).get(name)  # the family's way of resizing, if it has one
    known: list[Any] = []

    def once(*inputs: Any) -> Any:
        if not known:
            known.append(compute(*inputs))
        return known[0]

    setattr(holder, name, once)
    try:
        yield
    finally:
        delattr(holder, name)
        if own is not None:
            setattr(holder, name, own)
