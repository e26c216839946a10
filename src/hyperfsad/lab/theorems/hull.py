"""Premise (ii) of Theorem 1: how close any mixture of normal patches can come to a token.

The cosine of a token q and a vector of conv(P) does not change with the vector's length, so the
hull may be replaced by the cone of the memory. There the closest direction is that of the Euclidean
projection of q, which non-negative least squares finds, and its cosine is the projection's norm.

What is reported is a proven upper bound, whatever the solver did: for any u with ⟨u, p⟩ ≤ 0 on all
rows p, every v of the cone has ⟨q, v⟩ ≤ ⟨q − u, v⟩ ≤ ‖q − u‖·‖v‖, hence cos(q, v) ≤ ‖q − u‖. The
solver's residual is such a u but for its last digits; a direction s with ⟨s, p⟩ ≥ 1 on all rows
pushes it there.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

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

ROWS_AT_ONCE = 1 << 14
"""Rows that are held in float64 at once: 50 MB at a width of 384."""


@dataclass(frozen=True)
class ConeBound:
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

    def __init__(self, rows: NDArray[np.floating]) -> None:
        self._rows = rows.astype(np.float64) if len(rows) <= ROWS_AT_ONCE else rows

    def largest_cosine(self, token: NDArray[np.floating]) -> ConeBound:
        """The bound for one token; exact up to its gap."""
        query = token.astype(np.float64)
        query /= np.linalg.norm(query)
        similar = self._products(query)
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
        from scipy.optimize import nnls

        nearest: Array = similar[best] * self._take(best)
        working = _largest(similar, FIRST_ROWS)
        for _ in range(ROUNDS):
            rows = self._take(working)
            try:
                weights, _ = nnls(rows.T, query, maxiter=30 * len(working))
            except RuntimeError:  # no convergence; what was found before is still proven
                break
            nearest = weights @ rows
            leaning = self._products(query - nearest)
            missing = _largest(leaning, MORE_ROWS)
            missing = np.setdiff1d(missing[leaning[missing] > OPTIMAL], working)
            if not len(missing):
                break
            working = np.concatenate([working[weights > 0], missing])
        return nearest

    def _proven(self, query: Array, nearest: Array) -> float:
        violation = max(0.0, float(self._products(query - nearest).max()))
        if violation == 0:
            return min(1.0, float(np.linalg.norm(nearest)) + CONE_ROUNDING)
        if self._inward is None:
            return 1.0  # a cosine is never more
        return min(1.0, float(np.linalg.norm(nearest + violation * self._inward)) + CONE_ROUNDING)

    @cached_property
    def _inward(self) -> Array | None:
        """A direction s with ⟨s, p⟩ ≥ 1 on all rows, or None where the search finds none.

        Tokens of one layer share a mean, which usually will do; otherwise the perceptron finds one
        where all rows lie in a half-space with some margin.
        """
        direction = sum(part.sum(axis=0, dtype=np.float64) for part in self._parts) / len(
            self._rows
        )
        for _ in range(TURNS):
            products = self._products(direction)
            worst = int(products.argmin())
            if products[worst] > 1e-6 * max(1.0, float(np.linalg.norm(direction))):
                inward: Array = direction / (products[worst] - CONE_ROUNDING)
                return inward
            direction = direction + self._take(worst)
        return None

    @property
    def _parts(self) -> list[NDArray[np.floating]]:
        return np.split(self._rows, range(ROWS_AT_ONCE, len(self._rows), ROWS_AT_ONCE))

    def _products(self, vector: Array) -> Array:
        """⟨p, v⟩ of all rows, in float64."""
        parts = (part.astype(np.float64, copy=False) for part in self._parts)
        return np.concatenate([part @ vector for part in parts])

    def _take(self, index: int | NDArray[np.intp]) -> Array:
        return self._rows[index].astype(np.float64)


def _largest(values: Array, count: int) -> NDArray[np.intp]:
    """Indices of the largest values, in ascending order of index."""
    if len(values) <= count:
        return np.arange(len(values))
    return np.sort(np.argpartition(-values, count - 1)[:count])
