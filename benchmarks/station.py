"""The inspection station under load: what it loses (nothing), and what it costs beside `detect`.

    python -m benchmarks.station --data DIR          # everything; DIR holds one product as in MVTec
    python -m benchmarks.station --only kills        # two hundred times kill -9
    python -m benchmarks.station --only cut          # a minute without the database
    python -m benchmarks.station --only week         # and full disks, a clock that jumps, restores

`kills`, `week`, `crowd`, `plant` and `cut` use a small random encoder in the real format, since
what they count does not depend on what it has learnt; the last two need PostgreSQL on this machine.
`throughput` and `latencies` use the recipe `default`. `detect` and the station are measured in
turns, from the first finished image to the last, so that starting up counts for neither. Prints one
row for each figure.
"""

import argparse
import contextlib
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hyperfsad.lab.drawing.canvas import BLUE, new_figure, style
from hyperfsad.report.folder import DONE_JOURNAL, JOURNAL
from hyperfsad.serve.client import StationClient, StationError
from tests.conftest import save_tiny
from tests.serve import postgres
from tests.serve import stations as running
from tests.serve.campaign import Campaign
from tests.serve.conftest import png
from tests.serve.killing import Killing
from tests.serve.stations import Running, Stations
from tests.serve.week import Plan, Week

TICKS = os.sysconf("SC_CLK_TCK")


class DefaultStations(Stations):
    """Stations with the recipe `default`, started as users do: each a fresh process."""

    def command(self, store: Path, *options: str) -> list[str]:
        return ["serve", "--store", str(store), "--port", "0", "--device", "cpu", *options]

    def start(self, store: Path, *options: str) -> Running:
        self._count += 1
        log = self._folder / f"station-{self._count}.log"
        command = [sys.executable, "-m", "hyperfsad", *self.command(store, *options)]
        with log.open("w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        threading.Thread(target=process.wait, daemon=True).start()  # reaped when it ends
        return Running(process.pid, log)


@dataclass
class Load:
    """Clients that send one image at a time, and what they saw."""

    seconds: list[float] = field(default_factory=list)
    """From each request to its answer."""
    finished: list[float] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    """The id of each inspection, and the hash of the image that was sent."""
    errors: list[str] = field(default_factory=list)

    def run(
        self, targets: Sequence[tuple[StationClient, str]], images: Callable[[int], Sequence[bytes]]
    ) -> "Load":
        """One thread for each target (a client and a product); `images` tells what it sends."""
        threads = [
            threading.Thread(target=self._send, args=(*target, images(number)))
            for number, target in enumerate(targets)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self

    def _send(self, client: StationClient, product: str, images: Sequence[bytes]) -> None:
        for content in images:
            began = time.monotonic()
            try:
                (found,) = client.inspect(product, [("x.png", content)])["inspections"]
            except StationError as error:
                self.errors.append(f"{error.status}: {error}")
                continue
            self.seconds.append(time.monotonic() - began)
            self.finished.append(time.monotonic())
            self.kept.append((found["id"], hashlib.sha256(content).hexdigest()))

    def summary(self) -> str:
        """The distribution of the latencies."""
        cuts = statistics.quantiles(self.seconds, n=100, method="inclusive")
        shown = {"median": cuts[49], "90 %": cuts[89], "99 %": cuts[98], "most": max(self.seconds)}
        return ", ".join(f"{name} {value:.2f} s" for name, value in shown.items())

    def lost(self, client: StationClient) -> int:
        """Acknowledged inspections that the history does not have, or has otherwise."""
        known = {row["id"]: row["image"] for row in client.history(limit=500)}
        return sum(known.get(inspection) != sha256 for inspection, sha256 in self.kept)


def kills(options: argparse.Namespace, folder: Path) -> None:
    stations = Stations(save_tiny(folder / "encoder"), folder)
    killing = Killing(stations, folder / "store", options.seed)
    for number in range(options.kills):
        killing.kill()
        if number % 20 == 19:
            print(f"{number + 1} kills", file=sys.stderr, flush=True)
    killing.check(folder)
    stations.close()
    work = killing.work
    row("kills", f"{options.kills}; all that was acknowledged is there, nothing is half")
    row("acknowledged", ", ".join(f"{n} {kind}" for kind, n in sorted(work.done.items())))
    row("images with a verdict", str(len(work.inspections)))
    row("cut off by a kill", ", ".join(f"{n} {kind}" for kind, n in sorted(work.cut.items())))


def week(options: argparse.Namespace, folder: Path) -> None:
    """Small full disks need root; a clock that jumps needs a C compiler."""
    plan = Plan().times(options.share)
    found = Week(save_tiny(folder / "encoder"), folder, plan, options.seed)
    began = time.monotonic()
    try:
        found.run(show=lambda text: print(text, file=sys.stderr, flush=True))
    finally:
        found.close()
    done = ", ".join(f"{n} {kind}" for kind, n in sorted(found.done.items()))
    row("week", f"{time.monotonic() - began:.0f} s: all that was acknowledged is there and right")
    row("what happened", done)
    memory, descriptors = found.growth()
    row("last life, its end / its start", f"memory {memory:.3f}, descriptors {descriptors:.3f}")
    if options.plot:
        with style():
            figure = new_figure(6.5, 3, layout="constrained")
            for number, name in enumerate(("memory [MB]", "descriptors"), start=1):
                axes = figure.add_subplot(1, 2, number, xlabel="images", ylabel=name)
                columns = list(zip(*found.figures, strict=True))
                axes.plot(columns[0], columns[number], ".", markersize=2, color=BLUE)
                axes.set_ylim(bottom=0)
            figure.savefig(options.plot, metadata={"Software": None})


def crowd(options: argparse.Namespace, folder: Path) -> None:
    stations = Stations(save_tiny(folder / "encoder"), folder)
    with stations.running(folder / "store") as station:
        client = _client(station)
        product = client.create_product("bolt", [png(0), png(1)])["id"]
        began = time.monotonic()
        load = Load().run(
            [(client, product)] * 64,
            lambda client: [png(10_000 + 100 * client + turn)[1] for turn in range(20)],
        )
        seconds = time.monotonic() - began
        rows = sum(1 for _ in client.history(limit=500))
        row("64 clients × 20 requests", f"{len(load.kept)} verdicts, {rows} rows")
        row("errors, lost", f"{len(load.errors)}, {load.lost(client)}")
        row("latencies", f"{load.summary()}; {len(load.kept) / seconds:.0f} images/s")
        row("memory at most", f"{_memory(station):.0f} MB")
        for error in load.errors[:5]:
            print(error, file=sys.stderr)
    stations.close()


def plant(options: argparse.Namespace, folder: Path) -> None:
    """Two stations on one PostgreSQL."""
    if postgres.programs() is None:
        row("two stations", postgres.MISSING)
        return
    stations = Stations(save_tiny(folder / "encoder"), folder)
    with postgres.running() as server:
        places = (folder / "store", "--database", server.make("plant"))
        with stations.running(*places) as one, stations.running(*places) as other:
            clients = [_client(one), _client(other)]
            product = clients[0].create_product("bolt", [png(0), png(1)])["id"]
            load = Load().run(
                [(clients[number % 2], product) for number in range(64)],
                lambda client: [png(10_000 + 100 * client + turn)[1] for turn in range(20)],
            )
            rows = sum(1 for _ in clients[1].history(limit=500))
            row("two stations, 32 clients × 20 each", f"{len(load.kept)} verdicts, {rows} rows")
            row("errors, lost", f"{len(load.errors)}, {load.lost(clients[0])}")
            for error in load.errors[:5]:
                print(error, file=sys.stderr)
    stations.close()


def cut(options: argparse.Namespace, folder: Path) -> None:
    """A station is cut off from its PostgreSQL for a while under load; then PostgreSQL freezes."""
    if postgres.programs() is None:
        row("cut off", postgres.MISSING)
        return
    stations = Stations(save_tiny(folder / "encoder"), folder)
    with postgres.running() as server:
        line = postgres.Line(server)
        for name, away in (("cut", line.away(server)), ("frozen", server.frozen())):
            server.make(name)
            camera = folder / f"camera-{name}"
            camera.mkdir()
            places = ("--database", line.url(name), "--watch", f"bolt={camera}")
            with stations.running(folder / name, *places) as station:
                with Campaign(station, camera, clients=30) as campaign:
                    campaign.photograph(1)
                    campaign.more(100)
                    with away:
                        campaign.photograph(2)
                        time.sleep(options.cut)
                        ready = campaign.client.ready()
                    campaign.more(100)
                    history = campaign.client.history
                    running.until(lambda: "2.png" in {one["name"] for one in history()})  # noqa: B023
                campaign.check(watched=2)
            refused = ", ".join(f"{n} × {kind[0]}" for kind, n in campaign.failed.items())
            row(f"{name} for {options.cut:g} s, 30 clients", f"{len(campaign.kept)} acknowledged")
            row("lost, doubled; ready meanwhile", f"0, 0; {ready}")
            row("refused", f"{refused}; the longest answer took {max(campaign.seconds):.1f} s")
    stations.close()


def throughput(options: argparse.Namespace, folder: Path) -> None:
    good, photos = _pictures(options.data)
    photos = photos[: options.images]
    sent = [path.read_bytes() for path in photos]
    stations = DefaultStations("", folder)
    ratios, costs = [], []
    with stations.running(folder / "store") as station:
        client = _client(station)
        product = _product(client, good, options.detector)
        (folder / "part.hfsad").write_bytes(client.download_product(product))
        Load().run([(client, product)] * 2, lambda _: sent[:1])
        for turn in range(options.rounds):
            order = (True, False) if turn % 2 == 0 else (False, True)
            rates: dict[bool, tuple[float, float]] = {}
            for served in order:
                if served:
                    rates[True] = _served(station, product, sent)
                else:
                    rates[False] = _detected(folder / f"out-{turn}", folder / "part.hfsad", photos)
            ratios.append(rates[True][0] / rates[False][0])
            costs.append(rates[False][1] / rates[True][1])
            row(
                f"round {turn + 1}, {'station' if order[0] else 'detect'} first",
                f"detect {rates[False][0]:.3f} images/s ({rates[False][1]:.2f} s of the processor"
                f" each), station {rates[True][0]:.3f} ({rates[True][1]:.2f} s)",
            )
    stations.close()
    row("station / detect, wall clock", f"{statistics.median(ratios):.2f} ({_all(ratios)})")
    row("station / detect, processor time", f"{statistics.median(costs):.2f} ({_all(costs)})")
    row("load of the machine", " ".join(f"{one:.1f}" for one in os.getloadavg()))


def _served(station: Running, product: str, sent: Sequence[bytes]) -> tuple[float, float]:
    """Images a second, and seconds of the processor for one."""
    before = _processor(station.pid)
    load = Load().run([(_client(station), product)] * 8, lambda client: sent[client::8])
    assert not load.errors, load.errors
    cost = (_processor(station.pid) - before) / len(sent)
    return (len(sent) - 1) / (load.finished[-1] - load.finished[0]), cost


def _detected(out: Path, detector: Path, photos: Sequence[Path]) -> tuple[float, float]:
    command = [sys.executable, "-m", "hyperfsad", "detect", *map(str, photos), "-o", str(out)]
    with subprocess.Popen([*command, "--detector", str(detector), "--device", "cpu"]) as process:
        seen: list[tuple[int, float, float]] = []
        while process.poll() is None and not (seen and seen[-1][0] == len(photos)):
            if done := _entries(out):
                seen = [*seen[:1], (done, time.monotonic(), _processor(process.pid))]
            time.sleep(0.01)
        process.wait()
    assert process.returncode == 0
    (first, began, spent), (last, ended, all_spent) = seen
    return (last - first) / (ended - began), (all_spent - spent) / (last - first)


def _entries(out: Path) -> int:
    """Images that a running `detect` has finished."""
    for name in (JOURNAL, DONE_JOURNAL):
        with contextlib.suppress(FileNotFoundError):
            return max(0, (out / name).read_bytes().count(b"\n") - 1)
    return 0


def latencies(options: argparse.Namespace, folder: Path) -> None:
    good, photos = _pictures(options.data)
    sent = [path.read_bytes() for path in photos]
    stations = DefaultStations("", folder)
    with stations.running(folder / "store") as station:
        client = _client(station)
        product = _product(client, good, options.detector)
        Load().run([(client, product)], lambda _: sent[:2])
        for clients in (1, 8, 64):
            each = max(1, options.images // clients)
            load = Load().run(
                [(client, product)] * clients,
                lambda number, each=each: [  # type: ignore[misc]
                    sent[(number * each + turn) % len(sent)] for turn in range(each)
                ],
            )
            summary = f"{load.summary()} ({len(load.kept)} images, {len(load.errors)} errors,"
            row(f"latencies, {clients} clients", f"{summary} {load.lost(client)} lost)")
            for error in load.errors[:3]:
                print(error, file=sys.stderr)
        row("memory at most", f"{_memory(station):.0f} MB")
    stations.close()
    row("load of the machine", " ".join(f"{one:.1f}" for one in os.getloadavg()))


def _product(client: StationClient, good: Sequence[Path], detector: Path | None) -> str:
    if detector is not None:
        return str(client.upload_product("part", detector)["id"])
    return str(client.create_product("part", good)["id"])


def _client(station: Running) -> StationClient:
    """One that waits, also on a machine that does much else."""
    return StationClient(station.url, timeout=3600.0)


def _pictures(root: Path) -> tuple[list[Path], list[Path]]:
    """Four good parts, and all test images in an order that mixes their kinds."""
    good = sorted((root / "train" / "good").iterdir())[:4]
    return good, sorted((root / "test").rglob("*.png"), key=lambda path: (path.name, path.parent))


def _processor(pid: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _memory(station: Running) -> float:
    """Megabytes that it has used at most."""
    rows = Path(f"/proc/{station.pid}/status").read_text().splitlines()
    return int(next(one for one in rows if one.startswith("VmHWM")).split()[1]) / 1000


def _all(figures: Sequence[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in figures)


def row(name: str, summary: str) -> None:
    print(f"| {name} | {summary} |", flush=True)


ROWS = {one.__name__: one for one in (kills, week, crowd, plant, cut, throughput, latencies)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="ROW", choices=ROWS, action="append")
    parser.add_argument("--data", metavar="DIR", type=Path, help="one product as in MVTec")
    parser.add_argument("--detector", metavar="FILE", type=Path, help="instead of fitting one")
    parser.add_argument("--kills", metavar="N", type=int, default=200)
    parser.add_argument("--cut", metavar="SECONDS", type=float, default=60.0)
    parser.add_argument("--images", metavar="N", type=int, default=24)
    parser.add_argument("--rounds", metavar="N", type=int, default=4)
    parser.add_argument("--share", metavar="S", type=float, default=1.0, help="of the week")
    parser.add_argument("--plot", metavar="PNG", type=Path, help="memory over the week")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    running.PATIENCE = 3600.0
    for name in options.only or ROWS:
        with tempfile.TemporaryDirectory(prefix="station-") as folder:
            ROWS[name](options, Path(folder))


if __name__ == "__main__":
    main()
