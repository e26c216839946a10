"""Premise (ii) of Theorem 1: how close any mixture of normal patches can come to a token.

The cosine of a token q and a vector of conv(P) does not change with the vector's length, so the
hull may be replaced by the cone of the memory. There the closest direction is that of the Euclidean
projection of q, which non-negative least squares finds, and its cosine is the projection's norm.

What is reported is a proven upper bound, whatever the solver did: for any u with ⟨u, p⟩ ≤ 0 on all
rows p, every v of the cone has ⟨q, v⟩ ≤ ⟨q − u, v⟩ ≤ ‖q − u‖·‖v‖, hence cos(q, v) ≤ ‖q − u‖. The
solver's residual is such a u but for its last digits; a direction s with ⟨s, p⟩ ≥ 1 on all rows
pushes it there.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ...quality.tokens import Array

FIRST_ROWS = 128
"""The most similar rows that the projection starts from; what is missing is added in rounds."""

MORE_ROWS = 64
"""Rows that a round adds: those that the residual still leans to most."""

ROUNDS = 200
"""Far above what is needed: on 216 real patches 1 to 5 rounds left nothing to add (10 to 42 rows
carried the projection, 3 to 20 ms each)."""

OPTIMAL = 1e-11
"""A residual that leans to no row by more than this is that of the projection."""

TURNS = 1000
"""Steps of the perceptron that looks for a half-space around the memory."""

CONE_ROUNDING = 1e-12
"""Of the few float64 operations that follow the solver."""


class ConeBound(NamedTuple):
    """The largest cosine of a token with any nonzero mixture of the rows."""

    upper: float
    """Proven: no mixture has a larger one."""
    attained: float
    """Reached by the mixture that the solver found."""

    @property
    def gap(self) -> float:
        """The duality gap: what the proof costs."""
        return max(0.0, self.upper - self.attained)

    @property
    def gamma(self) -> float:
        """γ of Theorem 1: the projection's distance from 1, less the gap."""
        return 1 - self.upper


class Cone:
    """The cone of one layer's normal patches, rows of length 1."""

    def __init__(self, rows: Array) -> None:
        self._rows = rows

    def largest_cosine(self, token: Array) -> ConeBound:
        """The bound for one token; exact up to its gap."""
        query = token / np.linalg.norm(token)
        similar = self._rows @ query
        best = int(similar.argmax())
        top = float(similar[best])
        if top <= 0:
            # cos(q, Σwp) = Σw⟨q, p⟩/‖Σwp‖ with a negative numerator and a norm of at most 1
            return ConeBound(min(top + CONE_ROUNDING, 1.0), top)
        nearest = self._project(query, similar, best)
        reached = float(query @ nearest) / float(np.linalg.norm(nearest))
        upper = self._proven(query, nearest)
        return ConeBound(upper, min(reached, upper))

    def _project(self, query: Array, similar: Array, best: int) -> Array:
        """The projection onto the cone.

        Least squares over a few rows, then over those with weight and the ones that the residual
        still leans to: the distance falls in every round, so it ends at the exact active set.
        """
        try:
            from scipy.optimize import nnls
        except ImportError as error:
            raise UsageError("lab-needs-package", package="scipy") from error
        nearest: Array = similar[best] * self._rows[best]
        working = _largest(similar, FIRST_ROWS)
        for _ in range(ROUNDS):
            rows = self._rows[working]
            try:
                weights, _ = nnls(rows.T, query, maxiter=30 * len(working))
            except RuntimeError:  # no convergence; what was found before is still proven
                break
            nearest = weights @ rows
            leaning = self._rows @ (query - nearest)
            missing = _largest(leaning, MORE_ROWS)
            missing = np.setdiff1d(missing[leaning[missing] > OPTIMAL], working)
            if not len(missing):
                break
            working = np.concatenate([working[weights > 0], missing])
        return nearest

    def _proven(self, query: Array, nearest: Array) -> float:
        violation = max(0.0, float((self._rows @ (query - nearest)).max()))
        if violation > 0:
            if self._inward is None:
                return 1.0  # a cosine is never more
            nearest = nearest + violation * self._inward
        return min(1.0, float(np.linalg.norm(nearest)) + CONE_ROUNDING)

    @cached_property
    def _inward(self) -> Array | None:
        """A direction s with ⟨s, p⟩ ≥ 1 on all rows, or None where the search finds none.

        Tokens of one layer share a mean, which usually will do; otherwise the perceptron finds one
        where all rows lie in a half-space with some margin.
        """
        direction = self._rows.mean(axis=0)
        for _ in range(TURNS):
            products = self._rows @ direction
            worst = int(products.argmin())
            if products[worst] > 1e-6 * max(1.0, float(np.linalg.norm(direction))):
                return np.asarray(direction / (products[worst] - CONE_ROUNDING))
            direction = direction + self._rows[worst]
        return None


def _largest(values: Array, count: int) -> NDArray[np.intp]:
    """Indices of the largest values, in ascending order of index."""
    if len(values) <= count:
        return np.arange(len(values))
    return np.sort(np.argpartition(-values, count - 1)[:count])
