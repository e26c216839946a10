"""kill -9 in the middle of everything: what was acknowledged is there, and nothing is half."""

import hashlib
import random
import signal
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

from hyperfsad import HyperFSAD
from hyperfsad.serve.client import StationClient, StationError
from tests.serve.conftest import png
from tests.serve.stations import Stations

ROUNDS = 12


class Work:
    """What clients do to a station until it dies, and what it has acknowledged."""

    def __init__(self) -> None:
        self.inspections: dict[str, str] = {}
        """The hash of each image by the id of its inspection."""
        self.learnt: set[str] = set()
        self.revisions: dict[str, int] = {}
        self.deleted: set[str] = set()
        self._number = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        with self._lock:
            self._number += 1
            return 1000 + self._number

    def inspecting(self, client: StationClient, product: str) -> None:
        while True:
            try:
                images = [png(self.next()) for _ in range(3)]
                found = client.inspect(product, images)["inspections"]
            except StationError:
                return
            for one, (_, content) in zip(found, images, strict=True):
                self.inspections[one["id"]] = hashlib.sha256(content).hexdigest()

    def changing(self, client: StationClient, product: str) -> None:
        while True:
            try:
                made = client.create_product(f"p{self.next()}", [png(self.next())])["id"]
                self.revisions[made] = 1
                more = client.extend_product(made, [png(self.next())])
                self.revisions[made] = more["revision"]
                (one,) = client.inspect(product, [png(self.next())])["inspections"]
                self.inspections[one["id"]] = one["image"]
                client.label(one["id"], "fine")
                self.learnt.add(one["id"])
                self.deleted.add(made)  # whether it is acknowledged or not
                client.delete_product(made)
            except StationError:
                return


def test_kill_in_the_middle(stations: Stations, tmp_path: Path) -> None:
    store = tmp_path / "store"
    rng = random.Random(7)
    work = Work()
    product = ""
    for number in range(ROUNDS):
        station = stations.start(store).wait()
        client = station.client()
        product = product or client.create_product("bolt", [png(0), png(1)])["id"]
        threads = [
            threading.Thread(target=job, args=(client, product))
            for job in (work.inspecting, work.inspecting, work.changing)
        ]
        before, end = len(work.inspections), time.monotonic() + 60
        for thread in threads:
            thread.start()
        # a busy machine acknowledges nothing for seconds; every other time something is wanted
        while number % 2 and len(work.inspections) == before and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.05, 0.8))
        station.stop(signal.SIGKILL)
        for thread in threads:
            thread.join()
    assert work.inspections
    with stations.running(store) as station:
        client = station.client()
        known = {row["id"]: row for row in client.history(limit=500)}
        for inspection, sha256 in work.inspections.items():
            assert known[inspection]["image"] == sha256
            content = client.picture(inspection, "original")
            assert hashlib.sha256(content).hexdigest() == sha256
        for inspection in work.learnt:
            assert known[inspection]["label"] == "fine"
        living = {one["id"]: one for one in client.products()}
        for made, revision in work.revisions.items():
            assert made in work.deleted or living[made]["revision"] >= revision
        for made in living:
            path = tmp_path / "whole.hfsad"
            path.write_bytes(client.download_product(made))
            assert len(HyperFSAD.load(path, device="cpu").support_) == living[made]["good_parts"]
        for inspection in known:  # also those whose answer was lost are whole
            assert client.picture(inspection, "thumbnail")[:2] == b"\xff\xd8"
    assert_consistent(store)


def assert_consistent(store: Path) -> None:
    """The database is sound, and the files are those that it names."""
    with closing(sqlite3.connect(store / "station.sqlite")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        images = {row[0] for row in database.execute("SELECT sha256 FROM images WHERE kept")}
        named = "SELECT detector FROM products WHERE detector NOT NULL"
        detectors = {row[0] for row in database.execute(named)}
    found = {path.stem: path for path in (store / "images").rglob("*.*")}
    assert set(found) == images
    for sha256, path in found.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    assert detectors <= {path.stem for path in (store / "detectors").iterdir()}
    assert list((store / "incoming").iterdir()) == []
