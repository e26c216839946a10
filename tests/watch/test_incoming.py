"""Finding complete files: which names count, when a file is ready, when it is given up."""

import os
from pathlib import Path

import pytest

from hyperfsad.disk.files import FileStamp, stamp_of
from hyperfsad.watch.incoming import IncomingFiles, is_picture, scan_folder


def test_names() -> None:
    for name in ("a.png", "A.JPG", "ä b.tiff", "partial.png", "x.tmp.d.png", "tmp.bmp"):
        assert is_picture(name), name
    temporary = ("~a.png", "a~.png", "a.TMP.png", "a.part.jpg", "a.partial.jpg")
    for name in (*temporary, ".a.png", "a.png~", "a.png.tmp", "a.png.part", "a.txt", "png"):
        assert not is_picture(name), name


def test_a_scan_goes_everywhere_but_into_outputs_and_circles(tmp_path: Path) -> None:
    wanted = {"a.png", "deep/er/b.jpg", "linked/c.png", "run/d.png"}
    out, elsewhere = tmp_path / "folder" / "out", tmp_path / "elsewhere"
    folder = tmp_path / "folder"
    for name in (*wanted - {"linked/c.png"}, ".hidden/e.png", "out/f.png", "out/heatmaps/g.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    (folder / "run" / "heatmaps").mkdir()
    (folder / "run" / "heatmaps" / "h.png").write_bytes(b"x")
    (folder / "run" / "results.jsonl").touch()  # of an earlier run
    (folder / "folder.png").mkdir()
    elsewhere.mkdir()
    (elsewhere / "c.png").write_bytes(b"x")
    (folder / "linked").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(folder)
    (folder / "broken.png").symlink_to(tmp_path / "nowhere")
    found = scan_folder(str(folder), os.path.realpath(out))
    assert {os.path.relpath(path, folder) for path in found.files} == wanted
    assert found.files[str(folder / "a.png")] == stamp_of(str(folder / "a.png"))
    assert not found.unreadable
    missing = str(tmp_path / "none")
    assert scan_folder(missing, "").unreadable == {missing: "No such file or directory"}


def test_a_folder_that_may_not_be_opened_is_reported_and_the_rest_is_found(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.png").write_bytes(b"x")
    (tmp_path / "closed").chmod(0)
    try:
        if os.access(tmp_path / "closed", os.R_OK):
            pytest.skip("this user may open everything")
        found = scan_folder(str(tmp_path), "")
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert list(found.files) == [str(tmp_path / "a.png")]
    assert list(found.unreadable) == [str(tmp_path / "closed")]


def names(ready: list[tuple[str, FileStamp]]) -> list[str]:
    return [path for path, _ in ready]


def test_a_file_is_ready_when_it_stops_changing_and_the_oldest_comes_first() -> None:
    incoming = IncomingFiles(settle=1.0, patience=10.0)
    files = {"b": (5, 100), "a": (5, 100), "old": (5, 7)}
    incoming.update(files, now=0.0)
    assert incoming.ready(0.9) == []
    incoming.update({**files, "a": (6, 100)}, now=0.9)  # it grew
    assert names(incoming.ready(1.0)) == ["old", "b"]
    assert names(incoming.ready(1.9)) == ["old", "a", "b"]
    incoming.update({"a": (6, 100)}, now=2.0)
    assert incoming.ready(2.0) == [("a", (6, 100))]
    incoming.remove("a")
    assert incoming.ready(9.0) == []


def test_what_does_not_decode_is_tried_ever_less_often_and_then_given_up() -> None:
    incoming = IncomingFiles(settle=1.0, patience=10.0)
    incoming.update({"a": (1, 1)}, now=0.0)
    tries, now = [], 0.0
    while True:
        now += 0.25
        if incoming.ready(now):
            tries.append(now)
            if not incoming.retry_later("a", now):
                break
    assert tries[-1] == 10.0
    assert 4 <= len(tries) <= 8
    incoming.update({"a": (2, 2)}, now=11.0)  # a new version has all the time again
    assert incoming.ready(12.0)
    assert incoming.retry_later("a", 12.0)
    hasty = IncomingFiles(settle=0.0, patience=0.0)
    hasty.update({"a": (1, 1)}, now=5.0)
    assert names(hasty.ready(5.0)) == ["a"]
    assert not hasty.retry_later("a", 5.0)  # the first failure is the last


def test_a_file_that_never_stops_changing_is_noticed() -> None:
    incoming = IncomingFiles(settle=1.0, patience=10.0)
    for second in range(70):
        incoming.update({"latest": (9, second), "still": (1, 1)}, now=float(second))
    assert incoming.still_changing(69.0) == {"latest"}
    incoming.update({"latest": (9, 69), "still": (1, 1)}, now=75.0)
    assert incoming.still_changing(75.0) == set()
