"""Nearest neighbours without approximation, in bounded memory."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..method.lookups import CHUNK


def best_similarity(queries: Tensor, memory: Tensor) -> Tensor:
    """max_m⟨q, m⟩ for each row of `queries` (N, D) over the rows of `memory` (M, D), (N,)."""
    return torch.cat([(part @ memory.T).amax(dim=1) for part in _parts(queries, memory)])


def nearest(queries: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """The Euclidean distance of each query to its nearest row of the memory, and that row's index.

    The row is found by ‖m‖² − 2⟨q, m⟩, but the distance is taken from the difference itself: the
    expanded square would give a patch a distance of about 10⁻³ to itself.
    """
    squares = memory.square().sum(dim=1)
    index = torch.cat(
        [
            torch.addmm(squares, part, memory.T, alpha=-2).argmin(dim=1)
            for part in _parts(queries, memory)
        ]
    )
    return torch.linalg.vector_norm(queries - memory[index], dim=1), index


def _parts(queries: Tensor, memory: Tensor) -> Iterator[Tensor]:
    yield from torch.split(queries, max(1, CHUNK // len(memory)))
