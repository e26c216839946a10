"""kill -9 in the middle of everything, again and again, and what must be there afterwards."""

import hashlib
import random
import signal
import socket
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from hyperfsad import HyperFSAD
from hyperfsad.serve.client import StationClient, StationError
from tests.serve.conftest import png
from tests.serve.stations import PATIENCE, Running, Stations, until


class Work:
    """What clients do to a station until it dies, and what it has acknowledged."""

    def __init__(self) -> None:
        self.inspections: dict[str, str] = {}
        """The hash of each image by the id of its inspection."""
        self.learnt: set[str] = set()
        self.undone: set[str] = set()
        self.revisions: dict[str, int] = {}
        self.deleting: set[str] = set()
        """Products whose end was asked for, and of those the ones for which it is told."""
        self.deleted: set[str] = set()
        self.done: Counter[str] = Counter()
        self.cut: Counter[str] = Counter()
        """Requests that were told, and that the kill hit before they were."""
        self._number = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        with self._lock:
            self._number += 1
            return 1000 + self._number

    def inspecting(self, client: StationClient, product: str) -> None:
        while True:
            images = [png(self.next()) for _ in range(3)]
            with self._doing("inspections"):
                found = client.inspect(product, images)["inspections"]
                for one, (_, content) in zip(found, images, strict=True):
                    self.inspections[one["id"]] = hashlib.sha256(content).hexdigest()

    def changing(self, client: StationClient, product: str) -> None:
        while True:
            with self._doing("products"):
                made = client.create_product(f"p{self.next()}", [png(self.next())])["id"]
                self.revisions[made] = 1
            with self._doing("extends"):
                more = client.extend_product(made, [png(self.next())], confirm=True)
                self.revisions[made] = more["revision"]
            self.deleting.add(made)
            with self._doing("deletes"):
                client.delete_product(made)
                self.deleted.add(made)

    def labelling(self, client: StationClient, product: str) -> None:
        while True:
            with self._doing("inspections"):
                (one,) = client.inspect(product, [png(self.next())])["inspections"]
                self.inspections[one["id"]] = one["image"]
            with self._doing("labels"):
                client.label(one["id"], "fine", confirm=True)
                self.learnt.add(one["id"])
            if self._number % 4:  # the product would grow without end
                self.undone.add(one["id"])
                with self._doing("undos"):
                    client.undo(one["id"])

    def uploading(self, client: StationClient, product: str) -> None:
        """Detector files go and come; each is an upload of some 100 kB."""
        while True:
            with self._doing("downloads"):
                content = client.download_product(product)
            with self._doing("uploads"):
                made = client.upload_product(f"u{self.next()}", ("x.hfsad", content))["id"]
                self.revisions[made] = 1
            self.deleting.add(made)
            with self._doing("deletes"):
                client.delete_product(made)
                self.deleted.add(made)

    @contextmanager
    def _doing(self, kind: str) -> Iterator[None]:
        try:
            yield
        except StationError as error:
            with self._lock:
                self.cut[kind if error.status == 0 else f"{kind} refused: {error}"] += 1
            raise
        with self._lock:
            self.done[kind] += 1


class Killing:
    """A store whose stations are killed."""

    def __init__(self, stations: Stations, store: Path, seed: int = 7) -> None:
        self._stations, self.store, self._rng = stations, store, random.Random(seed)
        self.work = Work()
        self.product = ""

    def kill(self, most: int = 10) -> None:
        """Starts a station, kills it after at most so many answers, and looks at what is left."""
        station = self._stations.start(self.store).wait()
        client = station.client()
        self.product = self.product or client.create_product("bolt", [png(0), png(1)])["id"]
        work = self.work
        threads = [
            threading.Thread(target=_until_refused, args=(job, client, self.product))
            for job in (work.inspecting, work.changing, work.labelling, work.uploading)
        ]
        for thread in threads:
            thread.start()
        with half_uploaded(station, self.product):  # one upload is always in its middle
            # by what was told, not by the clock, so that it is in the middle on slow machines, too
            enough = work.done.total() + self._rng.randint(0, most)
            until(lambda: work.done.total() >= enough, "answers")
            time.sleep(self._rng.uniform(0.0, 0.1))  # any moment is a good one to be killed in
            station.stop(signal.SIGKILL)
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert_sound(self.store)

    def check(self, scratch: Path) -> None:
        """All that was acknowledged is there, whole; and so is what was not."""
        work = self.work
        with self._stations.running(self.store) as station:
            client = station.client()
            known = {row["id"]: row for row in client.history(limit=500)}
            for inspection, sha256 in work.inspections.items():
                assert known[inspection]["image"] == sha256
                content = client.picture(inspection, "original")
                assert hashlib.sha256(content).hexdigest() == sha256
            for inspection in work.learnt - work.undone:
                assert known[inspection]["label"] == "fine"
            living = {one["id"]: one for one in client.products()}
            for made, revision in work.revisions.items():
                assert made in work.deleting or living[made]["revision"] >= revision
            assert not work.deleted & living.keys()
            for made in living:
                path = scratch / "whole.hfsad"
                path.write_bytes(client.download_product(made))
                own = HyperFSAD.load(path, device="cpu")
                assert len(own.support_) == living[made]["good_parts"]
            for inspection in known:
                assert client.picture(inspection, "thumbnail")[:2] == b"\xff\xd8"
        assert_sound(self.store)
        assert_tidy(self.store)


def _until_refused(
    job: Callable[[StationClient, str], None], client: StationClient, product: str
) -> None:
    try:
        job(client, product)
    except StationError:
        return


@contextmanager
def half_uploaded(station: Running, product: str) -> Iterator[None]:
    """An upload that has stopped in its middle."""
    address = urlsplit(station.url)
    with socket.create_connection((address.hostname or "", address.port or 0)) as line:
        head = (
            f"POST /api/v1/products/{product}/inspections HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 100000\r\n\r\n"
            '--x\r\nContent-Disposition: form-data; name="images"; filename="half.png"\r\n\r\n'
        )
        line.sendall(head.encode() + png(0)[1][:1000])
        yield


def assert_sound(store: Path) -> None:
    """The database is sound, and every file that it names is there and whole."""
    images, detectors = _named(store)
    found = {path.stem: path for path in (store / "images").rglob("*.*")}
    assert images <= set(found)
    for sha256 in images:
        assert hashlib.sha256(found[sha256].read_bytes()).hexdigest() == sha256
    for sha256 in detectors:
        content = (store / "detectors" / f"{sha256}.hfsad").read_bytes()
        assert hashlib.sha256(content).hexdigest() == sha256


def assert_tidy(store: Path) -> None:
    """There is no image that the database does not name, and no rest of an upload."""
    assert {path.stem for path in (store / "images").rglob("*.*")} == _named(store)[0]
    assert list((store / "incoming").iterdir()) == []


def _named(store: Path) -> tuple[set[str], set[str]]:
    """The hashes of the images and detectors that the database names."""
    with closing(sqlite3.connect(store / "station.sqlite")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        whole = "SELECT count(*) FROM inspections JOIN details ON inspection_id = inspections.id"
        every = "SELECT count(*) FROM inspections"
        assert database.execute(whole).fetchone() == database.execute(every).fetchone()
        images = {row[0] for row in database.execute("SELECT sha256 FROM images WHERE kept")}
        named = (
            "SELECT detector FROM products WHERE detector NOT NULL"
            " UNION SELECT detector FROM versions"
        )
        return images, {row[0] for row in database.execute(named)}
