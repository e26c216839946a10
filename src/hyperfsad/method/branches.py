"""The branches of an image score and their fusion (Equation 5), as plain numbers.

The image score is a sum over named branches. `BRANCHES` lists them, `scoring` computes them, and
everything else (results, tables, the report, the benchmark) reads them from `BranchScores`. Nothing
here needs torch: results of exported models are made without it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import NotFiniteError, UsageError

BRANCHES = {"map": "map score", "cls": "whole-image score", "missing": "missing pieces"}
"""All branches of an image score by name, and their labels for people; a detector has those that
its weights name."""


@dataclass(frozen=True)
class BranchScores:
    """The scores of the branches, and their weights in the image score."""

    values: Mapping[str, float]
    weights: Mapping[str, float]

    def __post_init__(self) -> None:
        if self.values.keys() != self.weights.keys():
            raise ValueError(f"Scores of {[*self.values]} have weights of {[*self.weights]}.")

    @classmethod
    def of_map(cls, score: float) -> "BranchScores":
        """For methods that know the map alone."""
        return cls({"map": score, "cls": 0.0}, branch_weights(1.0))

    @property
    def total(self) -> float:
        """S_image, the weighted sum (Equation 5)."""
        return sum(self.weights[name] * self.values[name] for name in self.values)

    def with_values(self, **values: float) -> "BranchScores":
        """The same with other scores of some branches."""
        return replace(self, values={**self.values, **values})


def branch_weights(lam: float, missing: float = 0.0) -> dict[str, float]:
    """The paper's two branches, λ for the map and 1 − λ for the CLS token (Equation 5), and ours
    for missing pieces where it has a weight."""
    if not 0 <= lam <= 1:
        raise UsageError(f"λ lies between 0 and 1, not at {lam}.")
    if not 0 <= missing <= 10:
        raise UsageError(f"The weight of missing pieces lies between 0 and 10, not at {missing}.")
    return {"map": lam, "cls": 1 - lam} | ({"missing": missing} if missing else {})


@dataclass(frozen=True)
class TokenScore:
    """What a detector says of the tokens of one image."""

    anomaly_map: NDArray[np.float32]
    branches: BranchScores
    inside: NDArray[np.bool_] | None = None
    """The patches that were compared; None means all. The map is 0 at others."""
    missing: NDArray[np.float32] | None = None
    """What missing pieces add to the map, at the places where they should be; None: nothing."""

    def __post_init__(self) -> None:
        """No comparison with what is not a number is true, so it would be called good."""
        if not (math.isfinite(self.score) and np.isfinite(self.anomaly_map).all()):
            raise NotFiniteError("its score or its map is not finite")

    @property
    def score(self) -> float:
        """The image score."""
        return self.branches.total

    @property
    def peak(self) -> float:
        """The largest value of the map."""
        return float(self.anomaly_map.max())
