"""What a worker does with a chunk: rows as in a local run, and nothing twice."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cluster.output import part_name, part_schema
from hyperfsad.cluster.run import add_up, list_chunks
from hyperfsad.cluster.sources import Chunk, ImageRef
from hyperfsad.cluster.storage import StorageFolder, read_files
from hyperfsad.cluster.worker import ChunkAnswer, InspectionJob, Inspector
from hyperfsad.errors import DetectorFileError, HyperfsadError, UsageError
from hyperfsad.export import export
from hyperfsad.images.reading import find_images
from hyperfsad.report.records import Totals, make_record
from hyperfsad.results.result import AnomalyResult
from tests.cluster.conftest import make_photos, rows_of
from tests.codes import raises
from tests.conftest import make_picture


@pytest.fixture
def job(part: Path, tmp_path: Path) -> InspectionJob:
    """A job on four pictures and two files that are none."""
    make_photos(tmp_path / "photos", 4)
    files = {"": part.read_bytes()}
    return InspectionJob(str(tmp_path / "out"), str(part), files, folder=str(tmp_path), maps=True)


@pytest.fixture(autouse=True)
def back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # as a worker changes its folder


def ask(job: InspectionJob, names: list[str], key: str = "k") -> ChunkAnswer:
    return Inspector(job).answer(Chunk(key, tuple(map(ImageRef, names))))


def counted(answer: ChunkAnswer) -> Totals:
    assert answer.error is None
    assert answer.totals is not None
    return answer.totals


def test_the_schema_has_all_fields_of_a_record() -> None:
    record = make_record(AnomalyResult.failed("a", "b"), {"heatmap": None, "map": None})
    assert [*record, "stamp"] == part_schema().names


def test_what_is_done_is_not_done_again(job: InspectionJob) -> None:
    names = find_images(["photos"]).paths
    first = ask(job, names)
    assert counted(first).images == 6
    assert (counted(first).scored, counted(first).failed) == (4, 2)
    place = Path(job.output, part_name("k"))
    before = place.stat().st_mtime_ns
    rows = rows_of(job.output)
    again = ask(job, [name for name in names if "damaged" not in name and "empty" not in name])
    assert counted(again).done_before == 4
    assert len(rows_of(job.output)) == 4
    assert place.stat().st_mtime_ns > before  # two rows are gone
    before = place.stat().st_mtime_ns
    ask(job, [row["image"] for row in rows_of(job.output)])
    assert place.stat().st_mtime_ns == before
    assert [row for row in rows if row["error"] is None] == rows_of(job.output)


def test_what_failed_or_changed_is_done_again(job: InspectionJob) -> None:
    names = find_images(["photos"]).paths
    ask(job, names)
    make_picture(77).save("photos/damaged.png")
    make_picture(78, (64, 64)).save("photos/0001.png")
    second = ask(job, names)
    assert counted(second).done_before == 3
    assert (counted(second).scored, counted(second).failed) == (5, 1)
    sizes = {row["image"]: row["size"] for row in rows_of(job.output)}
    assert sizes["photos/0001.png"] == [64, 64]


def test_another_detector_or_option_begins_anew(
    job: InspectionJob, part: Path, tmp_path: Path
) -> None:
    names = ["photos/0001.png", "photos/0002.png"]
    ask(job, names)
    plain = ask(replace(job, heatmaps=False), names)
    assert counted(plain).done_before == 0
    detector = HyperFSAD.load(part).extend(["photos/0001.png"])
    detector.save(tmp_path / "other.hfsad")
    other = {"": (tmp_path / "other.hfsad").read_bytes()}
    assert counted(ask(replace(job, heatmaps=False, files=other), names)).done_before == 0


def test_a_part_that_was_cut_off_is_written_anew(job: InspectionJob) -> None:
    names = ["photos/0001.png"]
    ask(job, names)
    place = Path(job.output, part_name("k"))
    place.write_bytes(place.read_bytes()[:200])
    assert counted(ask(job, names)).done_before == 0
    assert len(rows_of(job.output)) == 1


def test_a_damaged_detector_is_told_in_a_sentence(job: InspectionJob) -> None:
    answer = ask(replace(job, files={"": b"nothing"}), ["photos/0001.png"])
    assert answer.totals is None
    assert isinstance(answer.error, DetectorFileError)
    assert str(answer.error).startswith("part.hfsad ")  # not the worker's copy


def test_an_output_that_cannot_be_written_stops_the_run(job: InspectionJob) -> None:
    Path(job.output).write_bytes(b"a file")
    answer = ask(job, ["photos/0001.png"])
    assert str(answer.error).startswith("Cannot write ")


def test_names_that_are_not_unicode_are_done_once(job: InspectionJob) -> None:
    name = os.fsdecode(b"photos/\xff.png")
    try:
        make_picture(5).save(name)
    except OSError:
        pytest.skip("this file system knows Unicode names alone")
    assert counted(ask(job, [name])).scored == 1
    assert counted(ask(job, [name])).done_before == 1
    assert rows_of(job.output)[0]["image"] == r"photos/\udcff.png"


def whole(job: InspectionJob, source: str, notes: list[str] | None = None) -> tuple[Totals, bool]:
    """All that a run does, without Ray between."""
    answers = map(Inspector(job).answer, list_chunks([source], job, 3))
    return add_up(answers, StorageFolder(job.output), ([] if notes is None else notes).append)


def test_images_that_are_gone_leave_no_rows(job: InspectionJob) -> None:
    for seed in range(10, 20):
        make_picture(seed).save(f"photos/{seed:04d}.png")
    assert whole(job, "photos")[0].images == 16
    for path in map(Path, ["photos/damaged.png", "photos/empty.jpg", "photos/0012.png"]):
        path.unlink()
    for path in Path("photos/below").iterdir():
        path.unlink()
    totals, complete = whole(job, "photos")
    assert complete
    rows = rows_of(job.output)
    assert [row["image"] for row in rows] == [str(p) for p in sorted(Path("photos").glob("*.png"))]
    assert totals.images == totals.scored == len(rows) == 11
    assert all(Path(job.output, row[kind]).is_file() for row in rows for kind in ("heatmap", "map"))


def test_a_source_that_cannot_be_listed_removes_nothing(job: InspectionJob) -> None:
    whole(job, "photos")
    Path("list.txt").write_text("photos/0001.png\nnonsense://x/y.png\n")
    totals, complete = whole(job, "list.txt")
    assert (totals.scored, totals.failed, complete) == (1, 1, True)
    assert len(totals.errors) == 1
    before = rows_of(job.output)
    with raises(UsageError, "no-images"):
        whole(job, "gone.txt")
    assert rows_of(job.output) == before


def test_no_image_is_told(job: InspectionJob) -> None:
    Path("nothing").mkdir()
    notes: list[str] = []
    with raises(UsageError, "no-images"):
        whole(job, "nothing", notes)
    with pytest.raises(HyperfsadError):
        whole(replace(job, files={"": b"nothing"}), "photos")


def test_an_exported_model_is_sent_as_a_folder(
    job: InspectionJob, part: Path, tmp_path: Path
) -> None:
    export(HyperFSAD.load(part, device="cpu"), tmp_path / "model", "openvino")
    exported = replace(job, detector="model", files=read_files(str(tmp_path / "model")))
    names = ["photos/0001.png", "photos/0002.png"]
    ask(job, names)
    before = [row["score"] for row in rows_of(job.output)]
    other = replace(exported, output=str(tmp_path / "other"))
    assert counted(ask(other, names)).scored == 2
    after = [row["score"] for row in rows_of(other.output)]
    assert after == pytest.approx(before, abs=1e-4)
