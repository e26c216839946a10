"""The commands of the theory, on a small model and real files."""

import json
from pathlib import Path

import numpy as np
import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from tests.cli.running import refusal
from tests.quality.blending import blended


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Twelve pictures of one kind: a base and a little of something else."""
    return blended(tmp_path / "good", range(1, 13), 0.1)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return blended(tmp_path / "bad", range(20, 24), 0.9)


@pytest.fixture
def fitted(tiny: str, good: Path, tmp_path: Path) -> Path:
    path = tmp_path / "part.hfsad"
    HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu").fit(
        sorted(good.glob("*"))[:3]
    ).save(path)
    return path


def test_coverage(tiny: str, good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["coverage", "--normal", str(good), "--backbone", tiny, "--resolution", "84"]
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["layers"]) == 3
    assert main(command) == 0
    assert report["answer"] in capsys.readouterr().out
    assert refusal(*command, "--threshold", "0.9") == "theory-with-recipe"
    command += ["--recipe", "paper-offline"]
    assert main([*command, "--threshold", "0.9"]) == 0
    assert "from the threshold 0.9000" in capsys.readouterr().out
    assert main([*command, "--radius", "2.1"]) == 0
    assert "1 support image, taken at random, covers" in capsys.readouterr().out
    assert main([*command, "--threshold", "1e-6"]) == 2


def test_certify(fitted: Path, good: Path, bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["lab", "certify", "--detector", str(fitted), "--good", str(good), "--bad", str(bad)]
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert main(command) == 0
    captured = capsys.readouterr()
    assert captured.err.count("is left out") == 3  # what it has learnt scores too well
    assert "of 36 pairs certified" in captured.out
    assert "Worth keeping" in captured.out
    first = report["theorem_1"]
    assert isinstance(first, dict)
    assert (np.array(first["margin"], dtype=float) <= np.array(first["gap"])).all()
    detector = HyperFSAD.load(fitted, device="cpu")
    scores = {result.image: result.score for result in detector.predict_many([good, bad])}
    gap = [[scores[a] - scores[n] for a in first["bad"]] for n in first["good"]]
    patches = report["theorem_2_patches"]
    assert isinstance(patches, dict)
    assert (patches["defective_by"], patches["defective_patches"]) == ("peak", 4)
    assert np.array(first["gap"]) == pytest.approx(np.array(gap), abs=1e-5)


def test_stability(fitted: Path, bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["lab", "stability", str(bad), "--detector", str(fitted)]
    assert main(command) == 0
    assert "Every limit is kept." in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["holds"] is True
    assert main([*command, "--noise", "0"]) == 2


def test_drift_over_images(
    fitted: Path, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = blended(tmp_path / "stream", range(40, 65), 0.6)
    command = ["drift", "--detector", str(fitted), "--calibration", str(good)]
    assert main([*command, "--json", "--", str(stream)]) == 0
    add = json.loads(capsys.readouterr().out)["add"]
    assert add
    assert main([*command, "--", str(stream)]) == 0
    output = capsys.readouterr().out
    assert "Your normal has moved" in output
    assert all(name in output for name in add)


def test_drift_over_results(
    fitted: Path, good: Path, bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, out in ((good, before), (bad, after)):
        command = ["detect", str(folder), "--detector", str(fitted), "-o", str(out)]
        assert main([*command, "--no-heatmaps"]) == 0
    capsys.readouterr()
    results = str(after / "results.jsonl")
    assert main(["drift", results, results, str(after), "--calibration", str(before)]) == 0
    assert "normal has" in capsys.readouterr().out.lower()
    use = ("--detector", fitted)
    assert refusal("drift", results, "--calibration", good, *use) == "results-or-images"
    (after / "results.jsonl").write_text('{"image": "x"}\n', encoding="utf-8")
    assert refusal("drift", after, "--calibration", before) == "record-damaged"
    assert main(["drift", str(tmp_path / "no.jsonl"), "--calibration", str(before)]) == 2


def test_a_detector_of_several_products_is_refused(products: Path, mixed: Path) -> None:
    assert refusal("lab", "stability", mixed, "--detector", products) == "file-holds-products"
