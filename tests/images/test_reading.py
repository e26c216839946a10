"""Reading ahead and writing in the background: order, limits, errors in their place, no thread
left behind."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hyperfsad import AnomalyResult, HyperFSAD
from hyperfsad.cli import main
from hyperfsad.detector.pipeline import WRITE_BEHIND, BackgroundWriter
from hyperfsad.encoders import encoder
from hyperfsad.errors import ImageError
from hyperfsad.images import reading
from hyperfsad.images.loading import load_image
from hyperfsad.images.reading import READ_AHEAD, read_ahead
from hyperfsad.report.folder import JOURNAL
from tests.conftest import make_picture, read_results


def our_threads() -> list[str]:
    """Those of the pipeline; the workers of the matching stay for the next image."""
    ours = ("hyperfsad-reader", "hyperfsad-writer")
    return [thread.name for thread in threading.enumerate() if thread.name in ours]


@pytest.fixture(autouse=True)
def _no_thread_is_left_behind() -> Iterator[None]:
    yield
    assert our_threads() == []


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds; fails after a minute."""
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, "it never came true"
        time.sleep(0.005)


def test_it_is_a_map() -> None:
    assert list(read_ahead(lambda n: n * n, range(100))) == [n * n for n in range(100)]
    assert list(read_ahead(str, [])) == []


@pytest.mark.parametrize("count", [1, 2, 5])
def test_it_takes_this_many_items_ahead_and_no_more(count: int) -> None:
    taken: list[int] = []
    too_many = threading.Event()
    asked = 0

    def endless() -> Iterator[int]:
        while True:
            taken.append(1)
            if len(taken) > asked + count:
                too_many.set()
            yield len(taken)

    results = read_ahead(lambda n: n, endless(), count)
    assert taken == []  # nobody has asked yet
    assert our_threads() == []
    for asked in (1, 2, 3):
        assert next(results) == asked
        wait_for(lambda: len(taken) >= asked + count)  # noqa: B023
    results.close()
    assert our_threads() == []
    assert len(taken) == 3 + count
    assert not too_many.is_set()


def test_what_the_source_raises_comes_after_the_results_before_it() -> None:
    def broken() -> Iterator[int]:
        yield from (1, 2, 3)
        raise ValueError("the camera is gone")

    results = read_ahead(lambda n: -n, broken(), 5)
    assert [next(results) for _ in range(3)] == [-1, -2, -3]
    with pytest.raises(ValueError, match="camera is gone"):
        next(results)
    assert list(results) == []
    with pytest.raises(TypeError, match="not iterable"):
        next(read_ahead(str, 7))  # type: ignore[arg-type]


def test_what_the_work_raises_comes_in_its_place() -> None:
    results = read_ahead(lambda n: 6 // n, [3, 2, 0, 1])
    assert [next(results), next(results)] == [2, 3]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_an_iterator_that_is_dropped_ends_its_thread() -> None:
    for number in read_ahead(str, range(1000)):
        if number == "3":
            break
    assert our_threads() == []


def test_a_source_may_use_one_buffer_again_and_again() -> None:
    buffer = np.zeros(3, dtype=int)

    def camera() -> Iterator[np.ndarray]:
        for number in range(20):
            buffer[:] = number
            yield buffer

    assert list(read_ahead(lambda b: int(b.sum()), camera())) == [3 * n for n in range(20)]


def test_closing_does_not_wait_for_ever_for_a_silent_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "CLOSE_TIMEOUT", 0.01)
    release = threading.Event()

    def silent() -> Iterator[int]:
        yield 1
        release.wait(60)

    results = read_ahead(str, silent())
    assert next(results) == "1"  # although the second has not come
    results.close()
    release.set()
    wait_for(lambda: our_threads() == [])


def held_until(go: threading.Event, done: list[int]) -> Callable[[int], None]:
    def work(number: int) -> None:
        assert go.wait(60)
        done.append(number)

    return work


def test_background_work_keeps_the_order_waits_for_room_and_is_done_on_leaving() -> None:
    go, done, handed = threading.Event(), list[int](), list[int]()
    with BackgroundWriter(held_until(go, done)) as writer:

        def hand_over() -> None:
            for number in range(10):
                writer.put(number)
                handed.append(number)

        caller = threading.Thread(target=hand_over)
        caller.start()
        wait_for(lambda: len(handed) == WRITE_BEHIND + 1)  # one of them is being worked on
        assert not writer._room.acquire(blocking=False)
        go.set()
        caller.join()
    assert done == handed == list(range(10))


def test_what_the_background_work_raises_is_raised_to_the_caller() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        if number == 2:
            raise OSError("the disk is full")
        done.append(number)

    handed: list[int] = []
    with pytest.raises(OSError, match="disk is full"), BackgroundWriter(work) as writer:
        for number in range(1000):
            writer.put(number)
            handed.append(number)
    assert len(handed) <= 3 + WRITE_BEHIND
    with pytest.raises(OSError, match="disk is full"), BackgroundWriter(work) as writer:
        writer.put(2)  # the last: raised on leaving
    assert done == [0, 1]


def test_an_interruption_loses_nothing_that_was_handed_over() -> None:
    go, done = threading.Event(), list[int]()
    with (
        pytest.raises(KeyboardInterrupt),
        BackgroundWriter(held_until(go, done)) as writer,
    ):
        for number in range(WRITE_BEHIND + 1):
            writer.put(number)
        go.set()
        raise KeyboardInterrupt
    assert done == list(range(WRITE_BEHIND + 1))


@pytest.mark.parametrize("batch_size", [1, 2])
def test_predictions_are_those_of_a_plain_loop(
    tiny: str, photos: Path, tmp_path: Path, batch_size: int
) -> None:
    (photos / "1 broken.png").write_bytes(b"broken")
    turned = make_picture(8, (200, 120))
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(photos / "7 turned.jpg", exif=exif)
    turned.convert("CMYK").save(photos / "8 cmyk.jpg")
    paths = sorted(photos.iterdir())
    detector = HyperFSAD(tiny, resolution=84, rotations=1, device="cpu", batch_size=batch_size)
    detector.fit([photos / "0.png", photos / "4.png"])
    plain: list[tuple[object, ...]] = []
    for first in range(0, len(paths), batch_size):
        batch = []
        for path in paths[first : first + batch_size]:
            try:
                batch.append(load_image(path))
            except ImageError as error:
                plain.append((str(path), str(error)))
        if batch:
            tokens = detector.encoder_.encode(batch)
            for image, scored in zip(batch, detector.score_tokens(tokens), strict=True):
                scores = (scored.score, *scored.branches.values.values())
                plain.append((image.name, *scores, scored.anomaly_map.tobytes(), image.size))

    def reported(result: AnomalyResult) -> tuple[object, ...]:
        if result.error is not None:
            return result.image, result.error
        scores = (result.score, result.score_map, result.score_cls, result.score_missing)
        return result.image, *scores, result.anomaly_map.tobytes(), result.size

    for _ in range(3):
        results = list(detector.predict_many(iter(paths)))
        assert [result.image for result in results] == [str(path) for path in paths]
        assert sorted(map(reported, results), key=lambda row: str(row[0])) == sorted(
            plain, key=lambda row: str(row[0])
        )
        assert all(result.picture is None for result in results)


def test_fitting_is_that_of_a_plain_loop(tiny: str, photos: Path) -> None:
    detector = HyperFSAD(tiny, resolution=84, rotations=1, device="cpu").fit(photos)
    for place, path in enumerate(sorted(photos.iterdir())):
        loaded = load_image(path)
        assert detector.memory_.images[place].sha256 == loaded.sha256()
        cls = detector.encoder_.encode([loaded]).cls[0]
        assert detector.memory_.cls[place].tobytes() == cls.tobytes()


def test_a_prediction_that_is_broken_off_reads_no_further(
    detector: HyperFSAD, photos: Path
) -> None:
    detector.fit(photos / "0.png")
    asked: list[int] = []

    def endless() -> Iterator[Path]:
        while True:
            asked.append(1)
            yield photos / f"{len(asked) % 5}.png"

    for number, result in enumerate(detector.predict_many(endless()), start=1):
        assert result.error is None
        assert len(asked) <= number + READ_AHEAD
        if number == 4:
            break
    assert our_threads() == []
    assert len(asked) <= 4 + READ_AHEAD


def test_a_kept_picture_is_drawn_as_the_file_is(
    detector: HyperFSAD, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector.fit(photos / "0.png")
    plain = next(iter(detector.predict_many([photos / "1.png"])))
    kept = next(iter(detector.predict_many([photos / "1.png"], keep_pictures=True)))
    assert plain.picture is None
    assert kept.picture is not None
    drawn = plain.plot()
    (photos / "1.png").unlink()  # what is kept needs no file
    assert kept.plot().tobytes() == drawn.tobytes()

    monkeypatch.setattr(encoder, "LARGEST_DRAWN", 96 * 80 - 1)
    large = detector.predict(Image.open(photos / "2.png"), keep_pictures=True)
    assert large.picture is not None
    assert large.picture.size == (48, 40)  # of a large one a reduced copy travels along
    assert large.original().size == (96, 80)


def test_a_heat_map_that_cannot_be_written_stops_the_run_and_loses_nothing(
    tiny: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(5, 12):
        make_picture(seed).save(photos / f"{seed:02d}.png")
    detector, whole, out = tmp_path / "d.hfsad", tmp_path / "whole", tmp_path / "out"
    small = ["--backbone", tiny, "--resolution", "84"]
    assert main(["fit", str(photos / "0.png"), "-o", str(detector), *small]) == 0
    detect = ["detect", str(photos), "--detector", str(detector), "--save-maps", "-o"]
    assert main([*detect, str(whole)]) == 0
    lines = read_results(whole)

    obstacle = out / str(lines[3]["heatmap"])
    obstacle.mkdir(parents=True)
    capsys.readouterr()
    assert main([*detect, str(out)]) == 1
    reported = capsys.readouterr().err
    assert obstacle.name in reported
    assert "Traceback" not in reported
    assert our_threads() == []
    journal = (out / JOURNAL).read_text(encoding="utf-8").splitlines()
    assert len(journal) == 1 + 3
    assert not (out / "results.jsonl").exists()

    obstacle.rmdir()
    assert main([*detect, str(out), "--resume"]) == 0
    assert "3 images done before" in capsys.readouterr().err
    files = [path for path in whole.rglob("*") if path.is_file()]
    assert len(files) == 6 + 2 * 12
    for path in files:
        assert (out / path.relative_to(whole)).read_bytes() == path.read_bytes()
