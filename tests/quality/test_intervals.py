"""Intervals of shares, against scipy."""

import pytest
from scipy.stats import binomtest

from hyperfsad.quality.intervals import exact_interval, root

COUNTS = [
    (0, 1), (1, 1), (0, 20), (1, 20), (7, 20), (19, 20), (20, 20), (3, 1000), (997, 1000),
    (500, 1000), (40_000, 100_000),
]  # fmt: skip


@pytest.mark.parametrize(("count", "total"), COUNTS)
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_exact_interval_is_that_of_scipy(count: int, total: int, confidence: float) -> None:
    expected = binomtest(count, total).proportion_ci(confidence, method="exact")
    assert exact_interval(count, total, confidence) == pytest.approx(tuple(expected), abs=1e-11)


def test_a_root_is_found_to_the_last_digit() -> None:
    assert root(lambda place: place**2 - 2, 0, 2) == pytest.approx(2**0.5, abs=3e-16)
