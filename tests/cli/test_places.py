"""Files that are no files, links that lead nowhere, folders that are not there."""

import os
from pathlib import Path

import pytest

from hyperfsad.cli import main
from hyperfsad.cli.console import DONE, NOTHING, SOME_FAILED
from tests.conftest import read_results


def test_a_link_that_leads_to_itself_is_one_image_s_error(
    small: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (photos / "a.png").symlink_to(photos / "b.png")
    (photos / "b.png").symlink_to(photos / "a.png")
    out, found = tmp_path / "out", tmp_path / "found"
    assert main(["detect", str(photos), "--detector", str(small), "-o", str(out)]) == SOME_FAILED
    errors = {
        os.path.basename(str(record["image"])): record["error"] for record in read_results(out)
    }
    assert [name for name, error in errors.items() if error] == ["a.png", "b.png"]
    assert "too many levels of symbolic links" in str(errors["a.png"])
    evaluation = ["evaluate", "--good", str(photos), "--detector", str(small), "-o", str(found)]
    assert main(evaluation) == SOME_FAILED
    assert "Traceback" not in capsys.readouterr().err


def test_a_pipe_is_no_detector(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for place in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path / "loop")):
        for command in (["info", place], ["detect", str(photos), "--detector", place]):
            assert main(command) == NOTHING
            assert place in capsys.readouterr().err


def test_an_image_that_is_given_twice_is_judged_once(
    small: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    images = ["photos/3.png", "./photos/3.png", str(photos / "3.png"), "photos", "photos/*.png"]
    assert main(["detect", *images, "--detector", str(small), "-o", "out"]) == DONE
    names = [str(record["image"]) for record in read_results(tmp_path / "out")]
    assert names == ["photos/3.png", *(f"photos/{number}.png" for number in (0, 1, 2, 4))]
