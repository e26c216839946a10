"""`info --machine`: what this machine computes with."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from hyperfsad import __version__, threads
from hyperfsad.cli import machine
from hyperfsad.cli.console import DONE
from hyperfsad.encoders import devices
from hyperfsad.method import kernel
from tests.cli.running import command, refusal


def test_it_names_devices_kernel_threads_and_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("info", "--machine", "--json") == DONE
    found = json.loads(capsys.readouterr().out)
    assert found["hyperfsad"] == __version__
    assert found["devices"] == devices.available()
    assert found["auto"] in found["devices"]
    assert found["kernel"] == kernel.instruction_set()
    assert (found["cores"], found["threads"]) == (threads.cores(), threads.count())
    assert found["versions"]["numpy"] == version("numpy")


def test_what_is_missing_is_visible(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "instruction_set", lambda: None)
    monkeypatch.setattr(machine, "PACKAGES", ("numpy", "hyperfsad-none"))
    assert command("info", "--machine") == DONE
    rows = dict(row.split(maxsplit=1) for row in capsys.readouterr().out.splitlines())
    assert rows["kernel"].startswith("not compiled")
    assert rows["hyperfsad-none"] == "not installed"
    assert "cpu" in rows


def test_it_is_a_file_or_the_machine(fitted: Path) -> None:
    assert refusal("info") == "either-or"
    assert refusal("info", fitted, "--machine") == "either-or"
