"""What is said about good parts that set a threshold."""

import pytest

from hyperfsad.decisions.thresholds import Calibration
from hyperfsad.detector.calibration import GoodPart, calibrate_from
from hyperfsad.messages import Notice

SUPPORT = Calibration("support", 0.4, 0.6, 0.05, 4)


def parts(*odd: float) -> list[GoodPart]:
    """Forty good parts, of which the last ones stand apart."""
    usual = [0.7 + 0.005 * number for number in range(40 - len(odd))]
    return [(f"{place}.png", reach) for place, reach in enumerate([*usual, *odd])]


def test_an_odd_good_part_is_named_and_left_out() -> None:
    told: list[Notice] = []
    without = calibrate_from(parts()[:39], 0.05, SUPPORT, False, told.append)  # type: ignore[arg-type]
    assert not told
    found = calibrate_from(parts(2.0), 0.05, SUPPORT, False, told.append)  # type: ignore[arg-type]
    assert (found.threshold, found.map_threshold) == (without.threshold, without.map_threshold)
    assert (found.images, found.odd) == (39, 1)
    assert "39 good parts (1 odd left out)" in found.words
    assert Calibration.from_dict(found.to_dict()) == found
    assert [(each.code, each.facts["names"]) for each in told] == [
        ("good-parts-outliers", ["39.png"])
    ]
    assert told[0].startswith("39.png scores 2.2 times as high")


def test_an_odd_good_part_is_kept_on_request() -> None:
    told: list[Notice] = []
    found = calibrate_from(parts(2.0, 2.2), 0.05, SUPPORT, True, told.append)  # type: ignore[arg-type]
    assert (found.images, found.odd) == (40, 0)
    assert found.threshold == pytest.approx(0.4 * 2.0)  # the 39th of 40
    assert [each.code for each in told] == ["good-parts-outliers-kept", "good-parts-above"]
    assert all(each.facts["names"] == ["38.png", "39.png"] for each in told)


def test_where_one_part_decides_it_is_named() -> None:
    told: list[Notice] = []
    calibrate_from(parts()[:24], 0.05, SUPPORT, False, told.append)  # type: ignore[arg-type]
    assert [each.code for each in told] == ["one-part-decides"]
    assert told[0].facts == {"rate": 0.05, "parts": 24, "name": "23.png", "enough": 39}
