"""Watching a folder: real files written as cameras write them, real processes that are killed."""

import csv
import io
import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperfsad import AnomalyResult, HyperFSAD
from hyperfsad.cli import main
from hyperfsad.errors import UsageError
from hyperfsad.report.records import results_csv
from hyperfsad.watch import Watcher, watch
from hyperfsad.wording import COMMAND_LINE, worded
from tests.cli.running import refusal
from tests.codes import codes, raises
from tests.conftest import make_picture, read_results
from tests.forks import Forked
from tests.waiting import DEADLINE, until

QUICK: dict[str, Any] = {"interval": 0.02, "settle": 0.05, "patience": DEADLINE}
"""Short waits; the long patience keeps a busy machine from giving a slow writer up."""


@pytest.fixture(scope="module")
def fitted(tiny: str) -> HyperFSAD:
    detector = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
    return detector.fit([make_picture(100), make_picture(101)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "camera"
    folder.mkdir()
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def put(path: Path, seed: int, time_ns: int | None = None) -> Path:
    make_picture(seed).save(path)
    if time_ns is not None:
        os.utime(path, ns=(time_ns, time_ns))
    return path


def png(seed: int) -> bytes:
    data = io.BytesIO()
    make_picture(seed, (300, 200)).save(data, "PNG")
    return data.getvalue()


def once(detector: HyperFSAD, folder: Path, out: Path, **options: Any) -> list[AnomalyResult]:
    return list(watch(detector, folder, out, once=True, **{**QUICK, **options}))


class Beside:
    """A watcher in a thread, as a camera has it beside it."""

    def __init__(self, detector: HyperFSAD, folder: Path, out: Path, **options: Any) -> None:
        self.said: list[str] = []
        self.results: list[AnomalyResult] = []
        settings = {**QUICK, "notify": self.said.append, "heatmaps": False, **options}
        self.watcher = Watcher(detector, folder, out, **settings)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        for result in self.watcher.run():
            self.results.append(result)

    def __enter__(self) -> "Beside":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.watcher.stop()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()

    def wait(self, condition: Callable[[], bool]) -> None:
        until(lambda: condition() or not self._thread.is_alive())
        assert condition(), self.said


def test_each_image_gets_one_record(fitted: HyperFSAD, folder: Path, out: Path) -> None:
    names = ["a b.png", "ä/ö ü.png", os.fsdecode(b"caf\xe9.png"), "img[1].png", "-x.png"]
    (folder / "ä").mkdir()
    for seed, name in enumerate(names):
        put(folder / name, seed)
    (folder / "notes.txt").write_text("no image")
    results = once(fitted, folder, out, maps=True)
    assert {r.image for r in results} == {str(folder / name) for name in names}
    records = read_results(out)
    assert [record["image"] for record in records] == [r.image for r in results]
    fields = ["image", "score", "score_map", "score_cls", "score_missing", "threshold"]
    fields += ["anomalous", "size"]
    fields += ["map_threshold", "threshold_from", "p_value", "regions", "product"]
    fields += ["unknown_product", "nearest_product", "product_similarity", "product_margin"]
    fields += ["foreign", "level", "map_peak", "map_peak_x", "map_peak_y"]
    fields += ["defect", "defect_score"]
    fields += ["heatmap", "map", "time", "stamp", "detector", "error"]
    assert list(records[0]) == fields
    for record in records:
        status = os.stat(str(record["image"]))
        assert record["stamp"] == [status.st_size, status.st_mtime_ns]
        assert record["score"] == fitted.predict_many([str(record["image"])]).__next__().score
        assert (out / str(record["heatmap"])).is_file()
        assert (out / str(record["map"])).is_file()
        assert str(record["time"]).endswith("+00:00")
        assert record["detector"] == fitted.identity()[:12]
    rows = list(csv.DictReader(io.StringIO("".join(results_csv(iter(records))))))
    assert [row["image"] for row in rows] == [record["image"] for record in records]
    before = (out / "results.jsonl").read_bytes()
    assert once(fitted, folder, out) == []
    assert (out / "results.jsonl").read_bytes() == before


def test_the_oldest_comes_first(fitted: HyperFSAD, folder: Path, out: Path) -> None:
    for seed, (name, when) in enumerate([("c", 30), ("z", 10), ("b", 20), ("a", 20)]):
        put(folder / f"{name}.png", seed, when * 10**9)
    results = once(fitted, folder, out)
    assert [Path(r.image).stem for r in results] == ["z", "a", "b", "c"]
    assert str(read_results(out)[0]["heatmap"]).startswith("heatmaps/1970-01-01/z-")


def test_files_in_pieces_renamed_files_and_files_written_again(
    fitted: HyperFSAD, folder: Path, out: Path
) -> None:
    def in_pieces(path: Path, data: bytes, pieces: int, pause: float) -> None:
        with path.open("wb", buffering=0) as file:
            for index in range(pieces):
                file.write(data[len(data) * index // pieces : len(data) * (index + 1) // pieces])
                time.sleep(pause)

    with Beside(fitted, folder, out) as beside:
        in_pieces(folder / "steady.png", png(1), 20, 0.02)
        in_pieces(folder / "halting.png", png(2), 3, 0.4)  # it rests longer than --settle
        for index, name in enumerate((".x.png", "x.png.tmp", "x.part.png")):
            (folder / name).write_bytes(png(3))
            beside.wait(lambda: len(beside.results) >= 2)
            (folder / name).rename(folder / f"renamed {index}.png")
        beside.wait(lambda: len(beside.results) >= 5)
        put(folder / "latest.png", 4, 10**18)
        beside.wait(lambda: len(beside.results) >= 6)
        put(folder / "latest.png", 5, 2 * 10**18)
        beside.wait(lambda: len(beside.results) >= 7)
    assert [r.error for r in beside.results] == [None] * 7
    scores = {Path(r.image).name: r.score for r in beside.results}
    assert scores["steady.png"] == fitted.predict(make_picture(1, (300, 200))).score
    assert scores["halting.png"] == fitted.predict(make_picture(2, (300, 200))).score
    latest = [record for record in read_results(out) if str(record["image"]).endswith("latest.png")]
    assert [record["score"] for record in latest] == [
        fitted.predict(make_picture(s)).score for s in (4, 5)
    ]
    assert len(read_results(out)) == 7


def test_heat_maps_of_one_name_do_not_collide(fitted: HyperFSAD, folder: Path, out: Path) -> None:
    for seed in range(3):
        put(folder / "latest.png", seed, (seed + 1) * 10**18)
        once(fitted, folder, out)
    assert len({record["heatmap"] for record in read_results(out)}) == 3
    assert len(list(out.glob("heatmaps/*/*.jpg"))) == 3
    put(folder / "latest.png", 0, 10**18)  # the first comes back: it was judged before
    assert once(fitted, folder, out) == []


def test_a_broken_file_gets_its_error_once_and_again_when_it_changes(
    fitted: HyperFSAD, folder: Path, out: Path
) -> None:
    (folder / "cut.png").write_bytes(png(1)[:-2000])
    (folder / "empty.png").touch()
    put(folder / "good.png", 2)
    results = once(fitted, folder, out, patience=0.3)
    assert {Path(r.image).name: bool(r.error) for r in results} == {
        "good.png": False,
        "cut.png": True,
        "empty.png": True,
    }
    assert results[0].error is None  # the good one did not wait for the others
    empty = worded("image-empty", {"name": str(folder / "empty.png")})
    assert any(record["error"] == empty for record in read_results(out))
    assert once(fitted, folder, out, patience=0.3) == []
    (folder / "cut.png").write_bytes(png(1))
    again = once(fitted, folder, out)
    assert [(Path(r.image).name, r.error) for r in again] == [("cut.png", None)]


def test_a_file_that_vanishes_or_changes_before_its_turn(
    fitted: HyperFSAD, folder: Path, out: Path
) -> None:
    for seed, name in enumerate(["0.png", "gone[1].png", "other.png"]):
        put(folder / name, seed, (seed + 1) * 10**15)
    said: list[str] = []
    run = watch(fitted, folder, out, once=True, notify=said.append, **QUICK)
    assert next(run).image == str(folder / "0.png")
    (folder / "gone[1].png").unlink()
    put(folder / "other.png", 9, 10**17)
    assert [r.score for r in run] == [fitted.predict(make_picture(9)).score]
    assert "watch-vanished" in codes(said)
    assert len(read_results(out)) == 2


def test_a_file_that_is_written_to_while_it_is_read_is_judged_as_it_is_then(
    tiny: str, folder: Path, out: Path
) -> None:
    class Slow(HyperFSAD):
        """While it looks at the first image, the camera writes the next under the same name."""

        calls = 0

        def score_images(self, images: Any) -> Any:
            self.calls += 1
            if self.calls == 1:
                put(folder / "latest.png", 2, 2 * 10**18)
            return super().score_images(images)

    detector = Slow(tiny, recipe="paper-offline", resolution=84, device="cpu").fit(
        make_picture(100)
    )
    put(folder / "latest.png", 1, 10**18)
    scores = [r.score for r in once(detector, folder, out)]
    assert scores == [detector.predict(make_picture(2)).score]
    assert [record["stamp"] for record in read_results(out)] == [
        [os.path.getsize(folder / "latest.png"), 2 * 10**18]
    ]


def test_a_folder_that_comes_late_goes_away_and_comes_back(
    fitted: HyperFSAD, tmp_path: Path, out: Path
) -> None:
    folder, away = tmp_path / "share", tmp_path / "away"
    with Beside(fitted, folder, out) as beside:
        beside.wait(lambda: "watch-folder-lost" in codes(beside.said))
        folder.mkdir()
        put(folder / "1.png", 1)
        beside.wait(lambda: len(beside.results) == 1)
        folder.rename(away)
        beside.wait(lambda: codes(beside.said).count("watch-folder-lost") == 2)
        folder.mkdir()  # an empty place where the share was, as after a lost mount
        beside.wait(lambda: codes(beside.said).count("watch-folder-back") == 2)
        folder.rmdir()
        beside.wait(lambda: codes(beside.said).count("watch-folder-lost") == 3)
        away.rename(folder)
        put(folder / "2.png", 2)
        beside.wait(lambda: len(beside.results) == 2)
    assert [Path(str(record["image"])).name for record in read_results(out)] == ["1.png", "2.png"]
    assert codes(beside.said).count("watch-folder-lost") == 3  # said once each time


def test_new_only_leaves_out_what_is_there_at_the_first_start(
    fitted: HyperFSAD, folder: Path, out: Path
) -> None:
    put(folder / "old.png", 1)
    assert once(fitted, folder, out, new_only=True) == []
    put(folder / "while it was off.png", 2)
    results = once(fitted, folder, out, new_only=True)
    assert [Path(r.image).name for r in results] == ["while it was off.png"]
    put(folder / "old.png", 3, 10**18)  # written again: a new image
    assert [Path(r.image).name for r in once(fitted, folder, out, new_only=True)] == ["old.png"]


def test_another_detector_goes_on(
    fitted: HyperFSAD, detector: HyperFSAD, folder: Path, out: Path
) -> None:
    put(folder / "1.png", 1)
    once(fitted, folder, out)
    put(folder / "2.png", 2)
    detector.fit(make_picture(5))
    assert [Path(r.image).name for r in once(detector, folder, out)] == ["2.png"]
    found = [record["detector"] for record in read_results(out)]
    assert found == [fitted.identity()[:12], detector.identity()[:12]]


def test_the_same_folder_by_another_name_is_the_same(
    fitted: HyperFSAD, folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder / "1.png", 1)
    assert len(once(fitted, folder, out)) == 1
    monkeypatch.chdir(folder)
    assert once(fitted, Path("."), out) == []
    assert once(fitted, Path("../camera"), out) == []


def test_the_output_folder_is_never_watched(fitted: HyperFSAD, folder: Path) -> None:
    put(folder / "1.png", 1)
    for _ in range(2):
        once(fitted, folder, folder / "results")
    assert len(read_results(folder / "results")) == 1


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("watch-inside-output", {"output": "."}),
        ("watch-inside-output", {"output": ".."}),
        ("watch-file", {"folder": "1.png"}),
        ("watch-seconds", {"interval": -1}),
        ("watch-seconds", {"settle": math.nan}),
        ("watch-seconds", {"patience": math.inf}),
    ],
)
def test_settings_that_cannot_be_used(
    fitted: HyperFSAD,
    folder: Path,
    out: Path,
    code: str,
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(folder / "1.png", 1)
    monkeypatch.chdir(folder)
    with raises(UsageError, code):
        Watcher(fitted, **{"folder": folder, "output": out, **options})


def test_a_file_that_is_always_changing_is_left_for_the_next_time(
    fitted: HyperFSAD, folder: Path, out: Path
) -> None:
    stop = threading.Event()

    def rewrite() -> None:
        number = 0
        while not stop.wait(0.005):
            number += 1
            os.utime(folder / "latest.png", ns=(number, number))

    put(folder / "latest.png", 1)
    thread = threading.Thread(target=rewrite)
    thread.start()
    said: list[str] = []
    try:
        results = once(fitted, folder, out, settle=30.0, patience=0.3, notify=said.append)
    finally:
        stop.set()
        thread.join()
    assert results == []
    assert "watch-left-for-next" in codes(said)


def test_leaving_the_loop_frees_the_folder(fitted: HyperFSAD, folder: Path, out: Path) -> None:
    for seed in range(3):
        put(folder / f"{seed}.png", seed, (seed + 1) * 10**15)
    run = watch(fitted, folder, out, **QUICK)
    for result in run:
        assert result.image == str(folder / "0.png")
        break
    run.close()
    assert [Path(r.image).name for r in once(fitted, folder, out)] == ["1.png", "2.png"]


@pytest.fixture
def command(fitted: HyperFSAD, folder: Path, out: Path, tmp_path: Path) -> list[str]:
    saved = tmp_path / "part.hfsad"
    fitted.save(saved)
    options = ["--interval", "0.02", "--settle", "0.05"]
    return ["watch", str(folder), "--detector", str(saved), "-o", str(out), *options]


def test_the_command_prints_a_line_for_each_image(
    command: list[str], fitted: HyperFSAD, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = [fitted.predict(make_picture(seed)).score for seed in (1, 2)]
    detector = HyperFSAD.load(command[3], device="cpu")
    detector.threshold_ = sum(scores) / 2
    detector.save(command[3])
    for seed in (1, 2):
        put(folder / f"{seed} ä.png", seed, seed * 10**15)
    assert main([*command, "--once"]) == 0
    streams = capsys.readouterr()
    words = [row.split() for row in streams.out.splitlines()]
    order = ["good", "ANOMALOUS"] if scores[0] < scores[1] else ["ANOMALOUS", "good"]
    assert [row[3:] for row in words] == [
        ["%", order[0], "1", "ä.png"],
        ["%", order[1], "2", "ä.png"],
    ]
    reach = 100 * scores[0] / detector.threshold_
    assert float(words[0][2]) == pytest.approx(reach, abs=0.51)
    assert "images done before: 0" in streams.err
    assert "2 images inspected, 0 failed" in streams.err
    (folder / "broken.png").write_bytes(b"broken")
    assert main([*command, "--once", "--quiet", "--patience", "0"]) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    broken = {"name": str(folder / "broken.png")}
    assert worded("image-unsupported", broken, COMMAND_LINE) in streams.err
    (folder / "broken.png").write_bytes(b"broken again")
    put(folder / "3.png", 3)
    assert main([*command, "--once", "--patience", "0"]) == 3
    assert main([*command, "--once"]) == 0  # nothing to do
    shutil.rmtree(folder)
    assert main([*command, "--once"]) == 1
    assert worded("watch-no-folder", {"folder": folder}, COMMAND_LINE) in capsys.readouterr().err


def test_detect_does_not_replace_the_results_of_a_watch(
    command: list[str], folder: Path, out: Path
) -> None:
    put(folder / "1.png", 1)
    assert main([*command, "--once"]) == 0
    before = (out / "results.jsonl").read_bytes()
    assert refusal("detect", *command[1:6]) == "output-of-watch"
    assert (out / "results.jsonl").read_bytes() == before


def records_in(out: Path) -> int:
    results = out / "results.jsonl"
    return results.read_bytes().count(b"\n") if results.exists() else 0


def stopped(command: list[str], out: Path, number: int, kind: int) -> tuple[int, str]:
    """Exit code and messages of the command, stopped by a signal after `number` records in all.

    An earlier run may have written more than `number`, so the signal waits until this one watches.
    """
    process = Forked(command)
    until(lambda: "Watching" in process.stderr or process.ended)
    until(lambda: records_in(out) >= number or process.ended)
    process.send(kind)
    return process.returncode, process.stderr


@pytest.fixture
def camera(folder: Path) -> Iterator[None]:
    """Writes sixty images in its own time, the usual way: to a temporary name, then renamed."""
    stop = threading.Event()

    def write() -> None:
        for seed in range(60):
            if stop.wait(0.02):
                return
            put(folder / f".{seed}.png", seed).rename(folder / f"{seed}.png")

    thread = threading.Thread(target=write)
    thread.start()
    yield
    stop.set()
    thread.join()


@pytest.mark.usefixtures("camera")
def test_killed_cut_off_and_stopped_nothing_is_lost_or_done_twice(
    command: list[str], folder: Path, out: Path
) -> None:
    assert stopped(command, out, 5, signal.SIGKILL)[0] == -signal.SIGKILL
    with (out / "results.jsonl").open("ab") as file:
        file.write(b'{"image": "cut o')  # as if the power had failed
    before = (out / "results.jsonl").read_bytes()

    code, errors = stopped(command, out, 20, signal.SIGTERM)
    assert code == 0
    assert "was cut off" in errors
    assert "failed; stopped; see" in errors
    assert stopped(command, out, 40, signal.SIGINT)[0] == 130
    code, errors = stopped(command, out, 60, signal.SIGTERM)
    assert code == 0
    assert " done before" in errors
    images = [str(record["image"]) for record in read_results(out)]
    assert sorted(images) == sorted(str(folder / f"{seed}.png") for seed in range(60))
    assert (out / "results.jsonl").read_bytes().startswith(before[: before.rindex(b"\n") + 1])
    heatmaps = {str(record["heatmap"]) for record in read_results(out)}
    assert len(heatmaps) == 60
    assert all((out / name).is_file() for name in heatmaps)


TWICE = """
import signal, sys
from hyperfsad import HyperFSAD
from hyperfsad.cli.plant import stopped_by_signals
from hyperfsad.watch.watcher import Watcher

detector = HyperFSAD.load(sys.argv[1], device="cpu")
watcher = Watcher(detector, sys.argv[2], sys.argv[3], interval=0.02, settle=0.05)
signal.signal(signal.SIGINT, signal.default_int_handler)
with stopped_by_signals(watcher) as signals:
    run = watcher.run()
    next(run)
    signal.raise_signal(signal.SIGINT)
    assert watcher.stopping
    try:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the second one was not heard")
    except KeyboardInterrupt:
        pass
    assert signals == [signal.SIGINT]
    assert list(run) == []
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def test_a_second_ctrl_c_does_not_wait(
    fitted: HyperFSAD, folder: Path, out: Path, tmp_path: Path
) -> None:
    """In a process of its own, since signals reach all that a process has loaded."""
    for seed in range(2):
        put(folder / f"{seed}.png", seed)
    saved = tmp_path / "twice.hfsad"
    fitted.save(saved)
    ended = Forked([saved, folder, out], TWICE)
    assert ended.returncode == 0, ended.stderr
    assert len(once(fitted, folder, out)) == 1
