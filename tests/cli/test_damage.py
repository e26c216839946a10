"""One damaged picture never stops a command: it is named, and the others are done."""

import shutil
from pathlib import Path

import pytest

from hyperfsad.cli import main
from hyperfsad.cli.console import NOTHING, SOME_FAILED
from tests.cli.running import SMALL
from tests.conftest import read_results
from tests.images.damage import hard_files


@pytest.fixture
def mixture(photos: Path) -> Path:
    """Good pictures, and those that have stopped runs between them."""
    for path in hard_files(photos.parent / "hard"):
        shutil.copy(path, photos / f"1-{path.name}")
    return photos


def named(text: str, folder: Path) -> bool:
    """Whether each damaged picture has its sentence."""
    return all(path.name in text for path in folder.glob("1-*")) and "Traceback" not in text


def test_inspections_go_on(
    small: Path, mixture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = ["--once", "--settle", "0", "--patience", "0"]
    for command, options in (("detect", []), ("watch", waits)):
        out = tmp_path / command
        arguments = [command, str(mixture), "--detector", str(small), "-o", str(out), *options]
        assert main(arguments) == SOME_FAILED
        assert named(capsys.readouterr().err, mixture)
        records = read_results(out)
        assert sum(record["error"] is None for record in records) == 5
        assert sum(record["error"] is not None for record in records) == 5
    hard = str(next(mixture.glob("1-half*")))
    assert main(["explain", hard, "--detector", str(small)]) == NOTHING
    assert hard in capsys.readouterr().err
    evaluation = [
        "evaluate",
        "--good",
        str(mixture),
        "--detector",
        str(small),
        "-o",
        str(tmp_path / "found"),
    ]
    assert main(evaluation) == SOME_FAILED
    assert named(capsys.readouterr().err, mixture)


def test_learning_goes_on(
    tiny: str, mixture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "new.hfsad")
    first = [str(mixture / "0.png"), str(mixture / "1.png")]
    every = [str(mixture)]
    backbone = ["--backbone", tiny]
    commands = {
        "fit": [*every, "-o", target, *backbone, *SMALL],
        "calibrate": [target, *every],
        "coverage": ["--normal", *every, *backbone, *SMALL],
        "drift": [*every, "--calibration", *every, "--normal", first[0], *backbone, *SMALL],
        "advise": [*every, "--bad", *every, *backbone, "--max-cost", "1"],
    }
    for command, arguments in commands.items():
        if command == "calibrate":
            assert main(["fit", *first, "-o", target, *backbone, *SMALL]) == 0
        assert main([command, *arguments]) == SOME_FAILED, command
        assert named(capsys.readouterr().err, mixture), command
