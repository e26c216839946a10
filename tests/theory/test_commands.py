"""The commands through the public door, on a small model and real files."""

import json
from pathlib import Path

import numpy as np
import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cli.main import main
from hyperfsad.errors import UsageError
from hyperfsad.theory import certify, check_extension, check_stability, cover_normal, monitor_drift
from tests.conftest import make_picture


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Twelve pictures of one kind: a base and a little of something else."""
    return pictures(tmp_path / "good", range(1, 13), 0.1)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return pictures(tmp_path / "bad", range(20, 24), 0.9)


def pictures(folder: Path, seeds: range, share: float) -> Path:
    from PIL import Image

    folder.mkdir()
    base = make_picture(0)
    for seed in seeds:
        Image.blend(base, make_picture(seed), share).save(folder / f"{seed:02}.png")
    return folder


@pytest.fixture
def fitted(tiny: str, good: Path, tmp_path: Path) -> Path:
    path = tmp_path / "part.hfsad"
    HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu").fit(
        sorted(good.glob("*"))[:3]
    ).save(path)
    return path


def read(path: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return content


def test_coverage(
    tiny: str, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told, plot = tmp_path / "coverage.json", tmp_path / "coverage.png"
    command = ["coverage", "--normal", str(good), "--backbone", tiny, "--resolution", "84"]
    assert main([*command, "--json", str(told), "--plot", str(plot)]) == 0
    output = capsys.readouterr().out
    report = read(told)
    assert str(report["answer"]) in output
    assert len(report["layers"]) == 3  # type: ignore[arg-type]
    assert plot.stat().st_size > 1000
    assert main([*command, "--threshold", "0.9"]) == 1
    assert "take --recipe paper-offline" in capsys.readouterr().err
    command += ["--recipe", "paper-offline"]
    assert main([*command, "--threshold", "0.9"]) == 0
    assert "from the threshold 0.9000" in capsys.readouterr().out
    assert main([*command, "--radius", "2.1"]) == 0
    assert "1 support image, taken at random, covers" in capsys.readouterr().out
    assert main([*command, "--threshold", "1e-6"]) == 1


def test_certify(
    fitted: Path, good: Path, bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told, plot = tmp_path / "certificates.json", tmp_path / "certificates.png"
    command = ["certify", "--detector", str(fitted), "--good", str(good), "--bad", str(bad)]
    assert main([*command, "--json", str(told), "--plot", str(plot)]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("is left out") == 3  # what it has learnt flatters it
    assert "of 36 pairs certified" in captured.out
    assert "Worth keeping" in captured.out
    report = read(told)
    first = report["theorem_1"]
    assert isinstance(first, dict)
    assert (np.array(first["margin"], dtype=float) <= np.array(first["gap"])).all()
    detector = HyperFSAD.load(fitted, device="cpu")
    scores = {result.image: result.score for result in detector.predict([good, bad])}
    gap = [[scores[a] - scores[n] for a in first["bad"]] for n in first["good"]]
    assert np.array(first["gap"]) == pytest.approx(np.array(gap), abs=1e-5)
    assert plot.stat().st_size > 1000


def test_certify_can_learn_first(tiny: str, good: Path, bad: Path) -> None:
    normal = sorted(map(str, good.glob("*")))
    command = ["certify", "--good", *normal[2:], "--bad", str(bad), "--backbone", tiny]
    command += ["--layers", "2", "--resolution", "84"]
    assert main([*command, "--normal", *normal[:2]]) == 0
    assert main(command) == 1


def test_stability(
    fitted: Path, bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told, plot = tmp_path / "stability.json", tmp_path / "stability.png"
    command = ["stability", str(bad), "--detector", str(fitted)]
    assert main([*command, "--json", str(told), "--plot", str(plot)]) == 0
    assert "Every limit is kept." in capsys.readouterr().out
    assert read(told)["holds"] is True
    assert plot.stat().st_size > 1000
    assert main([*command, "--noise", "0"]) == 1


def test_drift_over_images(
    fitted: Path, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = pictures(tmp_path / "stream", range(40, 65), 0.6)
    told, plot = tmp_path / "drift.json", tmp_path / "drift.png"
    command = ["drift", "--detector", str(fitted), "--calibration", str(good)]
    assert main([*command, "--json", str(told), "--plot", str(plot), "--", str(stream)]) == 0
    output = capsys.readouterr().out
    assert "Your normal has moved" in output
    report = read(told)
    add = report["add"]
    assert isinstance(add, list)
    assert add
    assert all(name in output for name in add)
    assert plot.stat().st_size > 1000


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
    assert main(["drift", results, "--calibration", str(good), "--detector", str(fitted)]) == 1
    assert "images for both" in capsys.readouterr().err
    (after / "results.jsonl").write_text('{"image": "x"}\n', encoding="utf-8")
    assert main(["drift", str(after), "--calibration", str(before)]) == 1
    assert "Line 1 of" in capsys.readouterr().err
    assert main(["drift", str(tmp_path / "no.jsonl"), "--calibration", str(before)]) == 1


def test_extend_tells_what_stays_the_same(
    fitted: Path, good: Path, bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["extend", str(fitted), str(bad / "20.png"), "--check", str(good)]
    assert main(command) == 0
    output = capsys.readouterr().out
    assert "4 normal images" in output
    assert f"of {12 * 36} patches" in output
    assert "of 12 images" in output


def test_unaffected_patches_keep_their_place_in_the_map(
    fitted: Path, good: Path, bad: Path
) -> None:
    detector = HyperFSAD.load(fitted, device="cpu")
    queries = sorted(good.glob("*"))
    before = [result.anomaly_map for result in detector.predict(queries)]
    detector.extend(bad / "20.png")
    after = [result.anomaly_map for result in detector.predict(queries)]
    report = check_extension(detector, 3, queries)
    same = int((np.abs(np.array(after) - np.array(before)) < 1e-6).sum())
    assert 0 < report.everywhere <= same
    assert report.everywhere <= min(report.layers) <= report.patches == 12 * 36
    with pytest.raises(UsageError, match="some are new"):
        check_extension(detector, len(detector.memory_), queries)


def test_what_the_theory_does_not_speak_of_is_refused(detector: HyperFSAD, good: Path) -> None:
    with pytest.raises(UsageError, match="call fit first"):
        certify(detector, good, good)
    top = HyperFSAD(
        detector.backbone, recipe="paper-offline", pooling="top-10", resolution=84, device="cpu"
    )
    with pytest.raises(UsageError, match="max pooling"):
        certify(top.fit(good / "01.png"), good, good)
    dense = HyperFSAD(
        detector.backbone, recipe="paper-offline", lookup="softmax", resolution=84, device="cpu"
    )
    dense.fit([good / "01.png", good / "02.png"])
    with pytest.raises(UsageError, match="sparsemax"):
        check_stability(dense, good)
    with pytest.raises(UsageError, match="sparsemax"):
        check_extension(dense, 1, good)
    with pytest.warns(UserWarning, match="learnt already"):  # Theorem 1 takes any lookup
        assert certify(dense, good, good).margin.shape == (10, 12)


def test_bad_files_are_named_and_the_rest_goes_on(
    fitted: Path, good: Path, bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bad / "broken.png").write_bytes(b"no picture")
    command = ["certify", "--detector", str(fitted), "--good", str(good), "--bad", str(bad)]
    assert main(command) == 3
    captured = capsys.readouterr()
    assert "broken.png" in captured.err
    assert "of 36 pairs" in captured.out


def test_copies_do_not_cover_each_other(detector: HyperFSAD, good: Path) -> None:
    files = sorted(good.glob("*"))[:4]
    with pytest.warns(UserWarning, match="same picture"):
        report = cover_normal(detector, [*files, files[0]])
    assert len(report.names) == 4
    with (
        pytest.warns(UserWarning, match="same picture"),
        pytest.raises(UsageError, match="at least 3 different"),
    ):
        cover_normal(detector, [files[0]] * 5)
    with pytest.raises(UsageError, match="radius"):
        cover_normal(detector, files, radius=0)


def test_radii_come_from_the_detectors_own_threshold(detector: HyperFSAD, good: Path) -> None:
    free = cover_normal(detector, good)
    assert free.origin.startswith("the largest leave-one-out")
    assert free.missed[-1] == 0  # all images together cover each one
    detector.threshold_ = 0.9
    tied = cover_normal(detector, good)
    assert "threshold 0.9000" in tied.origin
    assert tied.layers[0].radius > free.layers[0].radius


def test_watching_leaves_out_what_was_learnt(detector: HyperFSAD, good: Path) -> None:
    files = sorted(good.glob("*"))
    detector.fit(files[:2])
    with pytest.warns(UserWarning, match="learnt already"):
        report = monitor_drift(detector, files[:7], files[7:])
    assert len(report.names) == 5
    with (
        pytest.warns(UserWarning, match="learnt already"),
        pytest.raises(UsageError, match="at least 4 calibration images, not 3"),
    ):
        monitor_drift(detector, files[:5], files[5:])
