"""The resolution that keeps up with a line."""

import re
from pathlib import Path
from typing import Any

import pytest

from hyperfsad.cli import main
from hyperfsad.detector.rate import SPARE, resolution_for_rate
from hyperfsad.errors import UsageError
from tests.codes import raises
from tests.conftest import make_picture


def test_a_slow_line_keeps_the_usual_resolution(tiny: str) -> None:
    told: list[Any] = []
    good = [make_picture(seed) for seed in (1, 2)]
    side = resolution_for_rate(
        good, 1e-3, notify=told.append, backbone=tiny, resolution=84, device="cpu"
    )
    assert side == 84
    assert [notice.code for notice in told] == ["rate-usual"]
    assert told[0].facts["measured"] >= SPARE * 1e-3


def test_a_faster_line_takes_a_lower_one_and_says_what_it_costs(tiny: str) -> None:
    """How fast this machine is at each size decides, so the rate is found by asking."""
    told: list[Any] = []
    good = [make_picture(seed) for seed in (1, 2)]
    options: dict[str, Any] = {"backbone": tiny, "resolution": 896, "device": "cpu", "rotations": 1}
    with raises(UsageError, "rate-too-high") as found:
        resolution_for_rate(good, 1e9, **options)
    fastest = found.value.facts["possible"]
    side = resolution_for_rate(good, fastest / 3, notify=told.append, **options)
    assert side in (448, 560, 672, 784, 896)
    facts = told[0].facts
    assert facts["measured"] >= SPARE * facts["rate"]
    if side < 896:
        assert facts["usual_rate"] < SPARE * facts["rate"]
        assert facts["loss"] is None, "nothing was measured for this encoder"


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_what_is_no_rate_is_refused(rate: float, tiny: str) -> None:
    with raises(UsageError, "line-rate-range"):
        resolution_for_rate([make_picture(1)], rate, backbone=tiny)


@pytest.mark.parametrize("text", ["0.06/min", "3.6/h", "0.001/s", "0.001"])
def test_the_command_takes_parts_per_second_minute_or_hour(
    text: str, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_picture(1).save(tmp_path / "good.png")
    given = ["fit", str(tmp_path / "good.png"), "--backbone", tiny, "--resolution", "84"]
    assert main([*given, "--rate", text, "-o", str(tmp_path / "part.hfsad")]) == 0
    assert re.search(r"0\.001 were asked for", "".join(capsys.readouterr()))


def test_the_command_refuses_words(tiny: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["fit", str(tmp_path), "--rate", "fast", "-o", "part.hfsad"])
