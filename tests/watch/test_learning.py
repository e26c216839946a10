"""Learning while watching: when, from what, and that no kill changes what comes of it."""

import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hyperfsad import AnomalyResult, HyperFSAD
from hyperfsad.cli import main
from hyperfsad.detector.products import ProductDetector
from hyperfsad.errors import UsageError
from hyperfsad.messages import Notice
from hyperfsad.watch import Watcher, watch
from hyperfsad.watch.learning import MILESTONES
from tests.codes import codes, raises
from tests.conftest import make_picture, read_results
from tests.watch.test_watcher import QUICK, stopped

PARTS = 14


def part(seed: int) -> Image.Image:
    """A part of one kind: noise makes each another one."""
    noise = np.random.default_rng(seed).normal(0, 25, (80, 96, 3))
    return Image.fromarray(np.clip(np.asarray(make_picture(3)) + noise, 0, 255).astype(np.uint8))


@pytest.fixture(scope="module")
def fitted(tiny: str) -> HyperFSAD:
    detector = HyperFSAD(tiny, resolution=84, rotations=1, missing=0, device="cpu")
    return detector.fit([part(100), part(101)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parts of a line; the fifth cannot be read."""
    folder = tmp_path_factory.mktemp("camera")
    for seed in range(PARTS):
        path = folder / f"{seed:02}.png"
        part(seed).save(path)
        if seed == 4:
            path.write_bytes(b"broken")
    return folder


def run(detector: HyperFSAD, folder: Path, out: Path, **options: Any) -> list[AnomalyResult]:
    """All that is there, by name: the newest file of a stamp is the last."""
    settings = {**QUICK, "settle": 0.0, "patience": 0.0, "heatmaps": False, "adapt": True}
    return list(watch(detector, folder, out, once=True, **{**settings, **options}))


@pytest.fixture(scope="module")
def whole(
    fitted: HyperFSAD, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    """The output of a watch that nothing interrupted, and what it said."""
    out, said = tmp_path_factory.mktemp("whole"), []  # type: ignore[var-annotated]
    run(fitted, folder, out, notify=said.append)
    return out, said


def found(out: Path) -> list[tuple[object, ...]]:
    names = ("image", "score", "threshold", "anomalous", "detector")
    return [tuple(record[name] for name in names) for record in read_results(out)]


def test_it_learns_after_twelve_parts_that_could_be_read(
    fitted: HyperFSAD, folder: Path, whole: tuple[Path, list[str]]
) -> None:
    out, said = whole
    records = read_results(out)
    images = [str(record["image"]) for record in records if record["error"] is None]
    expected = fitted.__copy__().adapt(images[:12])
    used = [str(record["detector"]) for record in records]
    assert used == [fitted.identity()[:12]] * 13 + [expected.identity()[:12]]
    file = out / f"adapted-{fitted.identity()[:12]}-12.hfsad"
    assert HyperFSAD.load(file, device="cpu").identity() == expected.identity()
    assert fitted.unlabelled_ is None
    (told,) = [each for each in said if isinstance(each, Notice) and each.code == "watch-adapted"]
    assert told.facts["parts"] == 12
    assert told.facts["before"] == (fitted.threshold_, fitted.map_threshold_)
    assert told.facts["after"] == (expected.threshold_, expected.map_threshold_)
    verdicts = {str(record["image"]): record["anomalous"] for record in records}
    results = expected.predict_many(images[:12])
    assert told.facts["changed"] == sum(one.anomalous is not verdicts[one.image] for one in results)


def test_after_twenty_four_parts_it_learns_again_from_the_detector_that_was_given(
    fitted: HyperFSAD, folder: Path, tmp_path: Path, whole: tuple[Path, list[str]]
) -> None:
    camera, out = tmp_path / "camera", tmp_path / "out"
    shutil.copytree(whole[0], out)
    camera.mkdir()
    for seed in range(50, 61):
        part(seed).save(camera / f"{seed}.png")
    run(fitted, camera, out)
    images = [str(record["image"]) for record in read_results(out) if record["error"] is None]
    assert len(images) == 24
    expected = fitted.__copy__().adapt(images)
    file = out / f"adapted-{fitted.identity()[:12]}-24.hfsad"
    assert HyperFSAD.load(file, device="cpu").identity() == expected.identity()


@pytest.mark.parametrize("cut", [13, 14])
def test_stopped_before_or_after_it_learns_it_goes_on_as_if_it_had_not_been(
    fitted: HyperFSAD, folder: Path, tmp_path: Path, whole: tuple[Path, list[str]], cut: int
) -> None:
    settings = {**QUICK, "settle": 0.0, "patience": 0.0, "heatmaps": False, "adapt": True}
    first = watch(fitted, folder, tmp_path, once=True, **settings)
    for _ in range(cut):  # closed at a result: what follows its record was not done
        next(first)
    first.close()
    said: list[str] = []
    run(fitted, folder, tmp_path, notify=said.append)
    assert found(tmp_path) == found(whole[0])
    assert ("watch-adapted-before" in codes(said)) is (cut > 13)
    assert ("watch-adapted" in codes(said)) is (cut == 13)


def test_killed_it_goes_on_and_the_given_file_is_not_touched(
    fitted: HyperFSAD,
    folder: Path,
    tmp_path: Path,
    whole: tuple[Path, list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, out = tmp_path / "part.hfsad", tmp_path / "out"
    fitted.save(file)
    before = file.read_bytes()
    command = ["watch", str(folder), "--detector", str(file), "-o", str(out), "--adapt"]
    command += ["--no-heatmaps", "--interval", "0.02", "--settle", "0", "--patience", "0"]
    assert stopped(command, out, 13, signal.SIGKILL)[0] == -signal.SIGKILL  # as it learns
    assert main([*command, "--once"]) in (0, 3)
    assert "adapted to 12 parts" in capsys.readouterr().err
    assert found(out) == found(whole[0])
    assert file.read_bytes() == before


def test_parts_that_are_gone_or_foreign_are_not_learnt(fitted: HyperFSAD, tmp_path: Path) -> None:
    folder, out, said = tmp_path / "camera", tmp_path / "out", []  # type: ignore[var-annotated]
    folder.mkdir()
    for seed in range(MILESTONES[0] - 1):
        part(seed).save(folder / f"{seed:02}.png")
    detector = fitted.__copy__()
    detector.foreign_ = 0.0  # all look like another product
    run(detector, folder, out)
    for seed in range(2):
        part(seed + 50).save(folder / f"more {seed}.png")
    run(fitted, folder, out, notify=said.append)
    assert not {"watch-adapted", "watch-not-adapted"} & set(codes(said))
    for seed in range(MILESTONES[0]):
        path = folder / "latest.png"  # written again and again under one name
        part(seed + 60).save(path)
        run(fitted, folder, out, notify=said.append)
    assert codes(said).count("watch-not-adapted") >= 1
    assert "watch-adapted" not in codes(said)
    assert not list(out.glob("adapted-*"))


def test_a_changed_detector_learns_anew(
    fitted: HyperFSAD, folder: Path, tmp_path: Path, whole: tuple[Path, list[str]]
) -> None:
    other, said = fitted.__copy__(), []  # type: ignore[var-annotated]
    assert fitted.threshold_ is not None
    (tmp_path / "results.jsonl").write_bytes((whole[0] / "results.jsonl").read_bytes())
    other.move_threshold(2 * fitted.threshold_)
    run(other, folder, tmp_path, notify=said.append)
    assert codes(said).count("watch-adapted") == 1
    assert [path.name for path in tmp_path.glob("adapted-*")] == [
        f"adapted-{other.identity()[:12]}-12.hfsad"
    ]


def test_a_detector_of_several_products_cannot_learn(tiny: str, tmp_path: Path) -> None:
    detector = ProductDetector(tiny, resolution=84, device="cpu")
    detector.identity = lambda: "none"  # type: ignore[method-assign]
    with raises(UsageError, "watch-adapt-one"):
        Watcher(detector, tmp_path / "camera", tmp_path / "out", adapt=True)
