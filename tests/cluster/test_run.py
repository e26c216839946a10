"""Whole jobs on a real Ray: rows of a local run, killed workers, killed drivers, S3."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hyperfsad.cli import main
from hyperfsad.cli.console import SOME_FAILED
from tests.cli.running import refusal
from tests.cluster.conftest import BUCKET, Gate, make_photos, rows_of
from tests.conftest import make_picture, read_results
from tests.waiting import until


def on_ray(*words: object) -> list[str]:
    return ["detect", *map(str, words), "--on", "ray", "--workers", "2"]


def inspectors() -> list[int]:
    """The processes that inspect images on the Ray which the tests have started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                words, pid = (folder / "cmdline").read_bytes(), int(folder.name)
                if b"Inspector" in words and parent(parent(pid)) == os.getpid():
                    found.append(pid)
    return found


def parent(pid: int) -> int:
    """The process that has started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


without_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="no processes in /proc here")


@without_proc
def test_rows_are_those_of_a_local_run_even_if_workers_are_killed(
    cluster: str,
    store: Any,
    gate: Gate,
    part: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_photos(tmp_path / "photos", 60)
    monkeypatch.chdir(tmp_path)
    last = io.BytesIO()
    make_picture(60).save(last, "PNG")
    store.put_object(Bucket=BUCKET, Key="last.png", Body=last.getvalue())
    words = ["--detector", str(part), "--save-maps"]
    assert main(["detect", "photos", *words, "-o", "here"]) == SOME_FAILED
    sources = ["photos", f"s3://{BUCKET}/last.png"]

    def kill() -> None:
        until(lambda: gate.asked.is_set() and list(Path("there").glob("results/*.parquet")))
        for inspector in until(inspectors):
            os.kill(inspector, signal.SIGKILL)
        gate.release()

    killer = threading.Thread(target=kill)
    with gate.holding("last.png"):
        killer.start()
        assert main(on_ray(*sources, *words, "-o", "there", "--part-size", 2)) == SOME_FAILED
        killer.join()
    rows = [row for row in rows_of("there") if "last.png" not in row["image"]]
    assert len(rows_of("there")) == 63
    assert rows == sorted(read_results(Path("here")), key=lambda row: str(row["image"]))
    for row in rows:
        for kind in ("heatmap", "map"):
            if row[kind]:
                here, there = Path("here", row[kind]), Path("there", row[kind])
                assert here.read_bytes() == there.read_bytes()
    totals = json.loads(Path("there/cluster.json").read_text())["totals"]
    assert (totals["images"], totals["failed"]) == (63, 2)


@without_proc
def test_from_a_bucket_to_a_bucket_though_the_driver_is_killed(
    cluster: str,
    store: Any,
    gate: Gate,
    part: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    photos = make_photos(tmp_path / "photos", 40)
    for path in photos.rglob("*.*"):
        store.upload_file(str(path), BUCKET, f"day/{path.relative_to(photos).as_posix()}")
    store.upload_file(str(part), BUCKET, "part.hfsad")
    local = tmp_path / "local"
    assert main(["detect", str(photos), "--detector", str(part), "-o", str(local)]) == SOME_FAILED
    source = f"s3://{BUCKET}/day/"
    words = on_ray(source, "--detector", f"s3://{BUCKET}/part.hfsad", "-o", f"s3://{BUCKET}/out")
    words += ["--part-size", "2"]
    command = [sys.executable, "-m", "hyperfsad", *words, "--address", cluster]
    with gate.holding("empty.jpg"):  # of the last chunk
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            until(lambda: driver.poll() is not None or (gate.asked.is_set() and bucket_rows(store)))
        finally:
            driver.kill()
            driver.wait()
        until(lambda: not inspectors())  # Ray ends what the driver has started
    before = bucket_rows(store)
    assert 0 < len(before) < 42
    assert main(words) == SOME_FAILED
    done = sum(row["error"] is None for row in before)
    assert f"({done} done before)" in capsys.readouterr().out
    found = {row["image"]: row for row in bucket_rows(store)}
    assert len(found) == len(bucket_rows(store)) == 42
    for row in read_results(local):
        there = found[source + Path(str(row["image"])).relative_to(photos).as_posix()]
        for field in ("score", "anomalous", "regions", "size", "threshold"):
            assert there[field] == row[field]
        if row["error"]:
            assert there["error"] == str(row["error"]).replace(f"{photos}/", source)
        else:
            drawn = store.get_object(Bucket=BUCKET, Key=f"out/{there['heatmap']}")["Body"].read()
            assert drawn == (local / str(row["heatmap"])).read_bytes()


def bucket_rows(store: Any) -> list[dict[str, Any]]:
    """The rows of all parts in the bucket."""
    from pyarrow import parquet

    listing = store.list_objects_v2(Bucket=BUCKET, Prefix="out/results/").get("Contents", [])
    found: list[dict[str, Any]] = []
    for entry in listing:
        content = store.get_object(Bucket=BUCKET, Key=entry["Key"])["Body"].read()
        found += parquet.read_table(io.BytesIO(content)).to_pylist()
    return found


def test_mistakes_are_told_before_ray_is_started(part: Path, tmp_path: Path) -> None:
    for words, code in (
        (f"--detector {tmp_path / 'gone'} --on ray", "storage-missing"),
        (f"--normal {tmp_path} --on ray", "cluster-needs-file"),
        (f"--detector {part} --workers 2", "cluster-option"),
        (f"--detector {part} --on ray --workers 0", "cluster-workers"),
    ):
        assert refusal("detect", tmp_path, "-o", tmp_path / "o", *words.split()) == code
