"""The threshold from unlabelled parts of the line: most are good, and nobody says which.

Each part was scored without itself. The bulk of them is good: its centre is the median, and its
spread that of the half below, which bad parts do not reach. What lies far above is no part of the
bulk, and both are found again without it. So nobody has to say how many parts are bad.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist, median

from ..messages import Notice
from .thresholds import (
    FALSE_ALARM_RATE,
    Calibration,
    ScoredImage,
    check_rate,
    log_of,
    spread_of,
)

BULK_SPREADS = 2.5
"""Spreads above the centre of the bulk at which parts no longer belong to it."""
LINE_MARGIN = 2.3
"""Spreads above the centre at which the threshold lies for the usual rate."""
PEAK_ALLOWANCE = 1.15
"""How much farther a single place of the map may reach than the score, which rests on many: all
three from twelve products (docs/measurements/line.md)."""
SUPPORT_WEIGHT = 4
"""How many unlabelled parts outweigh what the normal images suggest."""
PLENTY = 12
"""Unlabelled parts from which a threshold is no longer preliminary."""
MANY_BAD = 0.2
"""Share of parts that look bad beyond which nobody can tell what is usual."""


def from_line(parts: Sequence[ScoredImage], rate: float, support: Calibration) -> Calibration:
    """Thresholds from unlabelled parts, each scored without itself; while they are few, those that
    the normal images suggest count as well."""
    check_rate(rate)
    score, peak = (median(one.score for one in parts), median(one.peak for one in parts))
    score, peak = max(score, 1e-6), max(PEAK_ALLOWANCE * peak, 1e-6)
    level = bulk_level([max(one.score / score, one.peak / peak) for one in parts], rate)
    weight = len(parts) / (len(parts) + SUPPORT_WEIGHT)
    threshold, map_threshold = (
        math.exp(weight * log_of(level * centre) + (1 - weight) * log_of(usual))
        for centre, usual in (
            (score, support.threshold),
            (peak, PEAK_ALLOWANCE * support.map_threshold),
        )
    )
    return Calibration("line", threshold, map_threshold, rate, len(parts))


def together_notice(levels: Sequence[float]) -> Notice | None:
    """How many verdicts a limit from these images themselves would change; None where it would
    change none, where they are too few to tell, or so many are called bad that they may be."""
    if len(levels) < 2 * PLENTY:
        return None
    limit = bulk_level(levels, FALSE_ALARM_RATE)
    changed = sum((level > 1) != (level > limit) for level in levels)
    called_bad = sum(level > min(limit, 1) for level in levels)
    if not changed or called_bad > MANY_BAD * len(levels):
        return None
    return Notice("together-changes", changed=changed, count=len(levels))


def bulk_level(levels: Sequence[float], rate: float) -> float:
    """The level that a share `rate` of the good ones may exceed."""
    logs = sorted(map(log_of, levels))
    bulk = logs
    while True:
        centre = median(bulk)
        lower = [math.exp(value) for value in bulk if value <= centre]
        spread = spread_of(lower, centre)
        kept = [value for value in bulk if value <= centre + BULK_SPREADS * spread]
        if len(kept) == len(bulk):
            break
        bulk = kept
    quantile = NormalDist().inv_cdf
    margin = LINE_MARGIN + quantile(1 - rate) - quantile(1 - FALSE_ALARM_RATE)
    return math.exp(centre + margin * spread)
