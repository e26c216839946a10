"""Processes that are killed, and disks that are full."""

import contextlib
import hashlib
import json
import random
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.jobs import TEMPORARY, Job, all_jobs, is_whole
from tests.faults.stage import Stage, Tally


def kills(stage: Stage, count: int, seed: int) -> Tally:
    """Commands that are killed with SIGKILL and started again."""
    return _signals(stage, count, seed, "kill -9", signal.SIGKILL)


def interrupts(stage: Stage, count: int, seed: int) -> Tally:
    """Commands that are stopped with Ctrl-C and started again."""
    return _signals(stage, count, seed, "Ctrl-C", signal.SIGINT)


def _signals(stage: Stage, count: int, seed: int, row: str, kind: int) -> Tally:
    """Commands that a signal hits, and that are started again.

    Every second one is hit before a change of a file that the seed chooses, so that all of them are
    reached; the others at any time of their run.
    """
    tally, rng, jobs = Tally(row), random.Random(seed), all_jobs(stage)
    killed = left = 0
    for trial in range(count):
        job = jobs[trial % len(jobs)]
        stage.clear()
        job.prepare()
        if trial // len(jobs) % 2:
            stop = rng.randint(1, job.changes)
            run = stage.run(job.command, stop=stop, kind=kind)
            when = f"before change {stop}"
        else:
            after = rng.uniform(0, job.seconds)
            run = stage.run(job.command, after=after, kind=kind)
            when = f"after {after:.3f} s"
        killed += run.code != 0
        left += _has_leftovers(stage.place)
        done = job.is_done
        faults = job.disturbed(run)
        if not done and _has_leftovers(stage.place):  # what is done has no next run
            faults.append(("left behind", job.name))
        tally.add(faults, f"{job.name}, hit {when}")
    tally.note = f"{killed} ended early; {left} left a hidden temporary file until the next run"
    return tally


def watched(stage: Stage, count: int, seed: int) -> Tally:
    """One `watch` of a folder that grows, killed again and again: each image is judged once."""
    tally, rng = Tally("watch, kill -9"), random.Random(seed)
    stage.clear()
    photos, out = stage.place / "photos", stage.place / "out"
    photos.mkdir()
    command = ["watch", str(photos), "--detector", str(stage.first), "-o", str(out), "--once"]
    command += ["--settle", "0", "--interval", "0.01"]
    expected, killed = set(), 0
    for trial in range(count + 1):
        for number in range(3):
            path = photos / f"{trial}-{number}.png"
            shutil.copy2(stage.photos[(trial + number) % len(stage.photos)], path)
            expected.add(str(path))
        run = stage.run(command, stop=rng.randint(1, 30) if trial < count else None)
        killed += run.code is None
        tally.add([*run.faults, *_unsound(out)], f"kill {trial}")
    images = Counter(str(record["image"]) for record in _records(out))
    faults = [("lost", image) for image in expected - images.keys()]
    faults += [("doubled", image) for image, times in images.items() if times > 1]
    if _has_leftovers(stage.place):
        faults.append(("left behind", "watch"))
    tally.add(faults, "the end")
    tally.note = f"{killed} killed; {len(expected)} images, {images.total()} records"
    return tally


def _records(out: Path) -> list[dict[str, Any]]:
    path = out / "results.jsonl"
    rows = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(row) for row in rows]


def _unsound(out: Path) -> Iterator[tuple[str, str]]:
    """Records that cannot be read or lack their heat map, and scores that are not always the same
    for the same picture."""
    scores: dict[str, float] = {}
    try:
        records = _records(out)
    except ValueError as error:
        yield "cut off", str(error)
        return
    for record in records:
        if not is_whole(out / record["heatmap"]):
            yield "cut off", record["heatmap"]
        picture = hashlib.sha256(Path(record["image"]).read_bytes()).hexdigest()
        if scores.setdefault(picture, record["score"]) != record["score"]:
            yield "changed", record["image"]


def _has_leftovers(place: Path) -> bool:
    return any(path.name.endswith(TEMPORARY) for path in place.rglob("*"))


def full_disks(stage: Stage, count: int, seed: int) -> Tally:
    """Commands on a disk that has too little room, and again when it has more."""
    tally, rng = Tally("full disk"), random.Random(seed)
    stage.clear()
    if not _mounted(stage.place, 1 << 20):
        tally.note = "not run: mounting a small disk is not allowed here"
        return tally
    _unmount(stage.place)
    jobs, full = all_jobs(stage), 0
    for trial in range(count):
        job = jobs[trial % len(jobs)]
        with _small_disk(stage.place, job, rng.uniform(0, 1)) as size:
            job.prepare()
            run = stage.run(job.command)
            full += run.code != 0
            faults = []
            if run.code != 0 and "the disk is full" not in run.words:
                faults.append(("tracebacks", run.words[-300:]))  # the reason is not told
            _enlarge(stage.place)
            tally.add([*faults, *job.disturbed(run)], f"{job.name} with room for {size} bytes")
    tally.note = f"{full} found no space"
    return tally


@contextlib.contextmanager
def _small_disk(place: Path, job: Job, share: float) -> Iterator[int]:
    """A disk that holds what is there before, and a share of what the command needs."""
    needed = job.room_before + job.room  # a file is replaced by another beside it
    size = job.room_before + 4096 * max(1, round(share * needed / 4096))
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    assert _mounted(place, size)
    try:
        yield size
    finally:
        _unmount(place)


def _mounted(place: Path, size: int) -> bool:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
    return bool(shutil.which("mount")) and not subprocess.run(mount, capture_output=True).returncode


def _enlarge(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)


def _unmount(place: Path) -> None:
    subprocess.run(["umount", str(place)], check=True)
