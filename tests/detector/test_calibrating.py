"""What is said about good parts that set a threshold."""

import pytest

from hyperfsad.decisions.thresholds import Calibration
from hyperfsad.detector.calibrating import calibrated
from hyperfsad.detector.remarks import Reach

SUPPORT = Calibration("support", 0.4, 0.6, 0.05, 4)


def parts(*odd: float) -> list[Reach]:
    """Forty good parts, of which the last ones stand apart."""
    usual = [0.7 + 0.005 * number for number in range(40 - len(odd))]
    return [(f"{place}.png", reach) for place, reach in enumerate([*usual, *odd])]


def test_an_odd_good_part_is_named_and_left_out() -> None:
    told: list[str] = []
    without = calibrated(parts()[:39], 0.05, SUPPORT, False, told.append)
    assert not told
    found = calibrated(parts(2.0), 0.05, SUPPORT, False, told.append)
    assert (found.threshold, found.map_threshold) == (without.threshold, without.map_threshold)
    assert (found.images, found.odd) == (39, 1)
    assert "39 good parts (1 odd left out)" in found.words
    assert Calibration.from_dict(found.to_dict()) == found
    assert told == [
        "39.png scores 2.2 times as high as any other good part, so the threshold leaves it out:"
        " look at it with `hyperfsad explain`, or use --keep-odd."
    ]


def test_an_odd_good_part_is_kept_on_request() -> None:
    told: list[str] = []
    found = calibrated(parts(2.0, 2.2), 0.05, SUPPORT, True, told.append)
    assert (found.images, found.odd) == (40, 0)
    assert found.threshold == pytest.approx(0.4 * 2.0)  # the 39th of 40
    assert told == [
        "38.png, 39.png score 2.5 times as high as any other good part, and have a say in the"
        " threshold.",
        "Above the threshold that was estimated from the learnt parts: 38.png, 39.png. Make sure"
        " that these parts are good.",
    ]


def test_where_one_part_decides_it_is_named() -> None:
    told: list[str] = []
    calibrated(parts()[:24], 0.05, SUPPORT, False, told.append)
    assert told == [
        "At 5 % with 24 good parts, one part sets the threshold: 23.png. With 39 parts or more, one"
        " part no longer decides."
    ]
