"""What the station's history costs against the number of inspections: time and memory.

    python -m benchmarks.history -o out/ [--rows 1000,10000,100000]

Fills a store with generated inspections (thumbnails and maps of the usual size), starts the
station's API on it and asks through its client: the first page, filters, a far page, the trends.
No image is encoded. The processor time of the station's process stands beside the wall clock, which
on a shared machine measures the others. Writes history.json and history.png.
"""

import argparse
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

HOURS = 90 * 24
"""The past that is generated."""
PRODUCTS = 3
BATCH = 5000
ROUNDS = 9
LIMIT = 200.0
"""Milliseconds that each question may take."""


def detector(folder: Path) -> Path:
    """A detector with a small random encoder; the trends read what it was calibrated with."""
    from hyperfsad import HyperFSAD
    from tests.conftest import make_picture, save_tiny

    save_tiny(folder / "encoder")
    small = HyperFSAD(str(folder / "encoder"), recipe="paper-offline", resolution=84, device="cpu")
    path = folder / "small.hfsad"
    small.fit([make_picture(0), make_picture(1)]).save(path)
    return path


def fill(folder: Path, rows: int, own: Path) -> list[str]:
    """A store with so many inspections of three products over 90 days; returns the products."""
    from sqlalchemy import insert

    from hyperfsad.serve.store.models import Detail, Image, Inspection, Product
    from hyperfsad.serve.store.store import Store, now
    from hyperfsad.serve.store.trends import count_in

    rng, store = random.Random(1), Store(folder, reserve=0).open()
    ids = [uuid.UUID(int=rng.getrandbits(128)).hex for _ in range(PRODUCTS)]
    step = HOURS * 3_600_000_000 // rows
    start = now() - rows * step
    picture, grid = rng.randbytes(6000), rng.randbytes(3000)
    shutil.copy(own, store.files.detector("a" * 64))
    with store.database.writing() as session:
        for number, one in enumerate(ids):
            name = f"product {number}"
            made = {"name": name, "claimed": name, "created": 0, "changed": 0, "revision": 1}
            session.add(Product(id=one, **made, detector="a" * 64, summary={"threshold": 0.5}))
    for first in range(0, rows, BATCH):
        images, inspections, details = [], [], []
        for number in range(first, min(rows, first + BATCH)):
            time, sha, key = start + number * step, f"{number:064x}", rng.randbytes(16).hex()
            score = 0.3 * math.exp(rng.gauss(0, 0.15)) * (2.5 if rng.random() < 0.03 else 1)
            size = {"bytes": 10**6, "width": 1024, "height": 1024}
            images.append({"sha256": sha, "suffix": ".png", "added": time, "kept": False, **size})
            inspections.append(
                Inspection(
                    id=key,
                    time=time,
                    product_id=ids[number % PRODUCTS],
                    revision=1,
                    image=sha,
                    name=f"{number}.png",
                    verdict="anomalous" if score > 0.5 else "good",
                    score=score,
                    threshold=0.5,
                    strength=2 * score,
                    p_value=None,
                    regions=0,
                    label=None,
                )
            )
            record = {"record": {"regions": [], "pad": "x" * 600}, "drawing": {}}
            details.append({"inspection_id": key, **record, "map": grid, "thumbnail": picture})
        with store.database.writing() as session:
            session.execute(insert(Image), images)
            session.add_all(inspections)
            session.flush()
            session.execute(insert(Detail), details)
            count_in(session, inspections)
    store.close()
    return ids


def served(folder: Path, port: int) -> None:
    """Answers for a store without an encoder; the history needs none."""
    import uvicorn

    from hyperfsad.serve.api.app import make_app
    from hyperfsad.serve.settings import Settings
    from hyperfsad.serve.station import Station

    station = Station(Settings(folder, port=port), {}, {})
    station.store.open()
    config = uvicorn.Config(make_app(station, {}), port=port, log_config=None, access_log=False)
    uvicorn.Server(config).run()


def measured(folder: Path, ids: list[str], rows: int) -> dict[str, Any]:
    """The questions in turn, several rounds; each with its median and its worst."""
    from hyperfsad.serve.client import StationClient

    port = 18_000 + rows % 997
    command = [
        sys.executable,
        "-m",
        "benchmarks.history",
        "--serve",
        str(folder),
        "--port",
        str(port),
    ]
    station = subprocess.Popen(command)
    try:
        client = StationClient(f"http://127.0.0.1:{port}")
        for _ in range(600):
            try:
                client.page(limit=1)
                break
            except Exception:
                time.sleep(0.2)
        before = memory(station.pid)
        far = client.page(limit=1, until=_ago(68))["next"]
        asked: dict[str, Callable[[], Any]] = {
            "first page": lambda: client.page(),
            "anomalous of one product": lambda: client.page(product=ids[1], verdict="anomalous"),
            "scores that few have": lambda: client.page(min_score=1.2),
            "a far page": lambda: client.page(far),
            "trend, 48 hours": lambda: client.report(ids[1]),
            "trend, 31 days by hours": lambda: client.report(ids[1], since=_ago(31)),
            "trend, 90 days": lambda: client.report(ids[1], step="day", since=_ago(90)),
        }
        times: dict[str, list[float]] = {name: [] for name in asked}
        busy: dict[str, float] = dict.fromkeys(asked, 0.0)
        for _ in range(ROUNDS):
            for name, ask in asked.items():
                began, worked = time.perf_counter(), processor(station.pid)
                ask()
                times[name].append(1000 * (time.perf_counter() - began))
                busy[name] += 1000 * (processor(station.pid) - worked) / ROUNDS
        exports = {}
        for kind in ("csv", "parquet"):
            began = time.perf_counter()
            size = len(client.export(kind))
            exports[kind] = {"seconds": time.perf_counter() - began, "bytes": size}
        return {
            "rows": rows,
            "milliseconds": {
                name: {
                    "median": statistics.median(found),
                    "worst": max(found),
                    "processor": busy[name],
                }
                for name, found in times.items()
            },
            "exports": exports,
            "memory": {"before": before, "highest": memory(station.pid)},
            "database": (folder / "station.sqlite").stat().st_size,
        }
    finally:
        station.terminate()
        station.wait()


def _ago(days: float) -> str:
    return (datetime.now(timezone.utc) - timedelta(days=days) + timedelta(minutes=1)).isoformat()


def processor(pid: int) -> float:
    """Seconds that a process has worked; in steps of 10 ms, so only sums tell much."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    """The most that a process has had in memory, in bytes."""
    rows = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(1024 * int(row.split()[1]) for row in rows if row.startswith("VmHWM"))


def plot(found: list[dict[str, Any]], path: Path) -> None:
    """Milliseconds and memory against rows."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    rows = [one["rows"] for one in found]
    for name, mark in zip(found[0]["milliseconds"], "osD^v<>", strict=False):
        left.plot(
            rows, [one["milliseconds"][name]["processor"] for one in found], f"-{mark}", label=name
        )
    left.axhline(LIMIT, color="black", linestyle="--", linewidth=1)
    left.annotate("200 ms", (rows[-1], LIMIT), xytext=(-30, 4), textcoords="offset points")
    left.set(
        xscale="log",
        yscale="log",
        xlabel="inspections",
        ylabel="processor time of the station (ms)",
        ylim=(2, 2000),
    )
    left.legend(fontsize=8)
    right.plot(
        rows,
        [one["memory"]["highest"] / 1e6 for one in found],
        "-o",
        label="at most, after exports",
    )
    right.plot(
        rows, [one["memory"]["before"] / 1e6 for one in found], "-s", label="before the questions"
    )
    right.set(
        xscale="log", xlabel="inspections", ylabel="memory of the process (MB)", ylim=(0, None)
    )
    right.legend(fontsize=8)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", default="out")
    parser.add_argument("--rows", default="1000,3000,10000,30000,100000")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        served(Path(options.serve), options.port)
        return
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    found = []
    own = detector(Path(tempfile.mkdtemp(dir=output)))
    for rows in map(int, options.rows.split(",")):
        folder = Path(tempfile.mkdtemp(dir=output))
        try:
            began = time.perf_counter()
            ids = fill(folder, rows, own)
            filled = time.perf_counter() - began
            found.append({**measured(folder, ids, rows), "filled": filled})
        finally:
            shutil.rmtree(folder)
        print(json.dumps(found[-1]), flush=True)
    shutil.rmtree(own.parent)
    (output / "history.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    plot(found, output / "history.png")


if __name__ == "__main__":
    main()
