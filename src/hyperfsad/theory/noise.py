"""Moves real tokens a little and compares what follows with what is proven (Appendix A)."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ..method.matching import sparsemax
from .layerwise import in_chunks


@dataclass(frozen=True)
class Disturbed:
    """The largest ratios that noise brought out; each has a proven limit."""

    weights: float
    """‖w − w'‖/‖z − z'‖, at most 1."""
    rebuilt: float
    """‖ε − ε'‖/‖q − q'‖, at most ‖P‖²."""
    cls: float
    """|s − s'|/‖c − c'‖, at most 1."""

    @classmethod
    def largest(cls, found: "Sequence[Disturbed]") -> "Disturbed":
        """The largest of each."""
        return cls(*(max(getattr(one, name.name) for one in found) for name in fields(cls)))


def disturb(
    queries: Tensor, memory: Tensor, token: Tensor, normal: Tensor, noise: float, seed: int = 0
) -> Disturbed:
    """Moves unit tokens by about `noise` and compares what follows; one layer, in float64."""
    random = torch.Generator().manual_seed(seed)
    queries, memory, token, normal = (t.cpu().double() for t in (queries, memory, token, normal))
    moved = moved_by(queries, noise, random)
    weights = rebuilt = 0.0
    for before, after in zip(in_chunks(queries, memory), in_chunks(moved, memory), strict=True):
        z, changed = before @ memory.T, after @ memory.T
        w, other = sparsemax(z), sparsemax(changed)
        apart = (before - after).norm(dim=1)
        weights = max(weights, _ratio((w - other).norm(dim=1), (z - changed).norm(dim=1)))
        rebuilt = max(rebuilt, _ratio(((w - other) @ memory).norm(dim=1), apart))
    tokens = moved_by(token.expand(64, -1), noise, random)
    scores = 1 - (torch.cat([token[None], tokens]) @ normal.T).amax(dim=1)
    cls = _ratio((scores[1:] - scores[0]).abs(), (tokens - token).norm(dim=1))
    return Disturbed(weights, rebuilt, cls)


def moved_by(tokens: Tensor, noise: float, random: torch.Generator) -> Tensor:
    """Unit tokens near unit tokens: a random step of length `noise`, then length 1 again."""
    step = torch.randn(tokens.shape, generator=random, dtype=tokens.dtype)
    step *= noise / step.norm(dim=-1, keepdim=True)
    return torch.nn.functional.normalize(tokens + step, dim=-1)


def _ratio(above: Tensor, below: Tensor) -> float:
    return float((above / below.clamp(min=1e-300)).max())
