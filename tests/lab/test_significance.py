"""The statistics: against scipy, against plain enumeration, and where theory knows the answer."""

import itertools

import numpy as np
import pytest
from scipy import stats

from hyperfsad.lab.significance import bootstrap_interval, holm, least_p, signed_rank


def enumerated(differences: list[float]) -> float:
    """The p-value from all sign patterns, one by one."""
    ranks = stats.rankdata(np.abs(differences))
    observed = abs(sum(ranks[np.array(differences) > 0]) - ranks.sum() / 2)
    patterns = list(itertools.product((0, 1), repeat=len(ranks)))
    sums = (sum(r for r, sign in zip(ranks, signs, strict=True) if sign) for signs in patterns)
    return float(sum(abs(s - ranks.sum() / 2) >= observed - 1e-9 for s in sums) / len(patterns))


@pytest.mark.parametrize("count", [3, 6, 9, 15, 38])
def test_the_test_is_that_of_scipy_where_nothing_ties(count: int) -> None:
    for seed in range(5):
        differences = np.random.default_rng(seed).normal(0.4, 1, count)
        expected = stats.wilcoxon(differences, method="exact").pvalue
        assert signed_rank(differences) == pytest.approx(expected)


@pytest.mark.parametrize(
    "differences",
    [[1, 1, 1, 1, 1, 1], [1, -1, 2, 2, 3], [0.5, 0.5, -0.5, 1.5, 2.5, 2.5, -3], [2, 2, 2, -2]],
)
def test_ties_are_exact(differences: list[float]) -> None:
    assert signed_rank(np.array(differences)) == pytest.approx(enumerated(differences))


def test_zeros_take_no_part_and_rounding_is_a_tie() -> None:
    assert signed_rank(np.zeros(9)) == 1
    assert signed_rank(np.array([0.0, 1, 2, 3])) == signed_rank(np.array([1.0, 2, 3]))
    assert signed_rank(np.array([0.3, 0.1 + 0.2, -0.3])) == signed_rank(np.array([1.0, 1, -1]))


def test_few_categories_cannot_reach_a_twentieth() -> None:
    for count in range(1, 12):
        assert signed_rank(np.arange(1.0, count + 1)) == pytest.approx(least_p(count))
    assert least_p(5) > 0.05 > least_p(6)


def test_holm_against_an_example_and_in_any_order() -> None:
    # Ordered 0.005, 0.01, 0.03, 0.04: times 4, 3, 2, 1, and never less than the one before.
    values = {0.01: 0.03, 0.04: 0.06, 0.03: 0.06, 0.005: 0.02}
    for order in itertools.permutations(values):
        assert holm(order) == pytest.approx([values[p] for p in order])
    assert holm([]) == []
    assert holm([0.7, 0.9]) == [1.0, 1.0]


def test_the_interval_holds_the_mean_and_follows_both_sources() -> None:
    differences = np.random.default_rng(1).normal(2, 1, (15, 5))
    low, high = bootstrap_interval(differences)
    assert low < differences.mean() < high
    assert bootstrap_interval(differences) == (low, high)
    flipped = bootstrap_interval(-differences)
    assert flipped == pytest.approx((-high, -low))
    constant = bootstrap_interval(np.full((4, 3), 1.25))
    assert constant == (1.25, 1.25)
    runs_only = bootstrap_interval(np.array([[0.0, 1.0, 2.0, 3.0]]))
    assert 0 <= runs_only[0] < 1.5 < runs_only[1] <= 3
    categories_only = bootstrap_interval(np.array([[0.0], [1.0], [2.0], [3.0]]))
    assert categories_only == pytest.approx(runs_only, abs=0.26)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(2)
    held = 0
    for _ in range(200):
        effects = generator.normal(0, 1, (15, 1))
        low, high = bootstrap_interval(effects + generator.normal(0, 1, (15, 5)))
        held += low <= 0 <= high
    # percentile intervals of 15 categories are known to be a little narrow
    assert 0.87 <= held / 200 <= 0.99
