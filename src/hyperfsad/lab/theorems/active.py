"""What sparsemax selects for a patch, and what that decides (Proposition 1 and Appendix A).

While the active set R of a token q stays the same, its reconstruction is p̄ + G_R·q, where G_R is
the scatter of the selected rows; and rows that are at most τ similar change nothing at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from ...method.lookups import in_chunks, sparsemax_candidates
from ...quality.tokens import Array, numbers

PATCHES_AT_ONCE = 128
"""Active sets whose spectra are taken at once: 128 of 74 rows of 384 are 29 MB in float64."""


def softmax_mass(log_mass: Array, similarity: Array, count: int) -> Array:
    """Equation 15: the weight that dense softmax gives `count` more rows of one similarity.

    J·e^a/(Σe^z + J·e^a), which goes to 1 with J; sparsemax gives them 0 where a is at most τ.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (1 + np.exp(log_mass - similarity - np.log(float(count)))))


def spectral_gain(memory: Tensor) -> float:
    """‖P‖² of Equation 14: the largest eigenvalue of PᵀP."""
    square = torch.zeros(memory.shape[1], memory.shape[1], dtype=torch.float64)
    for part in torch.split(memory.cpu(), 1 << 14):
        square += part.double().T @ part.double()
    return float(torch.linalg.eigvalsh(square)[-1])


@dataclass(frozen=True)
class ActiveSets:
    """What sparsemax does for each query patch of one layer."""

    size: Array
    """|R|"""
    tau: Array
    """τ: rows at most this similar get no weight."""
    gain: Array
    """‖G_R‖: how strongly the reconstruction follows the token while R stays the same."""
    room: Array
    """How far the token may move, at least, before R changes."""
    log_mass: Array
    """log Σ e^z over the memory: what dense softmax divides by."""

    @classmethod
    def joined(cls, sets: "Sequence[ActiveSets]") -> "ActiveSets":
        """The active sets of several images, one after the other."""
        names = [name.name for name in fields(cls)]
        return cls(*(np.concatenate([getattr(found, name) for found in sets]) for name in names))


def active_sets(queries: Tensor, memory: Tensor, gains: bool = True) -> ActiveSets:
    """The active set of each query patch, and what Appendix A derives from it."""
    size, tau, gain, room, mass = (np.zeros(len(queries)) for _ in range(5))
    start = 0
    for part in in_chunks(queries, memory):
        z = part @ memory.T
        mass[start : start + len(part)] = numbers(torch.logsumexp(z, dim=1))
        for rows, index, weights in sparsemax_candidates(z):
            if not len(rows):
                continue
            values = z[rows].gather(1, index).double()
            active = weights > 0
            count = active.sum(dim=1)
            threshold = (values.where(active, values.new_zeros(())).sum(dim=1) - 1) / count
            least = values.masked_fill(~active, torch.inf).amin(dim=1) - threshold
            rest = z[rows].scatter(1, index, torch.where(active, -torch.inf, values.to(z.dtype)))
            most = threshold - rest.amax(dim=1).double()
            places = (rows + start).cpu().numpy()
            size[places], tau[places] = numbers(count), numbers(threshold)
            # z and τ each move by at most ‖q − q'‖, since the rows have length 1
            room[places] = numbers(torch.minimum(least, most).clamp(min=0) / 2)
            if gains:
                gain[places] = numbers(_gains(memory, index, active))
        start += len(part)
    return ActiveSets(size, tau, gain, room, mass)


def _gains(memory: Tensor, index: Tensor, active: Tensor) -> Tensor:
    """‖G_R‖ of Equation 18 for each active set, from the smaller product of rows with rows."""
    found = []
    for some, mask in zip(
        torch.split(index, PATCHES_AT_ONCE), torch.split(active, PATCHES_AT_ONCE), strict=True
    ):
        rows = memory[some].double() * mask[:, :, None]
        mean = rows.sum(dim=1, keepdim=True) / mask.sum(dim=1)[:, None, None]
        spread = (rows - mean) * mask[:, :, None]
        found.append(torch.linalg.eigvalsh(spread @ spread.mT)[:, -1].clamp(min=0))
    return torch.cat(found)
