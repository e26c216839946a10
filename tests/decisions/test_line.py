"""Thresholds from unlabelled parts: the bulk decides, however many bad parts lie above it."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from hyperfsad.decisions.line import PEAK_ALLOWANCE, from_line, together_notice
from hyperfsad.decisions.thresholds import Calibration

SUPPORT = Calibration("support", 0.4, 0.3, 0.05, 4)


@dataclass(frozen=True)
class Scored:
    score: float
    peak: float


def line(good: int, bad: int, seed: int = 0) -> list[Scored]:
    random = np.random.default_rng(seed)
    logs = np.concatenate([random.normal(0, 0.1, good), random.normal(1.0, 0.2, bad)])
    return [Scored(0.2 * math.exp(value), 0.15 * math.exp(value)) for value in logs]


@pytest.mark.parametrize("bad", [0, 1, 2, 5, 8])
def test_bad_parts_hardly_move_the_threshold(bad: int) -> None:
    parts = line(40, bad)
    found, clean = from_line(parts, 0.05, SUPPORT), from_line(line(40, 0), 0.05, SUPPORT)
    assert found.threshold == pytest.approx(clean.threshold, rel=0.08)
    assert found.method == "line"
    called_bad = [found.level(one.score, one.peak) > 1 for one in parts]
    assert sum(called_bad[:40]) <= 3
    assert all(called_bad[40:])


def test_few_parts_count_less_than_the_support() -> None:
    parts = line(24, 0)
    thresholds = [from_line(parts[:count], 0.05, SUPPORT).threshold for count in (1, 4, 12, 24)]
    assert thresholds == sorted(thresholds, reverse=True)
    assert thresholds[0] > 0.33


def test_score_and_map_share_one_level() -> None:
    found = from_line(line(24, 0), 0.05, Calibration("support", 0.4, 0.3, 0.05, 4))
    assert found.threshold / found.map_threshold == pytest.approx(0.2 / (0.15 * PEAK_ALLOWANCE))


def test_a_lower_rate_gives_a_higher_threshold() -> None:
    parts = line(24, 2)
    thresholds = [from_line(parts, rate, SUPPORT).threshold for rate in (0.1, 0.05, 0.01)]
    assert thresholds == sorted(thresholds)


def test_parts_without_any_distance_are_no_error() -> None:
    found = from_line([Scored(0.0, 0.0)] * 3, 0.05, SUPPORT)
    assert 0 < found.threshold < 0.4


def test_the_images_of_a_run_say_what_a_limit_from_them_would_change() -> None:
    levels = [one.score / 0.3 for one in line(26, 4)]  # the limit lies far too high for them
    notice = together_notice([level * 0.5 for level in levels])
    assert notice is not None
    assert notice.facts["count"] == 30
    assert notice.facts["changed"] >= 1
    assert together_notice(levels[:20]) is None
    assert together_notice([0.5 + 0.001 * place for place in range(30)]) is None


def test_a_run_of_mostly_bad_parts_gets_no_advice() -> None:
    good, bad = np.linspace(0.75, 0.95, 20), np.linspace(1.05, 1.45, 40)
    assert together_notice([*good, *bad]) is None
    assert together_notice([*good, *bad[:4]]) is not None
