"""The output folder: the contract's files, runs that stop half way, and runs that come again."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperfsad import AnomalyResult, HyperFSAD
from hyperfsad.disk.files import read_objects
from hyperfsad.errors import HyperfsadError
from hyperfsad.report.folder import JOURNAL, Journal, OutputFolder
from hyperfsad.wording import worded
from tests.codes import raises
from tests.conftest import make_picture, read_results
from tests.report.samples import sample_result


@pytest.fixture
def results(tmp_path: Path) -> list[AnomalyResult]:
    """Five images, of which the fourth could not be read."""
    (tmp_path / "photos").mkdir()
    paths = [str(tmp_path / "photos" / f"{seed}.png") for seed in range(5)]
    made = [sample_result(path, n, peak=0.5, map_threshold=None) for n, path in enumerate(paths)]
    return [*made[:3], AnomalyResult.failed(paths[3], f"{paths[3]} is damaged."), made[4]]


def finished(
    folder: Path, results: list[AnomalyResult], maps: bool = False
) -> list[dict[str, object]]:
    images = [result.image for result in results]
    with OutputFolder(folder, run="r", maps=maps).open() as output:
        for result in results:
            output.add(result)
        output.finish(images)
    return read_results(folder)


def test_the_records_of_the_contract(detector: HyperFSAD, photos: Path, tmp_path: Path) -> None:
    (photos / "3.png").write_bytes(b"broken")
    detector.fit(photos / "0.png", threshold=False)
    results = list(detector.predict_many(photos))
    records = finished(tmp_path / "out", results, maps=True)
    assert [record["image"] for record in records] == [result.image for result in results]
    assert list(records[0]) == [
        *("image", "score", "score_map", "score_cls", "score_missing", "threshold"),
        *("anomalous", "size"),
        *("map_threshold", "threshold_from", "p_value", "regions"),
        *("product", "unknown_product", "nearest_product", "product_similarity"),
        *("product_margin", "foreign", "level"),
        *("map_peak", "map_peak_x", "map_peak_y", "defect", "defect_score"),
        *("heatmap", "map", "error"),
    ]
    assert records[0]["threshold"] is None
    assert records[0]["size"] == [96, 80]
    assert records[0]["anomalous"] is None
    stored = np.load(tmp_path / "out" / str(records[0]["map"]))
    assert stored.dtype == np.float32
    assert (stored == results[0].anomaly_map).all()
    assert (tmp_path / "out" / str(records[0]["heatmap"])).is_file()
    bad = records[3]
    assert bad["error"] == worded("image-unsupported", {"name": bad["image"]})
    assert [bad[name] for name in ("score", "heatmap", "map")] == [None, None, None]


def test_regions_go_to_every_file(detector: HyperFSAD, photos: Path, tmp_path: Path) -> None:
    detector.fit(photos / "0.png")
    detector.map_threshold_ = 0.2
    results = list(detector.predict_many(photos))
    records = finished(tmp_path / "out", results)
    count = sum(len(result.regions) for result in results)
    assert count > len(results)
    assert records[1]["regions"] == [region.to_dict() for region in results[1].regions]
    assert records[1]["map_threshold"] == 0.2
    assert len((tmp_path / "out" / "regions.csv").read_text().splitlines()) == 1 + count
    coco = json.loads((tmp_path / "out" / "coco.json").read_text())
    assert len(coco["annotations"]) == count

    detector.map_threshold_ = None  # what the run before has left is no longer true
    finished(tmp_path / "out", list(detector.predict_many(photos)))
    assert not (tmp_path / "out" / "coco.json").exists()
    assert not (tmp_path / "out" / "regions.csv").exists()


def test_any_names_have_files_of_their_own(detector: HyperFSAD, tmp_path: Path) -> None:
    """Equal names, one that is not Unicode, and a very long one."""
    names = ("a/x.png", "b/x.png", "a/x.bmp", os.fsdecode(b"caf\xe9.png"), "ä" * 120 + ".png")
    paths = [tmp_path / name for name in names]
    for seed, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        make_picture(seed).save(path)
    detector.fit(make_picture(9))
    records = finished(tmp_path / "out", list(detector.predict_many(paths)), maps=True)
    assert [record["image"] for record in records] == list(map(str, paths))
    for kind in ("heatmap", "map"):
        files = {tmp_path / "out" / str(record[kind]) for record in records}
        assert len(files) == len(names)
        assert all(file.is_file() for file in files)


def test_an_interrupted_run_is_resumed(results: list[AnomalyResult], tmp_path: Path) -> None:
    whole = finished(tmp_path / "whole", results)
    images = [result.image for result in results]
    with OutputFolder(tmp_path / "out", run="r").open() as output:
        output.add(results[0])
        output.add(results[1])
    assert not (tmp_path / "out" / "results.jsonl").exists()
    with (tmp_path / "out" / JOURNAL).open("a") as file:
        file.write('{"record": {"image": "cut o')  # killed while writing

    with OutputFolder(tmp_path / "out", run="r").open(resume=True) as output:
        assert [image in output for image in images] == [True, True, False, False, False]
        for result in results[2:]:
            output.add(result)
        output.finish(images)
    assert read_results(tmp_path / "out") == whole
    assert not (tmp_path / "out" / JOURNAL).exists()


def test_a_finished_run_has_nothing_to_do_again(
    results: list[AnomalyResult], tmp_path: Path
) -> None:
    finished(tmp_path, results[:2])
    with OutputFolder(tmp_path, run="r").open(resume=True) as output:
        assert results[0].image in output
        assert results[1].image in output
        assert results[2].image not in output


def test_what_is_replaced_is_named(results: list[AnomalyResult], tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    said: list[Any] = []
    with OutputFolder(tmp_path, run="r").open(notify=said.append) as output:
        output.add(results[0])
    assert [(notice.code, notice.facts["files"]) for notice in said] == [
        ("results-replaced", "report.html")
    ]
    with OutputFolder(tmp_path, run="r").open(notify=said.append) as output:
        output.finish([])
    assert said[1].code == "unfinished-run-replaced"
    assert os.listdir(tmp_path / "heatmaps") == []  # nothing is left of the run that was replaced


def test_another_detector_or_a_changed_image_is_not_resumed(
    results: list[AnomalyResult], tmp_path: Path
) -> None:
    with OutputFolder(tmp_path / "out", run="r").open() as output:
        output.add(results[0])
    with OutputFolder(tmp_path / "out", run="other").open(resume=True) as output:
        assert results[0].image not in output
    with OutputFolder(tmp_path / "out", run="r").open() as output:
        output.add(results[0])
        output.add(results[1])
    make_picture(77).save(results[0].image)
    os.utime(results[0].image, (1, 1))
    with OutputFolder(tmp_path / "out", run="r").open(resume=True) as output:
        assert results[0].image not in output
        assert results[1].image in output


def test_a_new_run_replaces_the_old_one_and_nothing_else(
    results: list[AnomalyResult], tmp_path: Path
) -> None:
    finished(tmp_path, results)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "heatmaps" / "mine.jpg").write_text("mine")
    records = finished(tmp_path, results[:1])
    assert len(records) == 1
    left = sorted(os.listdir(tmp_path / "heatmaps"))
    assert left == sorted([os.path.basename(str(records[0]["heatmap"])), "mine.jpg"])
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_the_same_results_give_the_same_bytes(results: list[AnomalyResult], tmp_path: Path) -> None:
    contents = []
    for name in ("a", "b"):
        finished(tmp_path / name, results, maps=True)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        contents.append([(str(f.relative_to(tmp_path / name)), f.read_bytes()) for f in files])
    assert contents[0] == contents[1]
    assert len(contents[0]) == 4 + 4 + 4


@pytest.mark.parametrize("name", ["file", "file/out"])
def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    with raises(HyperfsadError, "write-failed") as caught:
        OutputFolder(tmp_path / name, run="r").open()
    assert caught.value.facts["error"] in (errno.ENOTDIR, errno.EEXIST)


def test_a_full_disk_keeps_what_is_done(results: list[AnomalyResult], tmp_path: Path) -> None:
    """A limit on the size of files lets a part of the entry through, as a full disk does."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with OutputFolder(tmp_path, run="r", heatmaps=False).open() as output:
        output.add(results[0])
        size = os.path.getsize(tmp_path / JOURNAL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))
        try:
            with raises(HyperfsadError, "write-failed", error=errno.EFBIG):
                output.add(results[1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.path.getsize(tmp_path / JOURNAL) == size + 10
    with OutputFolder(tmp_path, run="r", heatmaps=False).open(resume=True) as output:
        assert [result.image in output for result in results[:2]] == [True, False]


def entry(image: str, **more: Any) -> dict[str, Any]:
    return {"stamp": [1, 2], "record": {"image": image, "error": None}, **more}


def begun(path: Path, earlier: Path | None = None, run: str = "r") -> Journal:
    journal = Journal(path, {"run": run})
    journal.start(earlier, lambda _: True)
    return journal


def test_entries_come_back_in_the_order_asked_for(tmp_path: Path) -> None:
    journal = begun(tmp_path / "j")
    names = ["a.png", "ä\u2028b.png", "caf\udce9.png", "c\n.png"]  # \u2028 ends a line elsewhere
    for name in names:
        journal.add(entry(name, picture="x" * 1000))
    backwards = names[::-1]
    assert [e["record"]["image"] for e in journal.entries(backwards)] == backwards
    assert "b.png" not in journal
    assert "a.png" not in journal  # the stamp of its file is another one
    journal.close()
    assert len(list(read_objects(tmp_path / "j"))) == 1 + len(names)


def test_the_last_word_on_an_image_counts(tmp_path: Path) -> None:
    journal = begun(tmp_path / "j")
    journal.add(entry("a.png", turn=1))
    journal.add(entry("a.png", turn=2))
    assert [e["turn"] for e in journal.entries(["a.png"])] == [2]
    journal.close()
    again = begun(tmp_path / "j", tmp_path / "j")
    assert [e["turn"] for e in again.entries(["a.png"])] == [2]
