"""Figures of a detector on known parts: rates with intervals, and what each threshold would do.

An image reaches a level: at a factor f of the detector's thresholds it is called anomalous if
its level is above f, and f = 1 is how it decides now. Without thresholds the score takes the
place of the level. A threshold can only lie in one of the gaps between the values of the
images, so there are finitely many cases, and each is known exactly.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .intervals import exact_interval

RATE_CONFIDENCE = 0.95
ACCEPTED_ALARMS = 0.05
"""The share of false alarms that the table of other thresholds asks for."""
BEST_ACCURACY = "best balanced accuracy"
OUTER_MARGIN = 0.05
"""How far a threshold lies beyond all values, as a share of the nearest."""


@dataclass(frozen=True)
class Rate:
    """A number of images out of several."""

    count: int
    total: int

    @property
    def share(self) -> float | None:
        """From 0 to 1; None of no images."""
        return self.count / self.total if self.total else None

    @property
    def rest(self) -> "Rate":
        """The others."""
        return Rate(self.total - self.count, self.total)

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """Between which shares the true one lies."""
        if not self.total:
            return None
        return exact_interval(self.count, self.total, RATE_CONFIDENCE)

    def to_dict(self) -> dict[str, Any]:
        """Count, total, share and the ends of the interval."""
        low, high = self.interval or (None, None)
        return {**asdict(self), "share": self.share, "low": low, "high": high}


@dataclass(frozen=True)
class Confusion:
    """Verdicts against the truth."""

    alarms: Rate
    """Good parts that are called anomalous."""
    found: Rate
    """Defects that are called anomalous."""

    @property
    def balanced_accuracy(self) -> float | None:
        """The mean of the shares of good parts and of defects that are classified correctly."""
        good, bad = self.alarms.rest.share, self.found.share
        return None if good is None or bad is None else (good + bad) / 2


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold, and the verdicts that it gives."""

    names: tuple[str, ...]
    """What it is good for."""
    factor: float
    """By which the thresholds of the detector are multiplied."""
    confusion: Confusion
    current: bool

    def to_dict(self, threshold: float | None) -> dict[str, Any]:
        """As in evaluation.json; `threshold` is the one that this is a multiple of."""
        return {
            "names": list(self.names),
            "current": self.current,
            "factor": self.factor,
            "threshold": None if threshold is None else scaled(threshold, self.factor),
            "false_alarms": self.confusion.alarms.to_dict(),
            "missed": self.confusion.found.rest.to_dict(),
            "balanced_accuracy": self.confusion.balanced_accuracy,
        }


class RocCurve:
    """All verdicts that thresholds can give on the values of good parts and of defects.

    Gap i holds the thresholds from `values[i - 1]` up to, but without, `values[i]`.
    """

    def __init__(self, good: Sequence[float], bad: Sequence[float]) -> None:
        ranked = np.sort(np.asarray(good, np.float64)), np.sort(np.asarray(bad, np.float64))
        self.goods, self.bads = len(good), len(bad)
        self.values: NDArray[np.float64] = np.unique(np.concatenate(ranked))
        limits = [*self.values, math.inf]
        self.alarms, self.found = (
            len(each) - np.searchsorted(each, limits, side="left") for each in ranked
        )
        """In each gap, the good parts and the defects that lie above it."""

    def gap(self, threshold: float) -> int:
        """The gap in which a threshold lies."""
        return int(np.searchsorted(self.values, threshold, side="right"))

    def bounds(self, gap: int) -> tuple[float, float]:
        """The lowest threshold of a gap, and the value that all of them stay below."""
        low = float(self.values[gap - 1]) if gap else 0.0
        return low, float(self.values[gap]) if gap < len(self.values) else math.inf

    def confusion(self, gap: int) -> Confusion:
        """The verdicts of the thresholds in a gap."""
        alarms, found = int(self.alarms[gap]), int(self.found[gap])
        return Confusion(Rate(alarms, self.goods), Rate(found, self.bads))

    def corners(self) -> list[int]:
        """The gaps between which the ROC runs straight, from no alarms to nothing but alarms."""
        x, y = np.diff(self.alarms), np.diff(self.found)
        bends = x[:-1] * y[1:] != x[1:] * y[:-1]
        ends = len(self.values), *(np.flatnonzero(bends)[::-1] + 1).tolist(), 0
        return list(dict.fromkeys(ends))

    def best(self, current: int) -> int:
        """The gap with the highest balanced accuracy: the current one, or else the widest."""
        # whole numbers, so that ties are ties
        right = (self.goods - self.alarms) * self.bads + self.found * self.goods

        def preference(gap: int) -> tuple[bool, float, int]:
            low, high = self.bounds(gap)
            return gap == current, high / low if low > 0 and high < math.inf else 0.0, gap

        return max(map(int, np.flatnonzero(right == right.max())), key=preference)


def operating_points(curve: RocCurve, threshold: float | None) -> list[OperatingPoint]:
    """The current thresholds, and others that somebody may want; the same verdicts are one row.

    `threshold` is the score that a command can set instead; None where products have several.
    """
    current = curve.gap(1.0)
    wanted = {"current": current}
    if curve.goods and curve.bads:
        wanted[BEST_ACCURACY] = curve.best(current)
    if curve.goods:
        few = f"at most {100 * ACCEPTED_ALARMS:g} % false alarms"
        for name, share in (("no false alarm here", 0.0), (few, ACCEPTED_ALARMS)):
            wanted[name] = int(np.argmax(curve.alarms <= share * curve.goods + 1e-9))
    if curve.bads:
        wanted["every defect found"] = int(np.flatnonzero(curve.found == curve.bads)[-1])
    points = []
    for gap in dict.fromkeys(wanted.values()):
        names = tuple(name for name, own in wanted.items() if own == gap)
        factor = 1.0 if gap == current else _between(*curve.bounds(gap), threshold or 1.0)
        if factor is not None:
            points.append(OperatingPoint(names, factor, curve.confusion(gap), gap == current))
    return points


def _between(low: float, high: float, unit: float) -> float | None:
    """A factor in the middle with few digits of factor · unit; None where only 0 would do."""
    if high == 0:
        return None
    middle = (low + high) / 2
    if low == 0 or high == math.inf:
        middle = low * (1 + OUTER_MARGIN) if high == math.inf else high * (1 - OUTER_MARGIN)
    for digits in range(3, 17):
        near = float(f"{middle * unit:.{digits}g}") / unit
        # not at the very bound: a command that sets the threshold divides and multiplies once more
        if low * (1 + 1e-12) < near < high * (1 - 1e-12):
            return near
    return middle


def scaled(threshold: float, factor: float) -> float:
    """A threshold times a factor, with no more digits than double precision can tell apart."""
    return float(f"{threshold * factor:.12g}")
