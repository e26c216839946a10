"""What work on a local Ray costs and survives.

    python benchmarks/cluster.py together [--images 24]              # against plain processes
    python benchmarks/cluster.py costs [--images 24]                 # CPU seconds and bytes
    python benchmarks/cluster.py kill [--images 400]                 # a worker, then the driver
    python benchmarks/cluster.py memory [--images 20000]             # of driver and workers

`together` inspects drawn plates with the default encoder: two processes of the plain detector and
two workers on Ray at the same time, one thread each, with the CPU time that each took for an image,
on Ray with all of Ray's own processes. `kill` and `memory` use small random pictures and a small
random encoder: they test what is moved about, not the scores.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def plates(asked: argparse.Namespace, folder: Path) -> tuple[Path, Path]:
    """A detector on the default encoder, and the folder of its images."""
    from hyperfsad import HyperFSAD
    from hyperfsad.demo.drawing import draw

    photos, detector = folder / "photos", folder / "plate.hfsad"
    photos.mkdir()
    for number in range(asked.images):
        draw("plate", seed=10 + number).image.save(photos / f"{number:04d}.png")
    learnt = [draw("plate", seed=seed).image for seed in range(asked.shots)]
    HyperFSAD(recipe="default", rotations=1).fit(learnt).save(detector)
    return detector, photos


def costs(asked: argparse.Namespace, folder: Path) -> None:
    """CPU time is that of the process alone, so that a busy machine hardly changes it."""
    from hyperfsad.cluster.sources import Chunk, ImageLister, ImageRef
    from hyperfsad.cluster.worker import InspectionJob, Inspector

    detector, photos = plates(asked, folder)
    images = [ImageRef(str(path)) for path in sorted(photos.iterdir())]
    seconds: dict[bool, float] = {}
    for heatmaps in (False, True):
        out = folder / f"out{heatmaps:d}"
        files = {"": detector.read_bytes()}
        inspector = Inspector(InspectionJob(str(out), str(detector), files, heatmaps=heatmaps))
        inspector.answer(Chunk("warm", tuple(images[:2])))
        start = time.process_time()
        assert inspector.answer(Chunk("all", tuple(images))).error is None
        seconds[heatmaps] = (time.process_time() - start) / len(images)
    part = (folder / "out0" / "results" / "part-all.parquet").stat().st_size / len(images)
    drawn = [path.stat().st_size for path in (folder / "out1" / "heatmaps").iterdir()]
    files_read = [path.stat().st_size for path in photos.iterdir()]
    print(f"CPU seconds an image, scores alone {seconds[False]:.3f}, heat maps {seconds[True]:.3f}")
    print(
        f"bytes an image: read {statistics.mean(files_read):.0f}, row {part:.0f}, heat map"
        f" {statistics.mean(drawn):.0f}"
    )
    many = small_photos(folder / "many", 5000)
    start = time.process_time()
    assert sum(1 for _ in ImageLister([str(many)], "/nowhere")) == 5000
    print(f"names listed in a CPU second: {5000 / (time.process_time() - start):.0f}")


ENDLESS = """
import itertools, sys, time
from hyperfsad.detector.products import load_detector
from hyperfsad.encoders.encoder import use_threads
use_threads(1)
detector = load_detector(sys.argv[1])
for _ in detector.predict(itertools.cycle(sys.argv[2:])):
    print(time.perf_counter(), flush=True)
"""


def together(asked: argparse.Namespace, folder: Path) -> None:
    from hyperfsad.cluster.run import detect_on_ray
    from hyperfsad.cluster.session import Cluster, ray_session
    from hyperfsad.cluster.worker import InspectionJob

    detector, photos = plates(asked, folder)
    running: list[subprocess.Popen[bytes]] = []
    logs = [folder / f"plain{number}" for number in range(2)]
    answers: list[tuple[float, int, float, float, float]] = []

    def note(count: int) -> None:
        plain = sum(map(cpu_seconds, (each.pid for each in running)))
        below = sum(map(cpu_seconds, descendants(os.getpid())))
        workers = sum(map(cpu_seconds, inspectors(os.getpid())))
        rest = cpu_seconds(os.getpid()) + below - plain - workers
        answers.append((time.perf_counter(), count, plain, workers, rest))

    job = InspectionJob(str(folder / "out"), str(detector), files={}, heatmaps=False)
    cluster = Cluster(address="local", workers=2, threads=1)
    command = [sys.executable, "-W", "ignore", "-c", ENDLESS, str(detector)]
    with ray_session(cluster):  # before the processes take the machine
        try:
            for log in logs:
                with log.open("w") as file:
                    words = [*command, *map(str, photos.iterdir())]
                    running.append(subprocess.Popen(words, stdout=file))
            while not all(log.stat().st_size for log in logs):
                time.sleep(0.1)
            detect_on_ray([str(photos)], job, cluster, part_size=1, advance=note)
        finally:
            for each in running:
                each.kill()
                each.wait()
    start, end = answers[1][0], answers[-1][0]
    seconds = [last - first for first, last in zip(answers[1][2:], answers[-1][2:], strict=True)]
    theirs = [float(row) for log in logs for row in log.read_text().split()]
    done = sum(start < moment <= end for moment in theirs)
    by_ray = sum(count for _, count, *_ in answers[2:])
    print(f"{end - start:.0f} seconds: 2 workers {by_ray} images, 2 processes {done}")
    plain, ours = seconds[0] / done, seconds[1] / by_ray
    print(f"CPU seconds an image: processes {plain:.3f}, workers {ours:.3f}")
    # Ray's own processes ask and answer all the time, whether images are done or not
    print(f"Ray's own processes and the driver: {seconds[2] / (end - start):.3f} of a core")


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    parents = {
        int(f.name): parent(int(f.name)) for f in Path("/proc").iterdir() if f.name.isdigit()
    }
    found = [pid]
    for each in found:
        found += [child for child, above in parents.items() if above == each]
    return found[1:]


def cpu_seconds(pid: int) -> float:
    """What a process has used so far; 0 if it is gone."""
    words = content(Path(f"/proc/{pid}/stat")).rpartition(b")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK") if words else 0.0


def small_detector(folder: Path) -> Path:
    """On a small random encoder."""
    from hyperfsad import HyperFSAD
    from tests.conftest import make_picture, save_tiny

    tiny = save_tiny(folder / "tiny")
    detector = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
    detector.fit([make_picture(seed) for seed in (100_000, 100_001)]).save(folder / "small.hfsad")
    return folder / "small.hfsad"


def small_photos(folder: Path, count: int) -> Path:
    """Soft coloured blobs, a thousand in each folder."""
    rng = np.random.default_rng(0)
    for number in range(count):
        place = folder / f"{number // 1000:03d}" / f"{number:06d}.bmp"
        place.parent.mkdir(parents=True, exist_ok=True)
        coarse = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((48, 40), Image.Resampling.BILINEAR).save(place)
    return folder


def driver(detector: Path, photos: Path, out: Path, part: int) -> "subprocess.Popen[str]":
    words = ["detect", photos, "--detector", detector, "-o", out, "--no-heatmaps", "--on", "ray"]
    words += ["--workers", 2, "--part-size", part]
    command = [sys.executable, "-W", "ignore", "-m", "hyperfsad", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def inspectors(driver: int) -> list[int]:
    """The processes that inspect images on the Ray which a driver has started."""
    return [
        int(folder.name)
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit()
        and b"Inspector" in content(folder / "cmdline")
        and parent(parent(int(folder.name))) == driver
    ]


def parent(pid: int) -> int:
    """The process that has started another; 0 if it is gone."""
    words = content(Path(f"/proc/{pid}/stat")).rpartition(b")")[2].split()
    return int(words[1]) if words else 0


def content(path: Path) -> bytes:
    """Of a file that may be gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def rows_of(out: Path) -> list[str]:
    from pyarrow import parquet

    parts = (out / "results").glob("part-*.parquet")
    return [name for part in parts for name in parquet.read_table(part)["image"].to_pylist()]


def kill(asked: argparse.Namespace, folder: Path) -> None:
    detector, photos = small_detector(folder), small_photos(folder / "photos", asked.images)
    expected = sorted(map(str, photos.rglob("*.bmp")))
    out = folder / "worker"
    running = driver(detector, photos, out, 16)
    while not rows_of(out):
        time.sleep(0.05)
    os.kill(inspectors(running.pid)[0], signal.SIGKILL)
    there = len(rows_of(out))
    code = running.wait()
    assert there < asked.images, "the job was done before the worker was killed"
    assert sorted(rows_of(out)) == expected
    what = f"worker killed after {there} of {asked.images} images"
    print(f"{what}: exit code {code}, none lost, none double")
    out = folder / "driver"
    running = driver(detector, photos, out, 16)
    while not rows_of(out):
        time.sleep(0.05)
    workers = inspectors(running.pid)
    running.kill()
    running.wait()
    while any(b"Inspector" in content(Path(f"/proc/{pid}/cmdline")) for pid in workers):
        time.sleep(0.05)
    there = len(rows_of(out))
    kept = {path: path.stat().st_mtime_ns for path in (out / "results").iterdir()}
    assert there < asked.images, "the job was done before the driver was killed"
    running = driver(detector, photos, out, 16)
    said = running.communicate()[0].splitlines()[-1]
    assert sorted(rows_of(out)) == expected
    assert all(path.stat().st_mtime_ns == changed for path, changed in kept.items())
    print(f"driver killed after {there} of {asked.images} images; started again: {said}")


def peak(pid: int) -> float:
    """The most memory that a process has had, in MB; 0 if it is gone."""
    rows = content(Path(f"/proc/{pid}/status")).decode().splitlines()
    found = [row.split()[1] for row in rows if row.startswith("VmHWM")]
    return int(found[0]) / 1000 if found else 0.0


def memory(asked: argparse.Namespace, folder: Path) -> None:
    detector, photos = small_detector(folder), small_photos(folder / "photos", asked.images)
    out = folder / "out"
    start = time.perf_counter()
    running = driver(detector, photos, out, 256)
    most: dict[str, Any] = {"driver": 0.0, "worker": 0.0}
    while running.poll() is None:
        most["driver"] = max(most["driver"], peak(running.pid))
        most["worker"] = max([most["worker"], *map(peak, inspectors(running.pid))])
        time.sleep(0.2)
    names = rows_of(out)
    assert len(names) == len(set(names)) == asked.images
    assert running.stdout is not None
    most |= {"seconds": time.perf_counter() - start, "images": len(names)}
    most["parts"] = len(list((out / "results").iterdir()))
    most["bytes"] = sum(path.stat().st_size for path in (out / "results").iterdir())
    print(running.stdout.read().splitlines()[-1])
    print(json.dumps({name: round(value) for name, value in most.items()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for work, images in ((together, 24), (costs, 24), (kill, 400), (memory, 20_000)):
        command = commands.add_parser(work.__name__)
        command.set_defaults(work=work)
        command.add_argument("--images", type=int, default=images)
        command.add_argument("--shots", type=int, default=1, help="normal images in the memory")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asked.work(asked, Path(folder))


if __name__ == "__main__":
    main()
