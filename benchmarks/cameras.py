"""How long verdicts take from their triggers on: a video played in real time by some cameras.

python benchmarks/cameras.py part.hfsad line.mp4 --cameras 1 4 --trigger every:1s
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hyperfsad.serve.client import StationClient


def measure(options: argparse.Namespace, count: int) -> None:
    """Plays the video for so many products of one station."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hyperfsad", "serve", "--store", folder]
        with open(Path(folder) / "station.log", "w") as log:
            station = subprocess.Popen([*command, "--port", str(options.port)], stderr=log)
        try:
            client = StationClient(f"http://127.0.0.1:{options.port}")
            while not client.ready():
                time.sleep(0.5)
            play(options, client, count)
        finally:
            station.terminate()
            station.wait()


def play(options: argparse.Namespace, client: StationClient, count: int) -> None:
    detector = options.detector.read_bytes()
    products = [
        client.upload_product(f"camera {number}", ("part.hfsad", detector))["id"]
        for number in range(count)
    ]
    before = os.getloadavg()[0]
    for product in products:
        client.set_source(
            product,
            str(options.video.absolute()),
            trigger=options.trigger,
            deadline=options.deadline,
        )
    states: list[Any] = []
    while not states or any(map(at_work, states)):
        time.sleep(1)
        states = [client.source(product) for product in products]
    names = ("shots", "judged", "late", "dropped", "p50_ms", "p95_ms", "p99_ms")
    print(f"{count} cameras, load {before:.1f} before and {os.getloadavg()[0]:.1f} after")
    for one in states:
        print("  " + ", ".join(f"{name} {one[name]}" for name in names))


def at_work(state: Any) -> bool:
    told = sum(state[name] for name in ("judged", "late", "failed", "dropped"))
    return bool(state["state"] != "ended" or state["shots"] > told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("detector", type=Path)
    parser.add_argument("video", type=Path)
    parser.add_argument("--cameras", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--trigger", default="every:1s")
    parser.add_argument("--deadline", default="1s")
    parser.add_argument("--port", type=int, default=8577)
    options = parser.parse_args()
    for count in options.cameras:
        measure(options, count)


if __name__ == "__main__":
    main()
