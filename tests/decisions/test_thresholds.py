"""Thresholds from good parts alone: the rules, and the detector that follows them."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ImageEnhance

from hyperfsad import HyperFSAD, UsageError
from hyperfsad.cli import main
from hyperfsad.decisions.odd import odd_parts
from hyperfsad.decisions.thresholds import (
    FALSE_ALARM_RATE,
    ROUNDING,
    Calibration,
    LeaveOneOut,
    conformal_threshold,
    from_good_parts,
    from_support,
    needed,
    one_decides,
)
from hyperfsad.errors import HyperfsadWarning
from hyperfsad.wording import worded
from tests.codes import raises
from tests.conftest import make_picture, read_results

scores = st.lists(st.floats(0.01, 1, allow_nan=False), min_size=1, max_size=60)


LONE = (1.5, 1.2)
ONES = Calibration("support", 1.0, 1.0, 0.05, 1)
"""Against it, levels are scores."""


def further(
    scores: Sequence[float], peaks: Sequence[float], rate: float, support: Calibration
) -> Calibration:
    """The calibration of good parts with these scores and peaks."""
    reach = [support.level(*each) for each in zip(scores, peaks, strict=True)]
    return from_good_parts(reach, rate, support)


def left_out(held_out: tuple[float, ...], apart: float = 0.4) -> LeaveOneOut:
    """The same numbers for the score and for the map; none: a lone image."""
    total = max(len(held_out), 1)
    return LeaveOneOut(held_out, held_out, (apart,) * total, total)


@given(scores, st.sampled_from([0.01, 0.05, 0.1, 0.3]))
def test_the_conformal_threshold_is_the_order_statistic(values: list[float], rate: float) -> None:
    found = further(values, values, rate, ONES)
    assert found.rate == rate
    assert found.images == len(values)
    if len(values) < 1 / rate - 1 - 1e-9:
        assert found.method == "few"
        assert str(needed(rate)) in found.words
        return
    assert found.method == "conformal"
    rank = math.ceil(round((len(values) + 1) * (1 - rate), 9))
    assert found.threshold == found.map_threshold == pytest.approx(sorted(values)[rank - 1])


@pytest.mark.parametrize(("rate", "count"), [(0.01, 99), (0.05, 19), (0.1, 9), (0.5, 1)])
def test_how_many_good_parts_a_level_needs(rate: float, count: int) -> None:
    assert needed(rate) == count
    assert further([0.5] * count, [0.5] * count, rate, ONES).method == "conformal"
    if count > 1:
        few = [0.5] * (count - 1)
        assert further(few, few, rate, ONES).method == "few"


def test_the_bound_holds_on_average_over_the_draw() -> None:
    """A skewed distribution, 2,000 draws: the exact mean is 1 − ⌈(n + 1)(1 − α)⌉ / (n + 1)."""
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(2000):
        threshold = conformal_threshold(list(rng.exponential(1, 40)), 0.1)
        shares.append(math.exp(-threshold))
    assert np.mean(shares) <= 0.1 + 2 * np.std(shares) / math.sqrt(2000)
    assert np.mean(shares) == pytest.approx(1 - 37 / 41, abs=0.005)


@given(scores, st.floats(0.0, 1.2))
def test_p_values_count_good_parts_that_score_as_high(values: list[float], score: float) -> None:
    p_value = further(values, values, 0.05, ONES).p_value(score, 0.0)
    assert p_value == (1 + sum(value >= score * (1 - ROUNDING) for value in values)) / (
        len(values) + 1
    )


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=19, max_size=60),
    st.floats(0.1, 2),
    st.floats(0.1, 2),
)
def test_one_bound_holds_for_score_and_map_together(
    parts: list[tuple[float, float]], threshold: float, map_threshold: float
) -> None:
    """At most a share of the very parts is called anomalous, by score or by map."""
    support = Calibration("support", threshold, map_threshold, 0.05, 4)
    scores, peaks = [score for score, _ in parts], [peak for _, peak in parts]
    found = further(scores, peaks, 0.05, support)
    assert found.threshold / found.map_threshold == pytest.approx(threshold / map_threshold)
    wrong = [
        (score, peak)
        for score, peak in parts
        if score > found.threshold or peak > found.map_threshold
    ]
    assert len(wrong) <= 0.05 * (len(parts) + 1)
    for score, peak in parts:
        p_value = found.p_value(score, peak)
        assert p_value is not None
        assert ((score, peak) in wrong) == (p_value <= 0.05 + 1e-12)


def test_a_lone_image_is_judged_by_its_variety() -> None:
    found = from_support(left_out((), apart=0.4), FALSE_ALARM_RATE, LONE)
    assert found.threshold == pytest.approx(0.6)
    assert found.map_threshold == pytest.approx(0.48)
    assert (found.method, found.images) == ("support", 1)
    assert found.p_value(0.3, 0.3) is None
    assert "estimate" in found.words


def test_several_images_tell_how_others_score() -> None:
    """The formula, written out: the mean of those left out, and their spread above."""
    held_out = (0.4, 0.44, 0.42, 0.6)
    found = from_support(left_out(held_out), FALSE_ALARM_RATE, LONE)
    logs = np.log(held_out)
    spread = math.sqrt((8 * 0.1**2 + ((logs - logs.mean()) ** 2).sum()) / (8 + 3))
    others = logs.mean() + 2 * spread
    for threshold, lone in zip((found.threshold, found.map_threshold), LONE, strict=True):
        alone = math.log(lone * 0.4)
        assert threshold == pytest.approx(math.exp(alone / 8 + others * 7 / 8))


def test_copies_of_one_picture_count_as_one() -> None:
    """They say nothing of how good parts differ, however many there are."""
    lone = from_support(left_out(()), FALSE_ALARM_RATE, LONE).threshold
    for height in (0.0, 0.1, 0.35 * 0.4):
        copies = left_out((height,) * 4)
        assert copies.different == pytest.approx(0)
        assert from_support(copies, FALSE_ALARM_RATE, LONE).threshold == pytest.approx(lone)
    heights = (0.15, 0.18, 0.2, 0.24, 0.3, 0.5)
    seen = [left_out((height,) * 4).different for height in heights]
    assert seen == sorted(seen)
    assert seen[-3:] == pytest.approx([1, 1, 1])


@settings(max_examples=50)
@given(
    st.lists(st.floats(0.05, 0.8), min_size=1, max_size=8),
    st.floats(0.01, 0.4),
    st.floats(0.01, 0.4),
)
def test_fewer_false_alarms_take_a_higher_threshold(
    values: list[float], one: float, other: float
) -> None:
    seen = left_out(tuple(values) if len(values) > 1 else ())
    low, high = sorted((one, other))
    lower, higher = (from_support(seen, rate, LONE).threshold for rate in (high, low))
    assert higher >= lower
    assert further(values, values, low, ONES).threshold > 0


@pytest.mark.parametrize(
    ("levels", "odd"),
    [
        ([0.7, 0.72, 0.75, 0.8, 0.74, 0.71, 0.78, 0.76, 2.0], [8]),
        ([2.0, 0.7, 0.72, 0.75, 0.8, 0.74, 0.71], []),  # too few to tell
        ([0.7, 0.72, 0.75, 0.8, 0.74, 0.71, 0.78, 0.76, 0.9], []),
        ([0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.7, 2.0], []),  # they differ widely
        ([0.7] * 20 + [2.0, 2.1], [20, 21]),
        ([0.7] * 7 + [2.0, 2.1], []),  # too many to be odd
        ([0.7] * 20 + [1.05, 1.2, 1.4, 1.7], []),  # a long tail is no odd part
    ],
)
def test_an_odd_part_stands_apart(levels: list[float], odd: list[int]) -> None:
    assert odd_parts(levels) == odd


def test_good_parts_are_rarely_odd() -> None:
    random = np.random.default_rng(0)
    draws = np.exp(random.normal(0, 0.15, (2000, 24)))
    assert np.mean([bool(odd_parts(list(draw))) for draw in draws]) < 0.04


@pytest.mark.parametrize(
    ("count", "rate", "enough"),
    [(18, 0.05, None), (19, 0.05, 39), (24, 0.05, 39), (38, 0.05, 39), (39, 0.05, None)],
)
def test_where_one_part_decides(count: int, rate: float, enough: int | None) -> None:
    assert one_decides(count, rate) == enough
    if count >= 19:
        values = [float(n) for n in range(1, count + 1)]
        largest = further(values, values, rate, ONES).threshold == pytest.approx(count)
        assert largest == (enough is not None)


def test_what_is_stored_comes_back() -> None:
    found = further([0.3, 0.1, 0.2], [0.5, 0.4, 0.6], 0.05, ONES)
    assert Calibration.from_dict(json.loads(json.dumps(found.to_dict()))) == found


# With a detector


@pytest.mark.parametrize("count", [1, 2, 4, 9, 18])
def test_fit_sets_the_threshold_and_results_carry_it(detector: HyperFSAD, count: int) -> None:
    detector.fit([make_picture(seed) for seed in range(count)])
    result = detector.predict(make_picture(99))
    assert result.threshold == detector.threshold_
    above = result.score > detector.threshold_  # type: ignore[operator]
    assert result.anomalous == (above or bool(result.regions))
    assert result.map_threshold == detector.map_threshold_
    assert result.threshold_from is not None
    assert result.threshold_from.startswith(
        f"estimate from the {'one' if count == 1 else count} good part"
    )
    assert result.p_value is None
    assert 0 < detector.threshold_ < 1  # type: ignore[operator]


def test_the_threshold_is_above_another_light_and_below_another_picture(
    detector: HyperFSAD,
) -> None:
    picture = make_picture(1)
    detector.fit(picture)
    assert detector.predict(ImageEnhance.Brightness(picture).enhance(1.05)).anomalous is False
    noise = np.random.default_rng(0).integers(0, 256, (80, 96, 3), dtype=np.uint8)
    assert detector.predict(noise).anomalous is True


def test_near_copies_are_told(detector: HyperFSAD) -> None:
    told: list[str] = []
    detector.notify = told.append
    detector.fit([ImageEnhance.Brightness(make_picture(1)).enhance(1 + n / 50) for n in range(4)])
    assert worded("good-parts-alike", {"count": 4}) in told
    origin = detector.predict(make_picture(2)).threshold_from
    assert origin is not None
    assert "learnt, which are almost the same, aiming at 5 %" in origin
    told.clear()
    detector.fit([make_picture(seed) for seed in range(4)])
    assert not [text for text in told if "almost the same" in text]


def test_calibrating_with_good_parts(detector: HyperFSAD) -> None:
    detector.fit([make_picture(1), make_picture(2)])
    good = [make_picture(seed) for seed in range(10, 29)]
    before = detector.calibration_
    assert before is not None
    detector.calibrate(good)
    results = [detector.predict(picture) for picture in good]
    found = [before.level(one.score, float(one.anomaly_map.max())) for one in results]
    assert detector.threshold_ == pytest.approx(max(found) * before.threshold)  # the 19th of 19
    assert detector.map_threshold_ == pytest.approx(max(found) * before.map_threshold)
    assert not any(one.anomalous or one.regions for one in results)
    result = detector.predict(make_picture(40))
    own = before.level(result.score, float(result.anomaly_map.max()))
    assert result.p_value == pytest.approx((1 + sum(one >= own for one in found)) / 20)
    assert result.to_dict()["p_value"] == result.p_value
    assert "on average" in str(result.to_dict()["threshold_from"])


def test_a_region_makes_an_image_anomalous(detector: HyperFSAD) -> None:
    detector.fit([make_picture(1), make_picture(2)])
    picture = make_picture(3)
    result = detector.predict(picture)
    detector.threshold_ = result.score + 0.1
    detector.map_threshold_ = float(result.anomaly_map.max()) - 0.01
    judged = detector.predict(picture)
    assert judged.anomalous is True
    assert judged.level == pytest.approx(1 + 0.01 / detector.map_threshold_, rel=1e-4)
    detector.map_threshold_ += 0.02
    assert detector.predict(picture).anomalous is False
    assert not detector.predict(picture).regions


def test_learnt_parts_and_copies_do_not_calibrate(detector: HyperFSAD) -> None:
    detector.fit([make_picture(1), make_picture(2)])
    with pytest.warns(HyperfsadWarning, match="learnt already|same picture") as told:
        detector.calibrate([make_picture(1), make_picture(3), make_picture(3)])
    assert len(told) == 2
    assert detector.calibration_ is not None
    assert detector.calibration_.images == 1
    with (
        pytest.warns(HyperfsadWarning, match="learnt already"),
        raises(UsageError, "no-good-parts"),
    ):
        detector.calibrate([make_picture(2)])


def test_extending_estimates_the_threshold_again(
    detector: HyperFSAD, photos: Path, tmp_path: Path
) -> None:
    whole = detector.fit(photos).calibration_
    paths = sorted(photos.iterdir())
    detector.fit(paths[:2]).save(tmp_path / "a.hfsad")
    extended = HyperFSAD.load(tmp_path / "a.hfsad", device="cpu").extend(paths[2:])
    assert extended.calibration_ == whole


def test_extending_marks_a_threshold_from_other_good_parts_as_stale(detector: HyperFSAD) -> None:
    detector.fit(make_picture(1)).calibrate([make_picture(seed) for seed in range(10, 30)])
    before = detector.threshold_
    detector.extend(make_picture(2))
    result = detector.predict(make_picture(3))
    assert result.threshold == before
    assert "stale" in str(result.threshold_from)
    assert result.p_value is None


def test_a_threshold_needs_no_files(detector: HyperFSAD, photos: Path, tmp_path: Path) -> None:
    first = detector.fit(photos).calibration_
    detector.save(tmp_path / "a.hfsad")
    for path in photos.iterdir():
        path.unlink()
    assert HyperFSAD.load(tmp_path / "a.hfsad", device="cpu").calibrate().calibration_ == first


def test_without_a_threshold(detector: HyperFSAD) -> None:
    detector.fit(make_picture(1)).fit(make_picture(1), threshold=False)
    result = detector.predict(make_picture(2))
    assert result.threshold is None
    assert result.anomalous is None
    assert result.threshold_from is None
    assert result.regions == ()


def test_a_threshold_set_by_hand_says_so(detector: HyperFSAD) -> None:
    detector.fit(make_picture(1)).threshold_ = 0.123
    result = detector.predict(make_picture(2))
    assert (result.threshold, result.threshold_from) == (0.123, "set by hand")


def test_a_threshold_set_by_hand_stays_when_parts_come_and_go(detector: HyperFSAD) -> None:
    detector.fit([make_picture(1), make_picture(2)]).move_threshold(0.5)
    by_map = detector.map_threshold_
    detector.extend(make_picture(3))
    detector.forget([detector.support_[0].sha256])
    assert [detector.threshold_, detector.map_threshold_] == [0.5, by_map]
    assert detector.threshold_from_ == "set by hand"


def test_a_damaged_calibration_is_not_written(detector: HyperFSAD, tmp_path: Path) -> None:
    from hyperfsad.detector import file

    detector.fit(make_picture(1))
    part = detector.part()
    spoiled = replace(part, header={**part.header, "calibration": {"method": "support"}})
    with raises(UsageError, "file-not-written"):
        file.write_file(tmp_path / "a.hfsad", [spoiled])
    assert not list(tmp_path.iterdir())


@pytest.fixture
def good(tmp_path: Path) -> Path:
    folder = tmp_path / "good"
    folder.mkdir()
    for seed in range(20, 29):
        make_picture(seed).save(folder / f"{seed}.png")
    return folder


def test_fit_calibrate_and_detect(
    tiny: str,
    photos: Path,
    good: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = str(tmp_path / "a.hfsad")
    normal = [str(photos / "0.png"), str(photos / "1.png")]
    assert main(["fit", *normal, "-o", file, "--backbone", tiny]) == 0
    assert "estimate from the 2 good parts it has learnt" in capsys.readouterr().out
    level = ["--false-alarm-rate", "0.1"]
    assert main(["calibrate", file, str(good), *level]) == 0
    assert "conformal from 9 good parts: at most 10 % false alarms" in capsys.readouterr().out
    assert main(["info", file]) == 0
    assert "conformal from 9 good parts" in capsys.readouterr().out
    out = tmp_path / "out"
    assert main(["detect", str(photos), "--detector", file, "-o", str(out)]) == 0
    assert re.search(r"5 images scored, \d anomalous, 0 failed", capsys.readouterr().out)
    lines = read_results(out)
    assert all(0 < float(str(line["p_value"])) <= 1 for line in lines)
    assert all(line["anomalous"] in (True, False) for line in lines)
    header = (out / "results.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    assert {"p_value", "threshold_from"} <= set(header)
    assert main(["calibrate", file]) == 0
    assert "estimate from the 2 good parts" in capsys.readouterr().out
    assert main(["calibrate", file, "--threshold", "0.5"]) == 0
    assert re.search(r"threshold 0\.500 \(map 0\.\d+\), set by hand", capsys.readouterr().out)


@pytest.mark.parametrize("rate", ["0", "1", "many"])
def test_a_rate_on_the_command_line(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["calibrate", "a.hfsad", "--false-alarm-rate", rate])
    assert "is not a share between 0 and 1" in capsys.readouterr().err


def test_products_are_calibrated_one_by_one(
    tiny: str, photos: Path, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    products, more = tmp_path / "products", tmp_path / "more"
    for name, source in (("a", photos), ("b", good)):
        (products / name).mkdir(parents=True)
        for path in sorted(source.iterdir())[:2]:
            (products / name / path.name).write_bytes(path.read_bytes())
    (more / "b").mkdir(parents=True)
    for path in sorted(good.iterdir())[2:]:
        (more / "b" / path.name).write_bytes(path.read_bytes())
    file = str(tmp_path / "line.hfsad")
    command = ["fit", "--categories", str(products), "-o", file, "--backbone", tiny]
    assert main([*command, "--calibrate", str(more), "--false-alarm-rate", "0.2"]) == 0
    told = capsys.readouterr().out
    assert "a: threshold" in told
    assert re.search("b: threshold .*conformal from 7 good parts", told)
    assert main(["calibrate", file, "--product", "a", str(good), "--false-alarm-rate", "0.2"]) == 0
    assert re.search("a: threshold .*conformal from 9 good parts", capsys.readouterr().out)
    assert main(["calibrate", file, str(good)]) == 2
    assert main(["calibrate", file, "--product", "c", str(good)]) == 2
