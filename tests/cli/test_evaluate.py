"""The command evaluate."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from hyperfsad.cli.console import DONE, NOTHING, SOME_FAILED
from tests.cli.running import refusal
from tests.lab.trees import mvtec_tree


@pytest.fixture(scope="module")
def place(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of parts, and a detector that calls about half of them anomalous."""
    root = tmp_path_factory.mktemp("evaluate")
    mvtec_tree(root, ["bolt"], normal=2, test=4)
    detector = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
    detector.fit(root / "bolt" / "train" / "good")
    levels = sorted(result.level or 0.0 for result in detector.predict_many(root / "bolt/test"))
    assert detector.threshold_ is not None
    assert detector.map_threshold_ is not None
    detector.threshold_ *= levels[4]
    detector.map_threshold_ *= levels[4]
    detector.save(root / "part.hfsad")
    return root


def test_a_tree_and_the_threshold_that_the_page_recommends(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(place / "part.hfsad", "part.hfsad")
    command = ["evaluate", "--detector", "part.hfsad", str(place / "bolt")]
    assert main(command) == DONE
    text = capsys.readouterr().out
    assert re.search(r"good parts +\d +\d +[\d.]+ % false alarms \(95 %: ", text)
    assert "P-AUROC" in text
    assert text.endswith("See evaluation/evaluation.html\n")
    page = (tmp_path / "evaluation" / "evaluation.html").read_text()
    figures = json.loads((tmp_path / "evaluation" / "evaluation.json").read_text())
    commands = re.findall(r"<code>(.*?)</code>", page)
    others = [row for row in figures["thresholds"] if not row["current"]]
    assert len(commands) == len(others) > 0
    for words, row in zip(commands, others, strict=True):
        assert main(shlex.split(words)[1:]) == DONE
        assert main(command) == DONE
        again = json.loads((tmp_path / "evaluation" / "evaluation.json").read_text())
        assert again["threshold"] == row["threshold"]
        assert again["false_alarms"] == row["false_alarms"]
        assert again["found"]["count"] == again["found"]["total"] - row["missed"]["count"]


def test_good_and_bad_folders_and_a_bad_file(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, out = tmp_path / "good", tmp_path / "good" / "evaluation"
    shutil.copytree(place / "bolt" / "test" / "good", good)
    bad = place / "bolt" / "test" / "spot"
    parts = ["--good", str(good), "--bad", str(bad), "-o", str(out)]
    command = ["evaluate", "--detector", str(place / "part.hfsad"), *parts]
    assert main(command) == DONE
    shutil.copy(good / "000.png", out / "result.png")  # no part, but a result
    whole = (good / "001.png").read_bytes()
    (good / "001.png").write_bytes(whole[: len(whole) // 2])
    capsys.readouterr()
    assert main(command) == SOME_FAILED
    streams = capsys.readouterr()
    assert "001.png is damaged" in streams.err
    assert "1 image could not be read" in streams.out
    figures = json.loads((out / "evaluation.json").read_text())
    assert (figures["good_parts"], figures["defects"], figures["failed"]) == (3, 4, 1)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("", "test-set-choice"),
        ("{tree} --good {tree}", "test-set-choice"),
        ("{tree} {tree}", "one-tree"),
        ("{root}", "test-tree-without-images"),
        ("--good {empty}", "no-images"),
        ("--good {tree}/test/spot --bad {tree}/test", "both-good-and-bad"),
        ("--good {tree}/train", "only-learnt-parts"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    place: Path, tmp_path: Path, words: str, code: str
) -> None:
    (tmp_path / "empty").mkdir()
    filled = words.format(tree=place / "bolt", root=place, empty=tmp_path / "empty").split()
    out = tmp_path / "out"
    assert refusal("evaluate", "--detector", place / "part.hfsad", "-o", out, *filled) == code
    assert not out.exists()


def test_nothing_but_bad_files_is_exit_1(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.png").touch()
    command = ["evaluate", "--detector", str(place / "part.hfsad"), "-o", str(tmp_path / "out")]
    assert main([*command, "--good", str(tmp_path / "empty.png")]) == NOTHING
    assert "No image could be read" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["coco.json", "cvat.xml", "yolo"])
def test_what_detect_wrote_for_another_program_can_be_evaluated(
    place: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    detector, images, out = place / "part.hfsad", place / "bolt" / "test", tmp_path / "out"
    words = ["--formats", "yolo,cvat,label-studio,fiftyone", "--no-heatmaps"]
    assert (
        main(["detect", str(images), "--detector", str(detector), "-o", str(out), *words]) == DONE
    )
    capsys.readouterr()
    again = ["evaluate", "--detector", str(detector), "-o", str(tmp_path / "found"), "--json"]
    labels = ["--labels", str(out / name)]
    labels += ["--images", str(images)] if name == "cvat.xml" else []
    assert main([*again, *labels]) == DONE
    figures = json.loads(capsys.readouterr().out)
    found, alarms = figures["found"], figures["false_alarms"]
    assert found["count"] == found["total"] > 0  # the verdicts agree with themselves
    assert (alarms["count"], alarms["total"] > 0) == (0, True)
    assert figures["pixels"]["P-AUROC"] > 0.95
    assert refusal(*again, *labels, images) == "test-set-choice"
    assert refusal(*again, "--images", images) == "images-without-labels"
