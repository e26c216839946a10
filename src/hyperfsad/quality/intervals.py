"""Where the true share lies, given what was counted."""

import math
from collections.abc import Callable

import numpy as np


def exact_interval(count: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Between which shares the true one lies, exact (Clopper and Pearson, 1934): at its lower end
    `count` or more of `total` have half of the chance that is left, at its upper `count` or fewer.
    """
    rest = (1 - confidence) / 2
    steps = np.arange(1, total + 1)
    ways = np.concatenate([[0.0], np.cumsum(np.log((total - steps + 1) / steps))])
    found = np.arange(total + 1)

    def chance(share: float, from_here: int, to: int) -> float:
        part = slice(from_here, to + 1)
        hits, misses = found[part] * math.log(share), found[::-1][part] * math.log1p(-share)
        return float(np.exp(ways[part] + hits + misses).sum())

    low = root(lambda share: chance(share, count, total) - rest, 0.0, 1.0) if count else 0.0
    if count == total:
        return low, 1.0
    return low, root(lambda share: rest - chance(share, 0, count), 0.0, 1.0)


def root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a function crosses 0 from below between two places, which are not asked, to the last
    digit."""
    while low < (middle := (low + high) / 2) < high:
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return middle
