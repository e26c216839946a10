"""Two commands at one place: the second gets a sentence or waits, and nothing is lost."""

from pathlib import Path

import pytest

from hyperfsad import HyperFSAD, HyperfsadError
from hyperfsad.cli import main
from hyperfsad.cli.console import DONE, NOTHING
from tests.cli.running import refusal
from tests.codes import raises
from tests.conftest import make_picture, read_results
from tests.disk.holding import FILE, FOLDER, held_elsewhere, run_behind
from tests.forks import Forked


def test_two_detects_or_a_watch_in_one_folder(
    fitted: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    detect = ["detect", str(photos), "--detector", str(fitted), "-o", str(out), "--no-heatmaps"]
    assert main(detect) == DONE
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    watch = ["watch", str(photos), "--detector", str(fitted), "-o", str(out), "--once"]
    evaluate = ["evaluate", "--detector", str(fitted), "--good", str(photos / "2.png")]
    evaluate += ["--bad", str(photos / "3.png"), "-o", str(out)]
    with held_elsewhere(FOLDER, out):
        for command in (detect, watch, evaluate):
            capsys.readouterr()
            assert main(command) == NOTHING
            said = capsys.readouterr().err.strip().splitlines()[-1]
            assert "is writing to" in said
            assert "--wait" in said
        inside = {path.name: path.read_bytes() for path in out.iterdir()}
    assert {name: inside[name] for name in before} == before
    with held_elsewhere(FOLDER, out) as holder:
        assert run_behind(holder, detect) == DONE
    assert len(read_results(out)) == 5
    assert {path.name for path in out.iterdir()} == set(before)


def test_changing_a_detector_that_another_changes(fitted: Path, photos: Path) -> None:
    before = fitted.read_bytes()
    commands = [
        ["extend", str(fitted), str(photos / "2.png")],
        ["calibrate", str(fitted), "--threshold", "0.5"],
        ["fit", str(photos), "-o", str(fitted)],
    ]
    detector = HyperFSAD.load(fitted)
    with held_elsewhere(FILE, fitted):
        for command in commands:
            assert refusal(*command) == "target-locked"
        with raises(HyperfsadError, "target-locked"):
            detector.save(fitted)
        HyperFSAD.load(fitted)  # reading is always allowed
    assert fitted.read_bytes() == before
    with held_elsewhere(FILE, fitted) as holder:
        assert run_behind(holder, commands[1]) == DONE
    assert HyperFSAD.load(fitted).threshold_ == 0.5


def test_two_extends_at_once_lose_nothing(fitted: Path, photos: Path) -> None:
    started = [
        Forked(["extend", fitted, photos / f"{number}.png", "--wait", "--device", "cpu"])
        for number in (2, 3)
    ]
    assert [process.returncode for process in started] == [DONE, DONE]
    assert len(HyperFSAD.load(fitted).support_) == 4
    assert [path.name for path in fitted.parent.glob("*.lock")] == []


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(
    fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its header is one version's, its tensors another's: that is no damage."""
    from hyperfsad.detector import file
    from hyperfsad.disk.tensors import read_head

    other = tmp_path / "other.hfsad"
    detector = HyperFSAD.load(fitted, device="cpu")
    detector.extend([make_picture(8)]).save(other)

    def replaced(path: Path) -> object:
        found = read_head(path)
        if other.exists():
            other.replace(path)
        return found

    monkeypatch.setattr(file, "read_head", replaced)
    assert len(HyperFSAD.load(fitted).support_) == 3
