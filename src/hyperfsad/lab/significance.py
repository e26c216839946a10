"""Whether two methods differ, or whether the draw of categories and supports would explain it.

Every difference here is of two methods on the same category and the same support images.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
ALPHA = 0.05
RESAMPLES = 10_000
SEED = 0


def bootstrap_interval(differences: NDArray[np.float64]) -> tuple[float, float]:
    """The interval of the mean of differences (categories, runs), by the paired bootstrap.

    Categories are drawn with replacement, then runs within each of them; 2.5 % of the means of
    10,000 such draws lie below the interval and as many above. The draws are always the same.
    """
    categories, runs = _resamples(*differences.shape)
    means = differences[categories[..., None], runs].mean(axis=(1, 2))
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(low), float(high)


@lru_cache(maxsize=4)
def _resamples(categories: int, runs: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    random = np.random.default_rng(SEED)
    return (
        random.integers(categories, size=(RESAMPLES, categories)),
        random.integers(runs, size=(RESAMPLES, categories, runs)),
    )


def signed_rank(differences: NDArray[np.float64]) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test (1945), exact, ties and all.

    Differences of 0 take no part; equal ones share the mean of their ranks. Under the hypothesis
    each rank counts for either side with probability one half: the distribution of their sum is
    found rank by rank. (The normal approximation falls below 0.05 with five differences already,
    which no exact test can.)
    """
    found = np.round(differences, 9)  # what differs by rounding alone is a tie
    found = found[found != 0]
    doubled = np.rint(2 * mean_ranks(np.abs(found))).astype(int)  # mean ranks are halves
    chances = np.zeros(doubled.sum() + 1)
    chances[0] = 1.0
    for rank in doubled:
        shifted = np.concatenate([np.zeros(rank), chances[: len(chances) - rank]])
        chances = (chances + shifted) / 2
    smaller = min(doubled[found > 0].sum(), doubled[found < 0].sum())
    return float(min(1.0, 2 * chances[: smaller + 1].sum()))


def mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 1 for the smallest; equal values share the mean of their ranks."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(sizes) - (sizes - 1) / 2)[group]


def least_p(categories: int) -> float:
    """The smallest p-value that this many categories can reach: all point the same way."""
    return min(1.0, 2.0 ** (1 - categories))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction (1979) of several p-values: the chance of any false alarm stays at α."""
    count, corrected, largest = len(p_values), [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(count), key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (count - rank) * p_values[place]))
        corrected[place] = largest
    return corrected
