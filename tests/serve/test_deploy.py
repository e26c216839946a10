"""The files of deploy/ say what the station's own options and rooms are."""

import re
from pathlib import Path
from typing import Any

import pytest

from hyperfsad.cli import main
from hyperfsad.encoders import REGISTRY
from hyperfsad.serve.server import SHUTDOWN_TIMEOUT

DEPLOY = Path(__file__).parents[2] / "deploy"
yaml: Any = pytest.importorskip("yaml")


def options(capsys: pytest.CaptureFixture[str]) -> set[str]:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    return set(re.findall(r"--[a-z-]+", capsys.readouterr().out))


def test_options_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    known = options(capsys)
    used = re.findall(r"--[a-z-]+", _start("hyperfsad.service", "ExecStart="))
    used += re.findall(r'"(--[a-z-]+)"', (DEPLOY / "Dockerfile").read_text())
    stations = [one for name, one in _services().items() if name != "database"]
    used += [word for one in stations for word in one["command"] if word.startswith("--")]
    assert len(used) > 8
    assert set(used) <= known


def test_a_stop_has_time_to_finish() -> None:
    assert int(_start("hyperfsad.service", "TimeoutStopSec=")) > SHUTDOWN_TIMEOUT
    for name, one in _services().items():
        if name != "database":
            assert 60 * int(one["stop_grace_period"].removesuffix("m")) > SHUTDOWN_TIMEOUT


def test_nothing_runs_with_more_rights_than_it_needs() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^USER \d+:\d+$", text, re.M)
    assert text.count("\nFROM ") == 2
    for name, one in _services().items():
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))
        if name != "database":
            assert one["read_only"] is True
            assert one["cap_drop"] == ["ALL"]
    assert _start("hyperfsad.service", "DynamicUser=") == "yes"


def test_the_image_has_the_encoder_of_the_default_recipe() -> None:
    from hyperfsad.detector.settings import RECIPES

    named = re.search(r"^ARG ENCODERS=(\S+)$", (DEPLOY / "Dockerfile").read_text(), re.M)
    assert named is not None
    assert named[1] in REGISTRY
    assert named[1] == RECIPES["default"].backbone


def _services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found


def _start(file: str, key: str) -> str:
    """A setting of the unit, with the rows that follow a backslash."""
    text = (DEPLOY / file).read_text().replace("\\\n", " ")
    return next(row.removeprefix(key) for row in text.splitlines() if row.startswith(key))
