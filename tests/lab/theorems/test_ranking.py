"""Theorem 2: η below the gap, Cantelli's bound above the misranked share, and when both are met."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from hyperfsad.errors import UsageError
from hyperfsad.lab.theorems.layerwise import Discrepancies
from hyperfsad.lab.theorems.ranking import (
    cantelli,
    layer_margins,
    rank_layers,
    score_gaps,
    uniform_bound,
)
from tests.codes import raises

from .samples import some_discrepancies

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=1000, deadline=None)
@given(seeds, st.integers(1, 4), st.floats(0, 1), st.floats(-0.2, 1.5))
def test_the_mean_of_eta_never_exceeds_the_gap(
    seed: int, layers: int, lam: float, shift: float
) -> None:
    good = some_discrepancies(seed, 3, layers)
    bad = some_discrepancies(seed + 1, 3, layers, shift)
    eta = layer_margins(good, bad, lam)
    gaps = score_gaps(good, bad, lam)
    assert (eta.mean(axis=2) <= gaps + 1e-12).all()
    average = eta.mean(axis=2)
    bound = cantelli(float(average.mean()), float(average.var()))
    assert (gaps <= 0).mean() <= bound + 1e-12


@settings(max_examples=300, deadline=None)
@given(seeds, st.integers(2, 4), st.floats(0, 1), st.floats(0, 1.5))
def test_the_bounds_are_ordered(seed: int, layers: int, lam: float, shift: float) -> None:
    good, bad = some_discrepancies(seed, 3, layers), some_discrepancies(seed + 1, 4, layers, shift)
    report = rank_layers(good, bad, lam, range(1, layers + 1))
    assert report.together.misranked <= report.together.bound + 1e-12
    assert report.together.bound <= report.uniform_bound + 1e-12
    assert report.uniform_bound <= report.single_layer_bound + 1e-12
    for found in (*report.alone, *report.without):
        assert found.misranked <= found.bound + 1e-12
    assert np.abs(report.eta_correlation).max() <= 1 + 1e-9


def discrepancies(distances: list[list[float]], cls: list[float]) -> Discrepancies:
    return Discrepancies("", np.array(distances), np.array(cls))


def test_eta_is_the_gap_where_all_layers_peak_together() -> None:
    good = [discrepancies([[0.1, 0.3], [0.2, 0.4]], [0.1, 0.2])]
    bad = [discrepancies([[0.9, 0.3], [0.8, 0.1]], [0.5, 0.3])]
    assert layer_margins(good, bad, 0.4).mean() == pytest.approx(score_gaps(good, bad, 0.4)[0, 0])
    # layers that peak at different places of the good image: η is below
    apart = [discrepancies([[0.1, 0.3], [0.4, 0.2]], [0.1, 0.2])]
    assert layer_margins(apart, bad, 0.4).mean() < score_gaps(apart, bad, 0.4)[0, 0] - 0.01


def test_cantelli_is_met_by_two_values() -> None:
    """A share p of pairs is tied, the rest is one step apart: misranked p, bound p."""
    good = [discrepancies([[0.0]], [0.0])]
    bad = [discrepancies([[0.0]], [0.0])] * 3 + [discrepancies([[1.0]], [1.0])] * 7
    report = rank_layers(good, bad, 0.5, [1])
    assert report.together.misranked == pytest.approx(0.3)
    assert report.together.bound == pytest.approx(0.3)


def test_the_uniform_bound_is_met_by_layers_that_are_alike() -> None:
    """Equal means and variances and one correlation: nothing is lost by taking the worst."""
    values = [(0.2, 1.0), (1.0, 0.2), (0.5, 0.5), (1.2, 1.2), (0.1, 0.1)]
    good = [discrepancies([[0.0], [0.0]], [0.0, 0.0])]
    bad = [discrepancies([[a], [b]], [a, b]) for a, b in values]
    report = rank_layers(good, bad, 0.5, [3, 6])
    assert report.eta_correlation[0, 1] > 0
    assert report.uniform_bound == pytest.approx(report.together.bound)
    assert report.uniform_bound < report.single_layer_bound


def test_layers_of_one_mind_gain_nothing() -> None:
    assert uniform_bound(1.0, 2.0, 1.0, 4) == pytest.approx(cantelli(1.0, 2.0))
    assert uniform_bound(1.0, 2.0, 0.0, 4) == pytest.approx(cantelli(1.0, 0.5))
    assert uniform_bound(1.0, 2.0, -0.5, 4) == pytest.approx(cantelli(1.0, 0.5))  # ρ ≥ 0
    assert cantelli(-0.1, 0.5) == cantelli(0.0, 0.0) == 1.0
    assert cantelli(0.1, 0.0) == 0.0


def test_the_measured_share_is_that_of_auroc() -> None:
    good, bad = some_discrepancies(1, 20, 3), some_discrepancies(2, 30, 3, 0.2)
    report = rank_layers(good, bad, 0.5, [2, 4, 6])
    labels = [0] * len(good) + [1] * len(bad)
    scores = [image.score(0.5) for image in (*good, *bad)]
    assert 1 - report.together.misranked == pytest.approx(roc_auc_score(labels, scores))


def test_a_layer_that_only_adds_noise_is_not_worth_keeping() -> None:
    random = np.random.default_rng(0)

    def image(shift: float) -> Discrepancies:
        clear, noisy = 0.2 * random.random((2, 4)), 4 * random.random((1, 4))
        return Discrepancies("", np.concatenate([clear + shift, noisy]), np.zeros(3))

    report = rank_layers([image(0) for _ in range(9)], [image(1) for _ in range(9)], 1.0, [2, 4, 8])
    assert 8 not in report.keep
    assert report.without[2].layers == (2, 4)
    assert report.without[2].bound < report.together.bound


def test_one_layer() -> None:
    single = rank_layers(some_discrepancies(1, 2, 1), some_discrepancies(2, 2, 1, 0.5), 0.5, [7])
    assert single.keep == (7,)
    assert single.without == ()
    assert math.isclose(single.uniform_bound, single.single_layer_bound)


def test_ranking_needs_both_kinds() -> None:
    with raises(UsageError, "ranking-needs-both"):
        rank_layers([], some_discrepancies(0, 1, 1), 0.5, [1])
