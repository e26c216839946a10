"""Processes that are killed, and disks that are full."""

import contextlib
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.faults.jobs import TEMPORARY, Job, all_jobs
from tests.faults.stage import Stage, Tally


def kills(stage: Stage, count: int, seed: int) -> Tally:
    """Commands that are killed with SIGKILL and started again.

    Every second one dies before a change of a file that the seed chooses, so that all of them are
    reached; the others at any time of their run.
    """
    tally, rng, jobs = Tally("kill -9"), random.Random(seed), all_jobs(stage)
    killed = left = still = 0
    for trial in range(count):
        job = jobs[trial % len(jobs)]
        stage.clear()
        job.prepare()
        if trial // len(jobs) % 2:
            stop = rng.randint(1, job.changes)
            run, when = stage.run(job.command, stop=stop), f"before change {stop}"
        else:
            after = rng.uniform(0, job.seconds)
            run, when = stage.run(job.command, kill_after=after), f"after {after:.3f} s"
        killed += run.code is None
        left += _has_leftovers(stage.place)
        done = job.is_done
        tally.add(job.disturbed(run), f"{job.name}, killed {when}")
        still += not done and _has_leftovers(stage.place)
    tally.note = (
        f"{killed} died before their end; {left} left a hidden temporary file, {still} still after"
        " the next run"
    )
    return tally


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
