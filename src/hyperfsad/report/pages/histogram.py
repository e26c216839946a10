"""The geometry of histograms: how many images have which score, and the thresholds."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

MOST_THRESHOLDS = 4
"""Thresholds of more products would hide the bars."""
_BARS = 32
_LABEL = 14
"""Height of a label; the labels of several thresholds are stacked."""
_LONGEST = 24


class Bar(NamedTuple):
    """The images of one range of scores with the same verdict, or of the same kind."""

    kind: str
    x: float
    y: float
    width: float
    height: float


class ThresholdMark(NamedTuple):
    """A vertical line at a threshold; `y` is where its label stands."""

    x: float
    y: int
    anchor: str
    label: str


@dataclass(frozen=True)
class Histogram:
    """What the template draws, in the units of the SVG's view box."""

    bars: list[Bar]
    thresholds: list[ThresholdMark]
    low: float
    high: float
    description: str
    """For screen readers."""
    axis: str = "score"
    """What is counted."""
    unit: str = ""
    """What it is measured in, where that is no plain number."""

    width, height = 420, 150
    left, right, bottom = 12, 408, 122

    @property
    def top(self) -> int:
        """Negative where stacked labels need more room above the bars."""
        return -_LABEL * max(len(self.thresholds) - 1, 0)


def score_histogram(
    scores: Sequence[tuple[float, bool | None]],
    thresholds: Mapping[str, float | None],
    axis: str = "score",
    unit: str = "",
) -> Histogram:
    """Scores, each with whether its image is anomalous; bars of such images are `above`.

    Thresholds are marked with their names while they are few. With several products each has its
    own threshold, so the colours overlap. `axis` names what is no score. With a `unit`, values are
    multiples of it, and the numbers of the thresholds say nothing.
    """
    values = [score for score, _ in scores]
    marked = {name: value for name, value in thresholds.items() if value is not None}
    marked = marked if len(marked) <= MOST_THRESHOLDS else {}
    low, high = _range([*values, *marked.values()])
    marks = _threshold_marks(marked, low, high, plain=not unit)
    found = (
        f"{axis.capitalize()}s of {len(values)} images from {min(values):.3f} to {max(values):.3f}"
    )
    description = ", ".join([found, *(mark.label for mark in marks)])
    edges = _edges(low, high, list(marked.values()))
    return Histogram(_bars(scores, edges), marks, low, high, description, axis, unit)


def _bars(scores: Sequence[tuple[float, bool | None]], edges: Sequence[float]) -> list[Bar]:
    counts = [{"below": 0, "above": 0} for _ in edges[1:]]
    for score, anomalous in scores:
        place = min(max(bisect_left(edges, score) - 1, 0), len(counts) - 1)
        counts[place]["above" if anomalous else "below"] += 1
    most = max(sum(pair.values()) for pair in counts)
    bars = []
    for pair, left, right in zip(counts, edges, edges[1:], strict=False):
        x, to = (_across(value, edges[0], edges[-1]) for value in (left, right))
        y = float(Histogram.bottom)
        for kind, count in pair.items():
            if count:
                height = max(count / most * (Histogram.bottom - 2 * _LABEL), 1.5)
                y -= height
                bars.append(Bar(kind, x + 0.5, y, to - x - 1, height))
    return bars


def _edges(low: float, high: float, thresholds: Sequence[float]) -> list[float]:
    """Where bars begin and end; none crosses a single threshold, so that each has one verdict."""
    if len(thresholds) == 1:
        (middle,) = thresholds
        count = round((middle - low) / (high - low) * _BARS)
        if 0 < count < _BARS:
            return [*_spaced(low, middle, count)[:-1], *_spaced(middle, high, _BARS - count)]
    return _spaced(low, high, _BARS)


def _spaced(low: float, high: float, count: int) -> list[float]:
    return [low + (high - low) * index / count for index in range(count)] + [high]


def _across(value: float, low: float, high: float) -> float:
    return Histogram.left + (value - low) / (high - low) * (Histogram.right - Histogram.left)


def _threshold_marks(
    thresholds: Mapping[str, float], low: float, high: float, plain: bool
) -> list[ThresholdMark]:
    """The highest threshold first; each label stands above the one before."""
    marks = []
    quarter = Histogram.width / 4
    for place, (name, value) in enumerate(sorted(thresholds.items(), key=lambda item: -item[1])):
        x = _across(value, low, high)
        anchor = "start" if x < quarter else "end" if x > 3 * quarter else "middle"
        brief = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
        label = f"{brief} {value:.3f}" if plain else brief
        marks.append(ThresholdMark(x, 15 - _LABEL * place, anchor, label))
    return marks


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Round numbers below and above all scores and thresholds."""
    span = max(max(values) - min(values), 1e-3)
    unit = 10 ** math.floor(math.log10(span))
    step = next(unit * part for part in (0.1, 0.2, 0.5, 1.0, 2.0) if unit * part * 8 >= span)
    step = max(step, 0.01)
    low, high = math.floor(min(values) / step) * step, math.ceil(max(values) / step) * step
    return (low, high) if high > low else (low, low + step)
