"""The drift test: false alarms are as rare as promised, real moves are seen and named."""

import json
import math

import numpy as np
import pytest

from hyperfsad.errors import UsageError
from hyperfsad.quality.drift import DriftMonitor, monitor_scores, payouts
from tests.codes import raises

SCORES = np.random.default_rng(7)


def alarms(
    runs: int, length: int, known: int, *, defects: float = 0.0, share: float = 0.0
) -> float:
    """The share of streams of good parts, some bad ones among them, that raise an alarm."""
    raised = 0
    for run in range(runs):
        random = np.random.default_rng(run)
        monitor = DriftMonitor(
            random.gamma(4, size=known), false_alarms=0.1, defects=defects, seed=run + 10**6
        )
        raised += any(
            monitor.update(float(random.gamma(4) + 100 * (random.random() < share))).capital
            >= monitor.limit
            for _ in range(length)
        )
    return raised / runs


def test_false_alarms_are_as_rare_as_promised() -> None:
    assert alarms(400, 200, 10) <= 0.1


def test_defects_raise_alarms_unless_they_were_expected() -> None:
    assert alarms(60, 300, 60, share=0.3) > 0.5
    assert alarms(150, 300, 60, share=0.3, defects=0.3) <= 0.1


def test_every_bet_is_fair() -> None:
    ranks = (np.arange(100_000) + 0.5) / 100_000
    paid = np.array([payouts(float(rank)) for rank in ranks[::10]])
    assert paid.mean(axis=0) == pytest.approx(1, abs=1e-3)
    assert (paid <= payouts(0.0)).all()
    assert (paid >= 0).all()


def test_the_capital_is_fair() -> None:
    """Its mean stays 1, so that Ville's inequality applies: neither generous nor idle."""
    final = []
    for run in range(3000):
        random = np.random.default_rng(run)
        monitor = DriftMonitor(random.random(5), seed=run + 10**6)  # lots of their own
        final.append(
            math.exp([monitor.update(float(random.random())) for _ in range(2)][-1].capital)
        )
    assert np.mean(final) == pytest.approx(1, abs=4 * np.std(final) / math.sqrt(len(final)))
    assert np.std(final) > 0.5


def test_ranks_are_uniform_and_independent() -> None:
    random = np.random.default_rng(3)
    monitor = DriftMonitor(random.random(5), seed=1)
    ranks = np.array([monitor.update(float(random.random())).rank for _ in range(3000)])
    assert np.histogram(ranks, bins=10, range=(0, 1))[0] == pytest.approx(300, abs=80)
    assert abs(np.corrcoef(ranks[1:], ranks[:-1])[0, 1]) < 0.06


def test_ties_are_broken_at_random() -> None:
    monitor = DriftMonitor([1.0] * 20)
    ranks = [monitor.update(1.0).rank for _ in range(500)]
    assert 0.4 < np.mean(ranks) < 0.6
    assert 0.2 < np.std(ranks) < 0.4


@pytest.mark.parametrize("start", [0, 60])
def test_a_move_is_seen_and_placed(start: int) -> None:
    random = np.random.default_rng(1)
    before = random.normal(1.0, 0.1, 40)
    scores = [*random.normal(1.0, 0.1, start), *random.normal(1.6, 0.1, 40)]
    stream = [(f"{place}.png", float(score)) for place, score in enumerate(scores)]
    report = monitor_scores(before.tolist(), stream)
    assert report.alarm_at is not None
    assert report.moved_at is not None
    assert start <= report.alarm_at < start + 20
    assert abs(report.moved_at - start) <= 5
    assert "Your normal has moved" in report.answer()
    assert report.covered_since(start) == 0
    assert len(report.add) == 5
    assert all(int(name.removesuffix(".png")) >= report.moved_at for name in report.add)
    told = report.to_json()
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_lower_scores_are_no_reason_for_an_alarm() -> None:
    random = np.random.default_rng(2)
    stream = [("x", float(score)) for score in random.normal(0.5, 0.1, 100)]
    report = monitor_scores(random.normal(1, 0.1, 30).tolist(), stream)
    assert report.alarm_at is None
    assert report.covered_since(0) == 1
    assert "has not moved" in report.answer()
    assert report.to_json()["add"] == []


def test_images_to_add_cover_each_kind_of_the_new() -> None:
    """Two new kinds, 30 and 10 images: the first two names are one of each."""
    axes = np.eye(4)
    kinds = [axes[1]] * 30 + [axes[2]] * 10
    tokens = np.stack(kinds)[:, None]
    stream = [(f"{place}", 1.0) for place in range(40)]
    calibration = np.linspace(0.0, 0.02, 40).tolist()
    report = monitor_scores(calibration, stream, tokens=tokens)
    assert len(report.add) == 2
    assert int(report.add[0]) < 30 <= int(report.add[1])


@pytest.mark.parametrize(
    ("calibration", "settings", "code"),
    [
        ([0.1, 0.2, 0.3], {}, "drift-too-few"),
        ([0.1, 0.2, 0.3, math.nan], {}, "drift-calibration-not-finite"),
        ([0.1] * 9, {"false_alarms": 0.0}, "share-range"),
        ([0.1] * 9, {"defects": 1.0}, "drift-defects-range"),
    ],
)
def test_what_cannot_be_tested_is_refused(
    calibration: list[float], settings: dict[str, float], code: str
) -> None:
    with raises(UsageError, code):
        monitor_scores(calibration, [("x", 0.5)], **settings)  # type: ignore[arg-type]
    with raises(UsageError, "drift-empty-stream"):
        monitor_scores([0.1] * 9, [])
