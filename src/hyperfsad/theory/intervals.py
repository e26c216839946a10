"""Confidence intervals for shares that are averaged over pairs of images."""

import math

import numpy as np


def divergence(share: float, chance: float) -> float:
    """KL divergence of two coins, how badly `chance` explains `share`."""
    total = 0.0
    for seen, expected in ((share, chance), (1 - share, 1 - chance)):
        if seen > 0:
            total += math.inf if expected <= 0 else seen * math.log(seen / expected)
    return total


def share_interval(share: float, independent: int, confidence: float = 0.95) -> tuple[float, float]:
    """An interval for the mean of an average over pairs, without assumptions on the images' law.

    All pairs of n images are dependent, but their average is also the average, over all orders of
    the images, of means of ⌊n/2⌋ independent pairs (Hoeffding, 1963). Chernoff's bound for those
    therefore holds for it too: outside of {p : m·KL(share, p) ≤ ln(2/(1 − confidence))} the truth
    lies with a chance of at most 1 − confidence.
    """
    allowed = math.log(2 / (1 - confidence)) / max(1, independent)
    return _edge(share, 0.0, allowed), _edge(share, 1.0, allowed)


def _edge(share: float, outer: float, allowed: float) -> float:
    """The chance between the share and `outer` at which the divergence reaches what is allowed."""
    inner = share
    if divergence(share, outer) <= allowed:
        return outer
    for _ in range(60):
        middle = (inner + outer) / 2
        if divergence(share, middle) <= allowed:
            inner = middle
        else:
            outer = middle
    return float(np.clip(outer, 0, 1))
