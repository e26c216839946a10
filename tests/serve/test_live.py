"""Verdicts as they come, and folders that the station watches."""

import contextlib
import http.client
import json
import os
import queue
import signal
import socket
import sqlite3
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hyperfsad.errors import UsageError
from hyperfsad.serve.api.readers import MAX_OF_CLIENT, MAX_OF_ROLE, MAX_READERS, Readers
from hyperfsad.serve.client import StationClient
from hyperfsad.serve.refusals import BusyError
from hyperfsad.serve.settings import StationSettings, parse_watch
from tests.codes import raises
from tests.serve.conftest import png
from tests.serve.stations import PATIENCE, Running, Stations, at_once, until


class Reader:
    """Follows a station, as a browser does."""

    def __init__(self, station: Running, query: str = "", last: str | None = None) -> None:
        parts = urlsplit(station.url)
        assert parts.hostname is not None
        self.line = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
        headers = {} if last is None else {"Last-Event-ID": last}
        self.line.request("GET", f"/api/v1/live{query}", headers=headers)
        self.socket = self.line.sock
        self.answer = self.line.getresponse()
        self.status = self.answer.status
        self.events: queue.Queue[dict[str, str] | None] = queue.Queue()
        if self.status == 200:
            threading.Thread(target=self._read, daemon=True).start()
            self.start = self.next()

    def close(self) -> None:
        """Hangs up; the thread that reads sees the end."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def next(self) -> dict[str, str]:
        found = self.events.get(timeout=PATIENCE)
        assert found is not None, "the stream has ended"
        return found

    def verdict(self) -> dict[str, Any]:
        found = self.next()
        assert found["event"] == "verdict"
        return {**json.loads(found["data"]), "event": found["id"]}

    def _read(self) -> None:
        event: dict[str, str] = {}
        for raw in self.answer:
            row = raw.decode().rstrip("\n")
            if row.startswith(":"):
                continue
            if row:
                key, _, value = row.partition(": ")
                event[key] = value
            elif event:
                self.events.put(event)
                event = {}
        self.events.put(None)


def test_verdicts_arrive_and_nothing_is_missed(
    station: Running, client: StationClient, product: str
) -> None:
    other = client.create_product("followed by nobody", [png(0)])["id"]
    reader = Reader(station, f"?product={product}")
    assert reader.answer.headers["content-type"].startswith("text/event-stream")
    client.inspect(other, [png(1)])
    first, second = client.inspect(product, [png(1), png(2)])["inspections"]
    found = reader.verdict()
    row = next(row for row in client.history(product=product) if row["id"] == first["id"])
    assert {name: found[name] for name in row} == row
    assert reader.verdict()["id"] == second["id"]
    # one that was away goes on where it was: after the start, and after an event
    assert Reader(station, last=found["event"]).verdict()["id"] == second["id"]
    everything = Reader(station, last=reader.start["id"])
    ids = [everything.verdict()["id"] for _ in range(3)]
    assert ids[1:] == [first["id"], second["id"]]
    assert Reader(station, last="nonsense").status == 422
    assert Reader(station, "?product=../etc").status == 422


def test_the_order_is_not_the_clocks(stations: Stations, tmp_path: Path) -> None:
    """The clock was an hour ahead and was put right; then a copy of the store is put back."""
    with stations.running(tmp_path) as station:
        client = station.client()
        product = client.create_product("bolt", [png(0)])["id"]
        client.inspect(product, [png(1), png(2), png(3)])
    with closing(sqlite3.connect(tmp_path / "station.sqlite")) as database:
        database.execute("UPDATE inspections SET time = time + 3600000000")
        database.commit()
    with stations.running(tmp_path) as station:
        client = station.client()
        last = next(client.history())["id"]
        readers = [Reader(station), Reader(station, last="999999")]
        (new,) = client.inspect(product, [png(4)])["inspections"]
        assert [reader.verdict()["id"] for reader in readers] == [new["id"]] * 2
        rows = list(client.history(limit=1))
        assert [row["name"] for row in rows] == ["4.png", "3.png", "2.png", "1.png"]
        assert rows[1]["id"] == last
        assert rows[0]["time"] < rows[1]["time"]


def test_many_writers_one_order(station: Running, client: StationClient, product: str) -> None:
    reader = Reader(station, f"?product={product}")
    sent: list[str] = []

    def send(seed: int) -> None:
        for number in range(4):
            found = client.inspect(product, [png(seed + number)])["inspections"]
            sent.append(found[0]["id"])

    at_once(*(partial(send, 10 * n) for n in range(4)))
    found = [reader.verdict() for _ in range(16)]
    assert {one["id"] for one in found} == set(sent)
    assert [int(one["event"]) for one in found] == sorted(int(one["event"]) for one in found)


def test_readers_beyond_the_limit_are_refused(station: Running, client: StationClient) -> None:
    """All at once: the limit holds, and who is refused leaves no row of an error behind."""
    readers = at_once(*(partial(Reader, station) for _ in range(MAX_OF_CLIENT + 20)))
    assert [reader.status for reader in readers].count(200) <= MAX_OF_CLIENT
    assert {reader.status for reader in readers} == {200, 503}
    assert client.ready()
    assert '"level": "error"' not in station.log.read_text()
    for reader in readers:
        reader.close()
    until(lambda: _follows(station), "a free place")


def _follows(station: Running) -> bool:
    reader = Reader(station)
    reader.close()
    return reader.status == 200


def test_places_of_readers() -> None:
    readers = Readers()
    for _ in range(MAX_OF_CLIENT):
        readers.enter("inspect", "10.0.0.1")
    with raises(BusyError, "live-full", limit=MAX_OF_CLIENT):
        readers.enter("admin", "10.0.0.1")
    for number in range(MAX_OF_ROLE - MAX_OF_CLIENT):
        readers.enter("inspect", f"10.0.1.{number}")
    with raises(BusyError, "live-full", limit=MAX_OF_ROLE):
        readers.enter("inspect", "10.0.0.2")
    for number in range(MAX_READERS - MAX_OF_ROLE):
        readers.enter("admin", f"10.0.2.{number}")
    with raises(BusyError, "live-full", limit=MAX_READERS):
        readers.enter("admin", "10.0.0.2")
    readers.leave("inspect", "10.0.0.1")
    readers.enter("admin", "10.0.0.2")
    assert readers.count == MAX_READERS


def test_a_stop_ends_the_streams(stations: Stations, tmp_path: Path) -> None:
    with stations.running(tmp_path / "store") as station:
        reader = Reader(station)
        station.stop()  # would wait ten minutes
        assert reader.events.get(timeout=PATIENCE) is None


def test_a_watched_folder(stations: Stations, tmp_path: Path) -> None:
    store, camera = tmp_path / "store", tmp_path / "camera"
    camera.mkdir()
    watching = ("--watch", f"bolt={camera}")

    def write(seed: int) -> str:
        name, content = png(seed)
        (camera / f"{name}.part").write_bytes(content)
        (camera / f"{name}.part").rename(camera / name)
        return name

    early = write(1)
    with stations.running(store, *watching) as station:
        client = station.client()
        until(lambda: "no product bolt yet" in str(_watch(station)["problem"]))
        bolt = client.create_product("bolt", [png(0), png(2)])["id"]
        reader = Reader(station, last="0")
        assert reader.verdict()["name"] == early
        (camera / "broken.png").write_bytes(b"\x89PNG no")
        late = write(3)
        found = reader.verdict()
        assert (found["name"], found["product_id"]) == (late, bolt)
        assert client.picture(found["id"], "original") == png(3)[1]
        until(lambda: _watch(station)["judged"] == 2 and _watch(station)["problem"] is None)
        assert str(camera) not in str(_watch(station))
        os.kill(station.pid, signal.SIGKILL)
        station.stop()
    before = _ids(store)
    assert len(before) == 2
    meanwhile = write(4)
    # a crash between the history and the ledger: the last record is lost, its picture comes again
    (ledger,) = store.glob("watched/*/results.jsonl")
    rows = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(rows[:-1]) + rows[-1][: len(rows[-1]) // 2])
    with stations.running(store, *watching) as station:
        client = station.client()
        until(lambda: meanwhile in [row["name"] for row in client.history()])
        until(lambda: _watch(station)["judged"] >= 2)
        names = [row["name"] for row in client.history()]
        assert sorted(names) == sorted([early, late, meanwhile])
        trend = client.report(client.products()[0]["id"])["points"]
        assert sum(point["count"] for point in trend) == 3
    assert set(before) < set(_ids(store))


def _watch(station: Running) -> dict[str, Any]:
    (found,) = station.ask("GET", "/watches").json()
    return dict(found)


def _ids(store: Path) -> list[str]:
    with closing(sqlite3.connect(store / "station.sqlite")) as database:
        return [row[0] for row in database.execute("SELECT id FROM inspections ORDER BY time")]


@pytest.mark.parametrize(
    ("watch", "code"),
    [
        ("bolt", "watch-invalid"),
        ("=x", "watch-invalid"),
        ("bolt={store}", "watch-inside-store"),
        ("bolt={store}/images", "watch-inside-store"),
        ("bolt={parent}", "watch-inside-store"),
        ("bolt={file}", "watch-not-a-folder"),
    ],
)
def test_folders_that_cannot_be_watched(watch: str, code: str, tmp_path: Path) -> None:
    store, file = tmp_path / "below" / "store", tmp_path / "file"
    file.write_bytes(b"")
    text = watch.format(store=store, parent=tmp_path, file=file)
    with raises(UsageError, code):
        StationSettings(store, watch=(parse_watch(text),)).check()
    assert not store.exists()
