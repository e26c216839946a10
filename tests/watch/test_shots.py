"""Watching a camera: videos and the command line, each shot once, and what comes too late."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hyperfsad import AnomalyResult, HyperFSAD
from hyperfsad.cli import main
from hyperfsad.connect.sources import source_of
from hyperfsad.connect.triggers import Every, Software, trigger_of
from hyperfsad.errors import UsageError
from hyperfsad.images.loading import load_image
from hyperfsad.watch import CameraWatcher
from tests.cli.running import refusal
from tests.codes import codes, raises
from tests.conftest import make_picture, read_results
from tests.connect.videos import belt, make_video
from tests.waiting import until


@pytest.fixture(scope="module")
def fitted(tiny: str) -> HyperFSAD:
    detector = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
    return detector.fit([make_picture(100), make_picture(101)])


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds, each frame a part of its own."""
    frames = [np.asarray(make_picture(seed)) for seed in range(30)]
    return make_video(tmp_path_factory.mktemp("video") / "line 1.mkv", frames)


def watching(detector: HyperFSAD, video: Path, out: Path, **options: Any) -> CameraWatcher:
    trigger = options.pop("trigger", None) or Every(0.5)
    settings = {"notify": lambda _: None, "heatmaps": False, **options}
    return CameraWatcher(detector, source_of(str(video)), trigger, out, **settings)


def test_each_shot_gets_a_record_and_its_picture(
    fitted: HyperFSAD, video: Path, tmp_path: Path
) -> None:
    results = list(watching(fitted, video, tmp_path, heatmaps=True).run())
    records = read_results(tmp_path)
    assert len(records) == 6
    for number, result, record in zip(range(0, 30, 5), results, records, strict=True):
        image = str(record["image"])
        assert image == result.image
        assert Path(image).name == f"{number:06}.png"
        assert np.array_equal(np.asarray(Image.open(image)), np.asarray(make_picture(number)))
        assert record["score"] == fitted.predict(image).score
        assert (tmp_path / str(record["heatmap"])).is_file()
        assert (record["late"], record["error"]) == (False, None)
        assert float(str(record["milliseconds"])) > 0


def test_no_shot_is_judged_twice_across_restarts(
    fitted: HyperFSAD, video: Path, tmp_path: Path
) -> None:
    first = watching(fitted, video, tmp_path)
    for result in first.run():
        assert result.error is None
        if first.latencies.count == 2:
            first.stop()
    list(watching(fitted, video, tmp_path).run())
    assert list(watching(fitted, video, tmp_path).run()) == []
    names = [Path(str(record["image"])).stem for record in read_results(tmp_path)]
    assert names == [f"{number:06}" for number in range(0, 30, 5)]
    # a video written again under its name is another one
    status = video.stat()
    os.utime(video, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert len(list(watching(fitted, video, tmp_path).run())) == 6


def test_what_is_late_has_no_verdict(fitted: HyperFSAD, video: Path, tmp_path: Path) -> None:
    watcher = watching(fitted, video, tmp_path, deadline=1e-6)
    assert all(result.anomalous is None for result in watcher.run())
    records = read_results(tmp_path)
    assert len(records) == 6
    assert all(record["late"] is True and record["error"] for record in records)
    assert {record["anomalous"] for record in records} == {None}
    assert watcher.latencies.late == watcher.latencies.count == 6
    assert all(Path(str(record["image"])).is_file() for record in records)


class SlowDetector:
    """One that answers when the deadline is over."""

    def __init__(self, detector: HyperFSAD, seconds: float) -> None:
        self.detector, self.seconds = detector, seconds
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.detector, name)

    def predict(self, image: Any, *, keep_pictures: bool = False) -> AnomalyResult:
        end = time.monotonic() + self.seconds
        self.asked += 1
        found = self.detector.predict(image, keep_pictures=keep_pictures)
        until(lambda: time.monotonic() > end)
        return found


def test_a_verdict_that_was_made_too_late_is_none(
    fitted: HyperFSAD, video: Path, tmp_path: Path
) -> None:
    slow: Any = SlowDetector(fitted, 0.5)
    watcher = watching(slow, video, tmp_path, trigger=Every(60), deadline=0.5)
    assert [result.anomalous for result in watcher.run()] == [None]
    (record,) = read_results(tmp_path)
    assert (record["late"], record["anomalous"], record["level"]) == (True, None, None)
    assert float(str(record["milliseconds"])) > 500


def test_parts_that_stand_still(fitted: HyperFSAD, tmp_path: Path) -> None:
    arriving = np.linspace(0.0, 0.5, 8).tolist()
    leaving = np.linspace(0.5, 1.1, 8).tolist()
    visit = [*arriving, *[0.5] * 10, *leaving, *[None] * 10]
    frames = [belt(place) for place in [*[None] * 10, *visit, *visit, *visit]]
    video = make_video(tmp_path / "belt.mkv", frames, rate=20)
    watcher = watching(fitted, video, tmp_path / "out", trigger=trigger_of("still"))
    assert len(list(watcher.run())) == 3
    for record in read_results(tmp_path / "out"):
        shown = load_image(str(record["image"])).rgb()
        assert np.array_equal(np.asarray(shown), belt(0.5))


def test_a_dark_camera_is_told_once_with_a_picture(fitted: HyperFSAD, tmp_path: Path) -> None:
    frames = [np.asarray(make_picture(seed)) // 8 for seed in range(6)]
    video = make_video(tmp_path / "dark.mkv", frames)
    said: list[str] = []
    list(watching(fitted, video, tmp_path / "out", trigger=Every(0.1), notify=said.append).run())
    assert codes(said).count("camera-finding") == 1
    assert Image.open(tmp_path / "out" / "setup" / "camera-dark.jpg").size == (96, 80)


def test_on_the_command_line(
    fitted: HyperFSAD, video: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted.save(tmp_path / "part.hfsad")
    use = ["watch", "--detector", str(tmp_path / "part.hfsad"), "-o", str(tmp_path / "out")]
    more = ["--trigger", "every:1s", "--deadline", "500s", "--json"]
    assert main([*use, "--source", str(video), *more]) == 0
    shown = capsys.readouterr()
    assert len([json.loads(row) for row in shown.out.splitlines()]) == 3
    assert "0 late" in shown.err
    assert "p99" in shown.err


def test_what_does_not_go_together(fitted: HyperFSAD, video: Path, tmp_path: Path) -> None:
    use = ["watch", "--detector", "part.hfsad"]
    assert refusal(*use) == "source-missing"
    assert refusal(*use, tmp_path, "--source", video) == "source-with-folder"
    assert refusal(*use, "--source", video, "--adapt") == "source-only-folder"
    assert refusal(*use, tmp_path, "--trigger", "still") == "source-options"
    assert refusal(*use, "--source", "part.png") == "source-unknown"
    with raises(UsageError, "trigger-needs-station"):
        watching(fitted, video, tmp_path, trigger=Software())
