"""What the strongest place of an image has that good parts do not (ours, not the paper's).

A defect is recognised by how its place looks and, even better, by how it differs: by the residuals
q − ε of the patches where the map is highest, where ε is what the memory rebuilds of them (Section
4.2). Of one image they make a signature: for each patch the direction of its residual in the later
half of the layers, its own token in the last one, and a weight that grows with the map. Two
signatures are alike if each patch of one finds a patch like it in the other, wherever it lies.
`docs/measurements/defects.md` has what else was tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PATCHES = 8
"""The strongest ones are kept; with sixteen, defects are told apart as well."""
POWER = 8
"""A patch weighs its share of the peak to this power."""
REACH = 3
"""Patches to each side of a place that somebody pointed at: nobody hits the very patch."""
VANISHING = 1e-6
"""A residual of this length has no direction: the memory holds the patch itself."""


@dataclass(frozen=True, eq=False)
class Signature:
    """What a place has that good parts do not."""

    tokens: NDArray[np.float32]
    """Of each patch its residuals and its own token side by side, together of length 1,
    (n, (layers + 1)·D)."""
    weights: NDArray[np.float32]
    """Of the patches, (n,); their sum is 1."""

    def likeness(self, other: "Signature") -> float:
        """How alike two are: 1 means the same, 0 that they have nothing in common."""
        cosines = self.tokens @ other.tokens.T
        there, back = self.weights @ cosines.max(axis=1), other.weights @ cosines.max(axis=0)
        return float(there + back) / 2


@dataclass(frozen=True)
class Place:
    """The patches where a map is highest."""

    patches: NDArray[np.int64]
    """Their numbers, row by row, the strongest first, (n,)."""
    weights: NDArray[np.float32]
    """(n,); their sum is 1."""


def strongest_place(anomaly_map: NDArray[np.float32], near: tuple[int, int] | None = None) -> Place:
    """The place where the map is highest; `near` a row and a column, around these alone."""
    own = anomaly_map
    if near is not None:
        rows, columns = np.indices(own.shape)
        apart = np.maximum(abs(rows - near[0]), abs(columns - near[1]))
        own = np.where(apart <= REACH, own, 0)
    values = own.ravel()
    patches = (-values).argsort(kind="stable")[:PATCHES]
    patches = patches[values[patches] > 0]
    if not len(patches):  # nothing stands out there
        patches = np.array([0 if near is None else np.ravel_multi_index(near, own.shape)])
        return Place(patches, np.ones(1, dtype=np.float32))
    weights = (values[patches] / values[patches[0]]) ** POWER
    return Place(patches, (weights / weights.sum()).astype(np.float32))


def signature_layers(count: int) -> range:
    """Which of so many layers count: the later half, from the middle one on."""
    return range(count // 2, count)


def make_signature(
    residuals: Sequence[NDArray[np.float32]],
    last: NDArray[np.float32],
    weights: NDArray[np.float32],
) -> Signature | None:
    """From the residuals q − ε of a place, (n, D) for each layer, and its tokens of the last layer;
    None where no residual has a direction, since the memory holds these very patches."""
    lengths = [np.linalg.norm(layer, axis=1, keepdims=True) for layer in residuals]
    kept = (np.min(lengths, axis=0) > VANISHING)[:, 0]
    if not kept.any():
        return None
    parts = [layer[kept] / own[kept] for layer, own in zip(residuals, lengths, strict=True)]
    joined = np.concatenate([*parts, last[kept]], axis=1) / np.float32((len(parts) + 1) ** 0.5)
    rounded = joined.astype(np.float16).astype(np.float32)  # as a file keeps it
    return Signature(rounded, weights[kept] / weights[kept].sum())
