"""Figures against independent computations: scikit-learn, beta quantiles, plain counting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta
from sklearn.metrics import balanced_accuracy_score, roc_curve

from hyperfsad.quality.operating_points import Confusion, Rate, RocCurve, operating_points, scaled

values = st.lists(st.integers(0, 12).map(lambda n: n / 4), min_size=1, max_size=9)


def counted(parts: tuple[list[float], list[float]], threshold: float) -> tuple[int, int]:
    """False alarms and defects found, counted one by one."""
    alarms, found = (sum(value > threshold for value in each) for each in parts)
    return alarms, found


@pytest.mark.parametrize(("count", "total"), [(0, 8), (1, 8), (8, 8), (3, 40), (0, 1)])
def test_intervals_are_those_of_clopper_and_pearson(count: int, total: int) -> None:
    low = beta.ppf(0.025, count, total - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, total - count) if count < total else 1.0
    assert Rate(count, total).interval == pytest.approx((low, high))


def test_no_images_have_no_rate() -> None:
    assert Rate(0, 0).share is None
    assert Rate(0, 0).interval is None
    assert Confusion(Rate(0, 0), Rate(1, 1)).balanced_accuracy is None


@given(values, values, st.floats(0, 4))
@settings(deadline=None)
def test_a_threshold_gives_the_verdicts_of_its_gap(
    good: list[float], bad: list[float], chosen: float
) -> None:
    curve = RocCurve(good, bad)
    for threshold in (chosen, *good, *bad):
        gap = curve.gap(threshold)
        low, high = curve.bounds(gap)
        assert low <= threshold < high
        confusion = curve.confusion(gap)
        found = confusion.alarms.count, confusion.found.count
        assert found == counted((good, bad), threshold)


@given(values, values)
@settings(deadline=None)
def test_the_roc_is_that_of_scikit_learn(good: list[float], bad: list[float]) -> None:
    curve = RocCurve(good, bad)
    truth = [0] * len(good) + [1] * len(bad)
    rates = roc_curve(truth, good + bad, drop_intermediate=False)[:2]
    ours = np.array([curve.alarms[::-1] / len(good), curve.found[::-1] / len(bad)])
    assert ours == pytest.approx(np.array(rates))
    corners = curve.corners()
    x, y = curve.alarms[corners] / len(good), curve.found[corners] / len(bad)
    area = float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))  # what was dropped lay on the line
    assert area == pytest.approx(float(np.sum(np.diff(ours[0]) * (ours[1][1:] + ours[1][:-1]) / 2)))


@given(values, values, st.sampled_from([None, 0.29, 7.0]))
@settings(deadline=None)
def test_other_thresholds_do_what_the_table_says(
    good: list[float], bad: list[float], threshold: float | None
) -> None:
    points = operating_points(RocCurve(good, bad), threshold)
    by_name = {name: point for point in points for name in point.names}
    assert len({id(point) for point in by_name.values()}) == len(points)
    for point in points:
        confusion, factor = point.confusion, point.factor
        if threshold is not None:  # as a command sets it
            factor = scaled(threshold, factor) / threshold
        assert (confusion.alarms.count, confusion.found.count) == counted((good, bad), factor)
    assert by_name["current"].factor == 1
    assert by_name["no false alarm here"].confusion.alarms.count == 0
    share = by_name["at most 5 % false alarms"].confusion.alarms.share
    assert share is not None
    assert share <= 0.05
    if min(bad) > 0:
        assert by_name["every defect found"].confusion.found.rest.count == 0
    best = max(_accuracy(good, bad, factor) for factor in (*good, *bad, 0.0, -1.0))
    if "best balanced accuracy" in by_name:
        assert by_name["best balanced accuracy"].confusion.balanced_accuracy == pytest.approx(best)


def _accuracy(good: list[float], bad: list[float], threshold: float) -> float:
    truth = [False] * len(good) + [True] * len(bad)
    return float(balanced_accuracy_score(truth, [value > threshold for value in good + bad]))


def test_the_fewest_alarms_are_not_bought_with_more_misses_than_needed() -> None:
    """5 % of 40 good parts are two of them."""
    good, bad = [n / 40 for n in range(1, 41)], [0.99, 0.972, 2.0]
    points = {name: p for p in operating_points(RocCurve(good, bad), 1.0) for name in p.names}
    few = points["at most 5 % false alarms"]
    assert (few.confusion.alarms.count, few.confusion.found.count) == (2, 3)
    assert points["no false alarm here"].confusion.found.count == 1


def test_the_same_verdicts_are_one_row() -> None:
    points = operating_points(RocCurve([0.5, 0.6], [1.4, 1.8]), 0.3)
    (only,) = points
    assert only.current
    assert len(only.names) == 5
    assert only.factor == 1


def test_a_threshold_has_few_digits_and_lies_between_the_parts() -> None:
    points = operating_points(RocCurve([0.9, 1.1], [1.3, 1.4]), 0.28998412)
    chosen = next(point for point in points if not point.current)
    value = scaled(0.28998412, chosen.factor)
    assert value == float(f"{value:.3g}")
    assert 1.1 < chosen.factor < 1.3
    near = operating_points(RocCurve([1.5], [1.5 + 1e-7]), 0.28998412)[1]
    assert 1.5 < scaled(0.28998412, near.factor) / 0.28998412 < 1.5 + 1e-7


def test_one_kind_of_part_has_no_roc_but_a_table() -> None:
    names = [name for p in operating_points(RocCurve([0.5, 1.2], []), 1.0) for name in p.names]
    assert names == ["current", "no false alarm here", "at most 5 % false alarms"]
    names = [name for p in operating_points(RocCurve([], [0.5, 1.2]), 1.0) for name in p.names]
    assert names == ["current", "every defect found"]


def test_a_defect_without_any_level_cannot_be_found() -> None:
    names = {name for p in operating_points(RocCurve([0.5], [0.0]), 1.0) for name in p.names}
    assert "every defect found" not in names
