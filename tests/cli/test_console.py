"""A file's name cannot forge what a command says."""

import argparse
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperfsad.cli import main
from hyperfsad.cli.console import LOGGED_FROM, NOTHING, SOME_FAILED, progress, say
from hyperfsad.cli.logs import logged
from tests.conftest import read_results

FORGED = "ok\n  0.001      0.286  good       bad.png\x1b[1A\x1b[2K\x9b31m\r\u202egnp.png"


def harmless(text: str) -> bool:
    return all(row.isprintable() for row in text.split("\n"))


def test_names_are_visible_wherever_they_are_printed(
    small: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(photos / "4.png", photos / FORGED)
    (photos / f"broken{FORGED}").write_bytes(b"no picture")
    (photos / "\x1b[2Jnotes.txt").touch()
    use = ["--detector", str(small)]
    waits = ["--once", "--settle", "0", "--patience", "0"]
    commands = [
        ["detect", str(photos), *use, "-o", str(tmp_path / "out")],
        ["watch", str(photos), *use, "-o", str(tmp_path / "watched"), *waits],
        ["evaluate", "--good", str(photos), *use, "-o", str(tmp_path / "found")],
        ["calibrate", str(small), str(photos)],
        ["extend", str(small), str(photos)],
        ["explain", str(photos / FORGED), *use],
        ["info", str(small)],
        ["info", str(small), "--json"],
        ["detect", f"{FORGED}.txt", *use],
    ]
    shown = ""
    for command in commands:
        code = main(command)
        assert code in (0, NOTHING, SOME_FAILED)
        captured = capsys.readouterr()
        assert harmless(captured.out), command
        assert harmless(captured.err), command
        assert "\n  0.001" not in captured.out + captured.err
        shown += captured.out + captured.err
    assert r"ok\n  0.001" in shown
    names = [str(record["image"]) for record in read_results(tmp_path / "out")]
    assert str(photos / FORGED) in names


def test_options_and_labels_are_visible_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        main(["info", "a", f"b{FORGED}"])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    list(progress([1], "product\x1b[2J"))
    say(f"hyperfsad: {FORGED}")
    shown = capsys.readouterr().err
    assert r"product\u001b[2J" in shown
    assert "\x1b[2J" not in shown
    assert "\x9b" not in shown


def test_a_log_says_that_long_work_begins(capsys: pytest.CaptureFixture[str]) -> None:
    """A terminal has a bar instead."""
    with logged(argparse.Namespace(), say):
        assert list(progress(range(LOGGED_FROM), "learning")) == list(range(LOGGED_FROM))
        assert capsys.readouterr().err == f"learning: {LOGGED_FROM} images\n"
        list(progress(iter(range(3000)), "detecting", 3000))
        assert capsys.readouterr().err == "detecting: 3,000 images\n"
        list(progress(range(LOGGED_FROM - 1), "learning"))
        assert capsys.readouterr().err == ""


class _Late:
    """Is hit by Ctrl-C while it is let go."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def heard_signals() -> Iterator[None]:
    """Ctrl-C is heard, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_signals")
def test_ctrl_c_in_a_finalizer_prints_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda found: heard.append(found.exc_value))
    monkeypatch.setattr("hyperfsad.cli.more.encoders", lambda options: len([_Late()]) - 1)
    assert main(["encoders"]) == 0
    assert not heard
    _Late()
    assert isinstance(heard.pop(), KeyboardInterrupt)
