"""A week of a station in short: work, kills, full disks, a clock that jumps, restored backups.

What a person would notice afterwards is counted: each answer that was given is noted here, and the
store has to say the same. All that is chosen comes from a seed.
"""

import contextlib
import hashlib
import io
import os
import random
import shutil
import signal
import struct
import subprocess
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.serve.client import StationClient, StationError
from hyperfsad.serve.records import InspectionRecord
from hyperfsad.serve.store.backup import backup
from tests.serve import stations as running
from tests.serve.conftest import png
from tests.serve.killing import assert_sound, assert_tidy
from tests.serve.stations import Running, Stations, until

HOUR, DAY = 3600, 86_400
SENDERS, MOST_IMAGES, MOST_TAUGHT = 3, 6, 8
DISK = 4 << 30
LATER = (503, 507)
"""What a station answers that has too much to do, or no space: the work was not done."""


class Clock:
    """The wall clock of stations; files keep the times of the machine, waiting is not touched.

    A library of our own (clock.c): libfaketime made a station start six times as slowly.
    """

    def __init__(self, folder: Path) -> None:
        self._file, self._library = folder / "clock", folder / "clock.so"
        self.jump(0)
        source = Path(__file__).with_name("clock.c")
        command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(self._library), str(source)]
        self.moves = bool(shutil.which("cc")) and not subprocess.run(command).returncode

    @property
    def environment(self) -> dict[str, str]:
        places = {"LD_PRELOAD": str(self._library), "CLOCK_FILE": str(self._file)}
        return places if self.moves else {}

    def jump(self, seconds: int) -> None:
        """Sets it so far from the true time; stations see the same file."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("q", seconds))


class Disk:
    """A small disk in memory, which can be made full; mounting it needs root."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        self.mounted = bool(shutil.which("mount")) and self._mount(f"size={DISK}")

    def _mount(self, options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(self.place)]
        return not subprocess.run(command, capture_output=True).returncode

    @contextlib.contextmanager
    def full(self, room: int) -> Iterator[None]:
        """While the block runs, there is this much room."""

        def shrunk() -> bool:  # not while more was written since
            return self._mount(f"remount,size={shutil.disk_usage(self.place).used + room}")

        until(shrunk, "a full disk")
        try:
            yield
        finally:
            assert self._mount(f"remount,size={DISK}")

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", str(self.place)], check=True)


@dataclass
class Plan:
    """How much of everything."""

    inspections: int = 20_000
    kills: int = 200
    disks: int = 50
    jumps: int = 20
    restores: int = 10
    migrations: int = 20
    teachings: int = 500

    def times(self, share: float) -> "Plan":
        return Plan(**{name: max(1, round(n * share)) for name, n in vars(self).items()})


@dataclass
class Note:
    """An answer: what was sent, when by the count of all that happened, and what was said."""

    sha256: str
    sent: int
    told: int
    row: InspectionRecord


@dataclass
class Known:
    """What a station has acknowledged."""

    notes: dict[str, Note] = field(default_factory=dict)
    taught: dict[str, bytes] = field(default_factory=dict)
    """The pictures that the product has learnt, by their inspections, in this order."""


class Week:
    """One store and all that happens to it."""

    def __init__(self, tiny: str, folder: Path, plan: Plan, seed: int = 7) -> None:
        self.plan, self._rng, self._tiny = plan, random.Random(seed), tiny
        self._folder, self._clock = folder, Clock(folder)
        self._stations = Stations(tiny, folder, self._clock.environment)
        self._disk = Disk(folder / "disk")
        self.store = self._disk.place / "store"
        self.known, self.sent = Known(), set[str]()
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []
        self.figures: list[tuple[int, float, int]] = []
        """Images so far, and the station's megabytes and descriptors then."""
        self.lives: list[int] = []
        """Where in them a life ends."""
        self._products = ("", "")
        self._unsure: dict[str, bytes] = {}
        self._events, self._count = 0, 1000
        self._lock, self._teaching = threading.Lock(), threading.Lock()
        self._stop = threading.Event()

    def close(self) -> None:
        self._stations.close()
        self._disk.close()

    def run(self, *, show: Any = lambda text: None) -> None:
        """All of it; the last third of the work is one life without a kill, to see leaks."""
        plan, rng = self.plan, self._rng
        self._interrupted_migrations()
        ends = sorted(rng.randint(0, plan.inspections * 2 // 3) for _ in range(plan.kills))
        events = ["disks"] * plan.disks * self._disk.mounted + ["jumps"] * plan.jumps
        restored = set(rng.sample(range(plan.kills), plan.restores))
        due = sorted((rng.randint(0, plan.inspections), event) for event in events)
        for number, end in enumerate([*ends, plan.inspections]):
            last = number == plan.kills
            here = [event for at, event in due if at <= end or last]
            due = due[len(here) :]
            if not (last or here or number in restored) and rng.random() < 0.1:
                self._kill_at_start()
                continue
            self._live(end, here, restored=number in restored, last=last)
            show(f"{self.done['images']} images, {dict(self.done)}")
            if number % 20 == 0:
                assert_sound(self.store)
        self._check()

    def _live(self, end: int, events: list[str], *, restored: bool, last: bool) -> None:
        """A station works until so many images are done and all events have happened."""
        rng, saved = self._rng, None
        station = self._start()
        with self._working(station, rng.randint(0, 1 << 30)):
            begin = self.done["images"]
            for number, event in enumerate(events):
                self._reach(begin + (end - begin) * number // len(events), station)
                self._happen(event)
            if restored:
                saved = self._back_up()
                self._reach(self.done["images"] + rng.randint(1, 50), station)
            self._reach(end, station, teachings=last)
            if not last:
                time.sleep(rng.uniform(0.0, 0.1))  # any moment is a good one to be killed in
                station.stop(signal.SIGKILL)
                self.done["kills"] += 1
            self._stop.set()
        self.lives.append(len(self.figures))
        station.stop()
        if saved is not None:
            self._restore(*saved)

    def _start(self) -> Running:
        reserve = self._rng.choice("01")  # refused before the disk is full, or when it is
        station = self._stations.start(self.store, "--reserve-megabytes", reserve, "--keep", "90d")
        client = station.wait().client()
        if not self._products[0]:
            made = [client.create_product(name, [png(0), png(1)]) for name in ("still", "taught")]
            self._products = made[0]["id"], made[1]["id"]
        for inspection, content in self._unsure.items():  # a kill hit its label or its undo
            self.known.taught.pop(inspection, None)
            if client.inspection(inspection)["label"] is not None:
                self.known.taught[inspection] = content
        self._unsure.clear()
        return station

    @contextlib.contextmanager
    def _working(self, station: Running, seed: int) -> Iterator[None]:
        self._stop.clear()
        jobs = [self._send] * SENDERS + [self._teach]
        threads = [
            threading.Thread(target=self._until_refused, args=(job, station, random.Random(seed)))
            for job in jobs
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(running.PATIENCE)
                assert not thread.is_alive()

    def _until_refused(self, job: Any, station: Running, rng: random.Random) -> None:
        while not self._stop.is_set():
            try:
                job(station.client(), rng)
            except StationError as error:
                if error.status == 0:
                    self.done["cut off"] += 1
                    return
                self.done["refused"] += error.status in LATER
                if error.status not in LATER:
                    self.faults.append(f"{error.status}: {error}")
                self._stop.wait(0.02)
            except Exception as error:
                self.faults.append(repr(error))
                return

    def _send(self, client: StationClient, rng: random.Random) -> None:
        product = self._products[rng.random() < 0.5]
        self._inspect(client, product, rng.randint(1, MOST_IMAGES))

    def _inspect(self, client: StationClient, product: str, count: int) -> list[tuple[str, bytes]]:
        with self._lock:
            first, self._count = self._count, self._count + count
            self._events += 1
            sent = self._events
        images = [png(first + number) for number in range(count)]
        hashes = [hashlib.sha256(content).hexdigest() for _, content in images]
        self.sent.update(hashes)
        found = client.inspect(product, images)["inspections"]
        with self._lock:
            self._events += 1
            for sha256, row in zip(hashes, found, strict=True):
                self.known.notes[row["id"]] = Note(sha256, sent, self._events, row)
            self.done["images"] += count
        return [(row["id"], content) for row, (_, content) in zip(found, images, strict=True)]

    def _teach(self, client: StationClient, rng: random.Random) -> None:
        """Teaches in step with the inspections; most of it is undone again."""
        share = self.done["images"] / self.plan.inspections
        if self.done["teachings"] >= min(1.0, share) * self.plan.teachings:
            self._stop.wait(0.01)
            return
        with self._teaching:
            ((inspection, content),) = self._inspect(client, self._products[1], 1)
            with self._changing(inspection, content):
                assert client.label(inspection, "fine", confirm=True)["learnt"]
                self.known.taught[inspection] = content
                self.done["teachings"] += 1
            taught = self.known.taught
            if len(taught) > MOST_TAUGHT or rng.random() < 0.7:
                undone = rng.choice(
                    [*taught, inspection]
                )  # the last one, or one that others followed
                with self._changing(undone, taught[undone]):
                    client.undo(undone)
                    del taught[undone]
                    self.done["undos"] += 1

    @contextlib.contextmanager
    def _changing(self, inspection: str, content: bytes) -> Iterator[None]:
        try:
            yield
        except StationError as error:
            if error.status == 0:
                self._unsure[inspection] = content
            raise

    def _reach(self, images: int, station: Running, *, teachings: bool = False) -> None:
        """Waits until so much is done, and looks at the station all the while."""
        step = max(1, self.plan.inspections // 400)
        wanted = self.plan.teachings if teachings else 0

        def reached() -> bool:
            seen = self.figures[-1][0] if self.figures else -step
            if self.done["images"] >= seen + step:
                self.figures.append((self.done["images"], *_usage(station.pid)))
            assert not self.faults, self.faults[:5]
            return self.done["images"] >= images and self.done["teachings"] >= wanted

        while not reached():
            seen = self.done.total()
            until(lambda seen=seen: self.done.total() > seen, "an answer")  # type: ignore[misc]

    def _happen(self, event: str) -> None:
        rng = self._rng
        if event == "jumps":
            if self._clock.moves:
                self._clock.jump(rng.choice((0, HOUR, -HOUR, 30 * DAY, -30 * DAY, 100 * DAY)))
                self.done["jumps"] += 1
            return
        with self._disk.full(rng.randint(0, 1 << 16)):
            before = self.done["refused"]
            until(lambda: self.done["refused"] > before + rng.randint(0, 5), "a refusal")
        self.done["disks"] += 1

    def _back_up(self) -> tuple[Path, Known, set[str]]:
        """A copy while clients work; what was known before, and all that may be in it."""
        with self._teaching:
            with self._lock:
                before = Known(dict(self.known.notes), dict(self.known.taught))
            target = self._folder / "backup.zip"
            backup(self.store, target)
            return target, before, set(self.known.notes)

    def _restore(self, copy: Path, before: Known, most: set[str]) -> None:
        """What was acknowledged after the copy is gone, and nothing else."""
        shutil.rmtree(self.store)
        with zipfile.ZipFile(copy) as archive:
            archive.extractall(self.store)
        told, self.known, self._unsure = self.known.notes, before, {}
        with self._stations.running(self.store) as station:
            there = {row["id"] for row in station.client().history(limit=500)}
        assert before.notes.keys() <= there
        late = {one: told[one] for one in there & (most - before.notes.keys())}
        assert not there & (told.keys() - most)
        self.known.notes |= late
        self.done["gone with a restored backup"] += len(told) - len(self.known.notes)
        self.done["restores"] += 1

    def _interrupted_migrations(self) -> None:
        """Killed while it makes its tables, again and again; then it works."""
        for number in range(self.plan.migrations):
            store = self._disk.place / f"new-{number}"
            for _ in range(3):
                station = self._stations.start(store)
                until(lambda store=store: (store / "station.sqlite").exists(), "a database")  # type: ignore[misc]
                time.sleep(self._rng.uniform(0.0, 0.1))
                station.stop(signal.SIGKILL)
                self.done["interrupted migrations"] += 1
            with self._stations.running(store) as station:
                client = station.client()
                product = client.create_product("new", [png(0)])["id"]
                assert len(client.inspect(product, [png(1)])["inspections"]) == 1
            assert_sound(store)
            shutil.rmtree(store)

    def _kill_at_start(self) -> None:
        station = self._stations.start(self.store)
        time.sleep(self._rng.uniform(0.0, 0.5))
        station.stop(signal.SIGKILL)
        self.done["kills"] += 1

    def _check(self) -> None:
        """All that was acknowledged is there and right, and nothing is there twice."""
        notes = self.known.notes
        with self._stations.running(self.store) as station:
            client = station.client()
            rows = list(client.history(limit=500))[::-1]
            known = {row["id"]: row for row in rows}
            assert notes.keys() <= known.keys()
            for inspection, note in notes.items():
                row = known[inspection]
                assert row["image"] == note.sha256
                for name in ("score", "verdict", "threshold", "time", "revision", "name"):
                    assert row[name] == note.row[name], (inspection, name)
            images = [row["image"] for row in rows]
            assert len(set(images)) == len(images)
            assert set(images) <= self.sent
            latest = 0
            for row in rows:  # none stands after one that was sent after its own answer
                if (found := notes.get(row["id"])) is not None:
                    assert found.told > latest, "out of order"
                    latest = max(latest, found.sent)
            self._check_scores(client)
            self._check_taught(client)
            self.done["not acknowledged, there and whole"] = len(known) - len(notes)
        assert_sound(self.store)
        assert_tidy(self.store)

    def _check_scores(self, client: StationClient) -> None:
        """A sample, by a detector of our own: the product that was never taught."""
        own = self._fitted([png(0)[1], png(1)[1]])
        still = [one for one, note in self.known.notes.items() if note.row["product"] == "still"]
        for inspection in self._rng.sample(still, min(len(still), 200)):
            content, row = client.picture(inspection, "original"), self.known.notes[inspection].row
            assert hashlib.sha256(content).hexdigest() == row["image"]
            assert own.predict(_opened(content)).score == pytest.approx(row["score"], abs=1e-6)

    def _check_taught(self, client: StationClient) -> None:
        """The detector is as if it had been fitted from the parts that remain."""
        parts = [png(0)[1], png(1)[1], *self.known.taught.values()]
        shown = [one["image"] for one in client.report(self._products[1], "images")["images"]]
        assert shown == [hashlib.sha256(content).hexdigest() for content in parts]
        file = self._folder / "taught.hfsad"
        file.write_bytes(client.download_product(self._products[1]))
        taught, own = HyperFSAD.load(file, device="cpu"), self._fitted(parts)
        assert taught.threshold_ == pytest.approx(own.threshold_, abs=1e-6)
        for seed in range(20):
            probe = _opened(png(seed)[1])
            expected = own.predict(probe).score
            assert taught.predict(probe).score == pytest.approx(expected, abs=1e-6)

    def _fitted(self, parts: list[bytes]) -> HyperFSAD:
        settings: dict[str, Any] = {"recipe": "paper-offline", "resolution": 84}
        own = HyperFSAD(self._tiny, device="cpu", **settings)
        return own.fit([_opened(content) for content in parts])

    def growth(self) -> tuple[float, float]:
        """Of the last life, from its first quarter to its end: memory and descriptors."""
        life = self.figures[self.lives[-2] if len(self.lives) > 1 else 0 :]
        early, late = life[len(life) // 4 : len(life) // 2], life[-max(1, len(life) // 4) :]
        return tuple(_median(late, n) / _median(early, n) for n in (1, 2))  # type: ignore[return-value]


def _median(figures: list[tuple[int, float, int]], column: int) -> float:
    return sorted(figure[column] for figure in figures)[len(figures) // 2]


def _opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


def _usage(pid: int) -> tuple[float, int]:
    """Megabytes and descriptors of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(os.listdir(f"/proc/{pid}/fd"))
