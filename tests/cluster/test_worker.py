"""What a worker does with a chunk: rows as in a local run, and nothing twice."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cluster.parts import part_file, part_name, schema
from hyperfsad.cluster.places import Place, loaded_files
from hyperfsad.cluster.run import gathered, listed
from hyperfsad.cluster.totals import Totals
from hyperfsad.cluster.worker import Inspector, Job
from hyperfsad.errors import HyperfsadError, UsageError
from hyperfsad.export import export
from hyperfsad.images.finding import find_images
from hyperfsad.report.exports import make_record
from hyperfsad.results.result import AnomalyResult
from tests.cluster.conftest import make_photos, rows_of
from tests.conftest import make_picture


@pytest.fixture
def job(part: Path, tmp_path: Path) -> Job:
    """A job on four pictures and two files that are none."""
    make_photos(tmp_path / "photos", 4)
    files = {"": part.read_bytes()}
    return Job(str(tmp_path / "out"), str(part), files, folder=str(tmp_path), maps=True)


@pytest.fixture(autouse=True)
def back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # as a worker changes its folder


def ask(job: Job, names: list[str], key: str = "k") -> dict[str, Any]:
    images = [os.fsencode(name) for name in names]
    row = {"key": key, "images": images, "stamps": [None] * len(images)}
    return Inspector(job).answer(row | {"notes": [], "failed": False})


def test_the_schema_has_all_fields_of_a_record() -> None:
    record = make_record(AnomalyResult.failed("a", "b"), {"heatmap": None, "map": None})
    assert [*record, "stamp"] == schema().names


def test_what_is_done_is_not_done_again(job: Job) -> None:
    names = find_images(["photos"]).paths
    first = ask(job, names)
    assert first["totals"]["images"] == 6
    assert (first["totals"]["scored"], first["totals"]["failed"]) == (4, 2)
    place = Path(job.output, part_name("k"))
    before = place.stat().st_mtime_ns
    rows = rows_of(job.output)
    again = ask(job, [name for name in names if "damaged" not in name and "empty" not in name])
    assert again["totals"]["done_before"] == 4
    assert len(rows_of(job.output)) == 4
    assert place.stat().st_mtime_ns > before  # two rows are gone
    before = place.stat().st_mtime_ns
    ask(job, [row["image"] for row in rows_of(job.output)])
    assert place.stat().st_mtime_ns == before
    assert [row for row in rows if row["error"] is None] == rows_of(job.output)


def test_what_failed_changed_or_lost_its_files_is_done_again(job: Job) -> None:
    names = find_images(["photos"]).paths
    ask(job, names)
    make_picture(77).save("photos/damaged.png")
    make_picture(78, (64, 64)).save("photos/0001.png")
    heatmap = next(row["heatmap"] for row in rows_of(job.output) if "0002" in row["image"])
    Path(job.output, heatmap).unlink()
    second = ask(job, names)
    assert second["totals"]["done_before"] == 2
    assert (second["totals"]["scored"], second["totals"]["failed"]) == (5, 1)
    assert Path(job.output, heatmap).exists()
    sizes = {row["image"]: row["size"] for row in rows_of(job.output)}
    assert sizes["photos/0001.png"] == [64, 64]


def test_another_detector_or_option_begins_anew_and_names_stale_files(
    job: Job, part: Path, tmp_path: Path
) -> None:
    names = ["photos/0001.png", "photos/0002.png"]
    ask(job, names)
    plain = ask(replace(job, heatmaps=False), names)
    assert plain["totals"]["done_before"] == 0
    assert len(plain["stale"]) == 2
    assert all(name.startswith("heatmaps/") for name in plain["stale"])
    detector = HyperFSAD.load(part).extend(["photos/0001.png"])
    detector.save(tmp_path / "other.hfsad")
    other = {"": (tmp_path / "other.hfsad").read_bytes()}
    assert ask(replace(job, heatmaps=False, files=other), names)["totals"]["done_before"] == 0


def test_a_part_that_was_cut_off_is_written_anew(job: Job) -> None:
    names = ["photos/0001.png"]
    ask(job, names)
    place = Path(job.output, part_name("k"))
    place.write_bytes(place.read_bytes()[:200])
    assert ask(job, names)["totals"]["done_before"] == 0
    assert len(rows_of(job.output)) == 1


def test_a_damaged_detector_is_told_in_a_sentence(job: Job) -> None:
    answer = ask(replace(job, files={"": b"nothing"}), ["photos/0001.png"])
    assert answer["fatal"].startswith("part.hfsad ")
    assert "totals" not in answer


def test_an_output_that_cannot_be_written_stops_the_run(job: Job) -> None:
    Path(job.output).write_bytes(b"a file")
    answer = ask(job, ["photos/0001.png"])
    assert answer["fatal"].startswith("Cannot write ")


def test_names_that_are_not_unicode_are_done_once(job: Job) -> None:
    name = os.fsdecode(b"photos/\xff.png")
    try:
        make_picture(5).save(name)
    except OSError:
        pytest.skip("this file system knows Unicode names alone")
    assert ask(job, [name])["totals"]["scored"] == 1
    assert ask(job, [name])["totals"]["done_before"] == 1
    assert rows_of(job.output)[0]["image"] == r"photos/\udcff.png"


def test_names_outside_the_folder_are_never_removed(job: Job) -> None:
    record = make_record(
        AnomalyResult.failed("photos/0001.png", "x"), {"heatmap": "../precious", "map": None}
    )
    place = Path(job.output, part_name("k"))
    place.parent.mkdir(parents=True)
    place.write_bytes(part_file([record], [None], "run"))
    assert ask(job, ["photos/0001.png"])["stale"] == []


def whole(job: Job, source: str, notes: list[str] | None = None) -> tuple[Totals, bool]:
    """All that a run does, without Ray between."""
    inspector = Inspector(job)
    tables = listed(None, [source], job.output, 3, job.folder)
    answers = (inspector.answer(row) for table in tables for row in table.to_pylist())
    return gathered(answers, Place(job.output), ([] if notes is None else notes).append)


def test_images_that_are_gone_leave_nothing_behind(job: Job) -> None:
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
    for kind, folder in (("heatmap", "heatmaps"), ("map", "maps")):
        written = {f"{folder}/{path.name}" for path in Path(job.output, folder).iterdir()}
        assert written == {row[kind] for row in rows}


def test_a_source_that_cannot_be_listed_removes_nothing(job: Job) -> None:
    whole(job, "photos")
    Path("list.txt").write_text("photos/0001.png\nnonsense://x/y.png\n")
    totals, complete = whole(job, "list.txt")
    assert (totals.scored, totals.failed, complete) == (1, 1, True)
    assert totals.errors == [
        "nonsense://x/y.png cannot be read: nonsense://x/y.png is of a kind that fsspec does not"
        " know."
    ]
    before = rows_of(job.output)
    with pytest.raises(UsageError, match=r"gone\.txt does not exist"):
        whole(job, "gone.txt")
    assert rows_of(job.output) == before


def test_no_image_is_told(job: Job) -> None:
    Path("nothing").mkdir()
    notes: list[str] = []
    with pytest.raises(UsageError, match="nothing holds no images"):
        whole(job, "nothing", notes)
    with pytest.raises(HyperfsadError, match=r"part\.hfsad"):
        whole(replace(job, files={"": b"nothing"}), "photos")


def test_an_exported_model_is_sent_as_a_folder(job: Job, part: Path, tmp_path: Path) -> None:
    export(HyperFSAD.load(part, engine="torch"), tmp_path / "model", "onnx")
    exported = replace(job, detector="model", files=loaded_files(str(tmp_path / "model")))
    names = ["photos/0001.png", "photos/0002.png"]
    ask(job, names)
    before = [row["score"] for row in rows_of(job.output)]
    other = replace(exported, output=str(tmp_path / "other"))
    assert ask(other, names)["totals"]["scored"] == 2
    after = [row["score"] for row in rows_of(other.output)]
    assert after == pytest.approx(before, abs=1e-4)
