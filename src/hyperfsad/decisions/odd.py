"""Good parts that stand far apart from all others: most likely a bad part among them.

Nothing is decided here about a part that was learnt; a person has to inspect it.
"""

from collections.abc import Sequence
from statistics import fmean, median

from .thresholds import USUAL_SPREAD, log_of, spread_of

FAR_OUT, APART = 3.5, 1.0
"""A good part is odd if it lies this many spreads above the median of all, and this many above the
highest of the others. Nine products, the good test images calibrate
(docs/measurements/verdicts.md): with a bad part among them, 60 % of the other bad parts are found,
36 % if it is kept, 62 % without it; false alarms rise from 5.7 to 7.2 %."""

LEAST_FOR_ODD = 8
"""Fewer good parts cannot tell which of them is odd."""

MOST_ODD = 0.1
"""Share of the good parts that may be odd; more of them are not exceptions."""

FAR_LEARNT, NEXT_LEARNT = 4.0, 2.0
"""A learnt part is odd if its leave-one-out score lies this many spreads above the mean of the
others, and this many above the highest. Chosen and checked on the small cuts of nine products: of
the first 4 and the first 8 files, 1 of 18 sets has a part named, of other good sets 1 of 39; with a
bad part among 4, it is named in 26 of 53 sets, among 8 in 36, and never another part."""

LEAST_LEARNT = 4
"""Fewer learnt parts cannot tell which of them is odd."""


def odd_parts(levels: Sequence[float]) -> list[int]:
    """The places of good parts that stand far apart from all others."""
    logs = [log_of(level) for level in levels]
    if len(logs) < LEAST_FOR_ODD:
        return []
    centre = median(logs)
    deviation = 1.4826 * median(abs(value - centre) for value in logs)  # of a normal distribution
    spread = max(deviation, USUAL_SPREAD)
    odd = [place for place, value in enumerate(logs) if value > centre + FAR_OUT * spread]
    rest = [value for place, value in enumerate(logs) if place not in odd]
    if not odd or len(odd) > max(1, MOST_ODD * len(logs)):
        return []
    apart = min(logs[place] for place in odd) - max(rest)
    return odd if apart > APART * spread else []


def odd_learnt(scores: Sequence[float]) -> int | None:
    """The place of the learnt part that stands far out of the others; None: there is none.

    `scores` are those of the learnt parts, each compared with the others. A few numbers say little
    of their spread, so that of the others is pulled towards what is usual, as for thresholds.
    """
    logs = [log_of(score) for score in scores]
    if len(logs) < LEAST_LEARNT:
        return None
    highest, place = max((value, place) for place, value in enumerate(logs))
    rest = [*logs[:place], *logs[place + 1 :]]
    centre = fmean(rest)
    spread = spread_of([scores[at] for at in range(len(scores)) if at != place], centre)
    far = highest - centre > FAR_LEARNT * spread and highest - max(rest) > NEXT_LEARNT * spread
    return place if far else None
