"""Dual-Branch Image Scoring (Section 4.3): the map (Equation 9), f_pool, S_cls (Equation 4), and
S_image, the weighted sum of the branches (Equation 5).

The image score is a sum over named branches. `BRANCHES` lists them, `ImageScoring` computes them,
and everything else (results, tables, the report, the benchmark) reads them from `BranchScores`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, namespace, positive, top_k
from ..errors import NotFiniteError, UsageError
from .signature import Signature

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
    def of_map(cls, score: float) -> BranchScores:
        """For methods that know the map alone."""
        return cls({"map": score, "cls": 0.0}, branch_weights(1.0))

    @property
    def total(self) -> float:
        """S_image, the weighted sum (Equation 5)."""
        return sum(self.weights[name] * self.values[name] for name in self.values)

    def with_values(self, **values: float) -> BranchScores:
        """The same with other scores of some branches."""
        return replace(self, values={**self.values, **values})


def branch_weights(lam: float, missing: float = 0.0) -> dict[str, float]:
    """The paper's two branches, λ for the map and 1 − λ for the CLS token (Equation 5), and ours
    for missing pieces where it has a weight."""
    if not 0 <= lam <= 1:
        raise UsageError("lambda-range", given=lam)
    if not 0 <= missing <= 10:
        raise UsageError("missing-range", given=missing)
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
    signature: Signature | None = None
    """Of its strongest place; None where nobody asked for it."""

    def __post_init__(self) -> None:
        """No comparison with what is not a number is true, so it would be called good."""
        if not (math.isfinite(self.score) and np.isfinite(self.anomaly_map).all()):
            raise NotFiniteError("score-not-finite")

    @property
    def score(self) -> float:
        """The image score."""
        return self.branches.total

    @property
    def peak(self) -> float:
        """The largest value of the map."""
        return float(self.anomaly_map.max())


@dataclass(frozen=True)
class Pooling:
    """f_pool: the mean of the `count` largest values of the map, or of the largest `share`."""

    name: str
    count: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, name: str) -> Pooling:
        """`max`, `top-10` (the ten largest) or `top-1%` (the largest hundredth)."""
        if name == "max":
            return cls(name, count=1)
        match = re.fullmatch(r"top-(\d+(?:\.\d+)?)(%?)", name)
        number = float(match[1]) if match else 0.0
        if match and match[2] and 0 < number <= 100:
            return cls(name, share=number / 100)
        if match and not match[2] and number >= 1 and number.is_integer():
            return cls(name, count=int(number))
        raise UsageError("pooling-unknown", given=name)

    def __call__(self, anomaly_map: Array, patches: int | None = None) -> Array:
        """`patches` says what a share is a share of, where that is not the map itself."""
        xp = namespace(anomaly_map)
        values = xp.reshape(anomaly_map, (-1,))
        whole = values.shape[0]
        count = self.patches_of(whole if patches is None else patches)
        return xp.mean(top_k(values, min(count, whole))[0])

    def patches_of(self, whole: int) -> int:
        """How many of `whole` values are averaged, at most."""
        count = self.count if self.count is not None else math.ceil((self.share or 0) * whole)
        return max(count, 1)


def cosines(queries: Array, rebuilt: Array) -> Array:
    """cos(q, ε) of each row, (…, N) from (…, N, D); 0 where one of them has no length."""
    xp = namespace(queries, rebuilt)
    along = xp.vecdot(queries, rebuilt)
    squares = xp.vecdot(queries, queries) * xp.vecdot(rebuilt, rebuilt)
    return along / xp.sqrt(xp.where(squares == 0, xp.ones_like(squares), squares))


def patch_scores(queries: Sequence[Array], rebuilt: Sequence[Array]) -> Array:
    """S_q: 1 − cos(Q, E), averaged over the layers (Equation 9). One (N, D) array a layer."""
    return mean_of_layers(
        1 - cosines(query, normal) for query, normal in zip(queries, rebuilt, strict=True)
    )


def mean_of_layers(distances: Iterable[Array]) -> Array:
    """The map from the distances 1 − cos(Q, E) of each layer; rounding never makes it negative."""
    each = list(distances)
    xp = namespace(*each)
    return positive(xp.mean(xp.stack(each), axis=0))


def cls_similarities(query: Array, memory: Array) -> Array:
    """⟨c, c_k⟩ of each layer, (…, K, layers), from (…, layers, D) and (K, layers, D)."""
    xp = namespace(query, memory)
    of_layers = xp.permute_dims(memory, (1, 0, 2)) @ query[..., None]
    return xp.matrix_transpose(of_layers[..., 0])


def cls_distances(query: Array, memory: Array) -> Array:
    """1 − max_k⟨c, c_k⟩ of each layer (Equation 4), from (layers, D) and (K, layers, D)."""
    return positive(1 - namespace(query).max(cls_similarities(query, memory), axis=0))


def cls_score(query: Array, memory: Array) -> Array:
    """S_cls: the mean of these distances over the layers (Equation 4)."""
    return namespace(query).mean(cls_distances(query, memory))


@dataclass(frozen=True)
class ImageScoring:
    """How an image score comes about: from the branches that have a weight."""

    pooling: Pooling
    weights: Mapping[str, float]

    def __call__(
        self, patches: Array, cls: Array, normal_cls: Array, missing: float = 0.0
    ) -> BranchScores:
        """From the distances of the patches that count, the CLS tokens c and c_k, and what the
        image lacks of good parts (`missing.py`)."""
        scores: dict[str, Callable[[], Array | float]] = {
            "map": lambda: self.pooling(patches),
            "cls": lambda: cls_score(cls, normal_cls),
            "missing": lambda: missing,
        }
        values = {name: float(scores[name]()) for name in self.weights}
        return BranchScores(values, self.weights)
