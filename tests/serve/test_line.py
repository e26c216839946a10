"""The line before the engine: its places are freed, its images judged together, none is lost.

Clients that hold a place and send little are sent away, and the others are served.
"""

import contextlib
import socket
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from hyperfsad.detector.settings import Settings
from hyperfsad.messages import silent
from hyperfsad.serve import memory
from hyperfsad.serve import server as serving
from hyperfsad.serve.api import inspections, middleware
from hyperfsad.serve.api.app import make_app
from hyperfsad.serve.api.readers import Readers
from hyperfsad.serve.client import StationClient
from hyperfsad.serve.server import Server
from hyperfsad.serve.settings import StationSettings
from hyperfsad.serve.station import Station
from tests.serve.conftest import png
from tests.serve.stations import PATIENCE, refused, until


class InProcess:
    """A station in this process, so that a test can hold its engine up."""

    def __init__(self, settings: StationSettings, tiny: str) -> None:
        new = Settings(tiny, recipe="paper-offline", resolution=84, device="cpu")
        self.station = Station(settings, new).open()
        app: Any = make_app(self.station, {})
        self.readers: Readers = app._app.state.readers
        config = uvicorn.Config(app, log_config=None, access_log=False)
        self.server = Server(config, self.station, silent)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.server.run, args=([self._listening],))
        self.thread.start()
        until(lambda: self.server.started)
        self.address = self._listening.getsockname()[:2]
        self.client = StationClient(f"http://127.0.0.1:{self.address[1]}", timeout=PATIENCE)

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """The engine is busy while the block runs."""
        begun, go_on = threading.Event(), threading.Event()

        def hold(_: object) -> None:
            begun.set()
            assert go_on.wait(PATIENCE)

        self.station.engine.call(hold)
        assert begun.wait(PATIENCE)
        try:
            yield
        finally:
            go_on.set()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=PATIENCE)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        self._listening.close()
        self.station.close()


@pytest.fixture
def server(tiny: str, tmp_path: Path) -> Iterator[InProcess]:
    settings = replace(StationSettings(tmp_path / "store"), max_queue=3, reserve=10**6)
    found = InProcess(settings, tiny)
    yield found
    found.stop()


@pytest.fixture
def product(server: InProcess) -> str:
    return str(server.client.create_product("bolt", [png(0), png(1)])["id"])


def test_who_goes_away_leaves_the_line(server: InProcess, product: str) -> None:
    engine = server.station.engine
    with server.held_up():
        lines = [half_asked(server, product, png(10 + number)) for number in range(3)]
        until(lambda: engine.waiting == 3)
        with refused(503, "queue-full") as error:
            server.client.inspect(product, [png(20)])
        assert (error.value.retry_after or 0) >= 1
        for line in lines:
            line.close()
        until(lambda: engine.waiting == 0)
        stays = threading.Thread(target=server.client.inspect, args=(product, [png(20)]))
        stays.start()
        until(lambda: engine.waiting == 1)
    stays.join(PATIENCE)
    assert [row["name"] for row in server.client.history()] == ["20.png"]
    assert list(server.station.store.files.incoming.iterdir()) == []


def test_who_asks_for_evidence_and_goes_away_leaves_the_line(
    server: InProcess, product: str
) -> None:
    (one,) = server.client.inspect(product, [png(10)])["inspections"]
    with server.held_up():
        with server.connect() as line:
            path = f"/api/v1/inspections/{one['id']}/evidence"
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            until(lambda: server.station.engine.waiting == 1)
        until(lambda: server.station.engine.waiting == 0)


def test_waiting_images_are_judged_together(server: InProcess, product: str) -> None:
    engine = server.station.engine
    with server.held_up():
        threads = [
            threading.Thread(target=server.client.inspect, args=(product, [png(30 + number)]))
            for number in range(3)
        ]
        for thread in threads:
            thread.start()
        until(lambda: engine.waiting == 3)
        before = engine.batches
    for thread in threads:
        thread.join(PATIENCE)
    assert engine.batches == before + 1
    assert len(list(server.client.history())) == 3


def test_reading_goes_on_while_the_engine_works(server: InProcess, product: str) -> None:
    (one,) = server.client.inspect(product, [png(40)])["inspections"]
    with server.held_up():
        assert server.client.inspection(one["id"]) == one
        assert server.client.picture(one["id"], "overlay")[:2] == b"\xff\xd8"
        assert server.client.products()[0]["id"] == product


def test_who_says_nothing_is_sent_away(
    server: InProcess, product: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [server.connect() for _ in range(50)]
    for line in lines[:40]:
        line.sendall(b"GET /api/v1/products HTTP/1.1\r\nHost: localhost\r\nX-a")
    assert len(server.client.products()) == 1  # the others are served meanwhile
    with server.held_up():
        waits = half_asked(server, product, png(1))
        until(lambda: server.station.engine.waiting == 1)
        monkeypatch.setattr(serving, "HEAD_TIMEOUT", 0.0)
        for line in lines:
            assert line.recv(100) == b""
            line.close()
        monkeypatch.undo()
    assert waits.recv(100).startswith(b"HTTP/1.1 201")  # what is being answered is not cut off
    waits.close()


def test_who_reads_nothing_is_cut_off(server: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A live reader, while the station has more to say than fits into the line."""
    row = SimpleNamespace(model_dump_json=lambda: "a" * 10_000)
    rows = [("MC4w", row)] * 100
    monkeypatch.setattr(inspections, "_read", lambda *_: rows)
    monkeypatch.setattr(serving, "SEND_TIMEOUT", 0.0)
    with server.connect() as line:
        line.sendall(b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.recv(12) == b"HTTP/1.1 200"
        until(lambda: not server.readers.count)
        with contextlib.suppress(ConnectionResetError):
            while line.recv(1 << 20):
                pass
    assert server.client.ready()


def test_pictures_wait_for_memory(
    server: InProcess, product: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks, for whatever: one budget; and where too many wait, 503."""
    (one,) = server.client.inspect(product, [png(2)])["inspections"]
    part = server.client.report(product, "images")["images"][0]["part"]
    monkeypatch.setattr(memory, "MAX_WAITING", 3)
    paths = [f"inspections/{one['id']}/{kind}" for kind in ("picture", "overlay")]
    paths.append(f"products/{product}/images/{part}/thumbnail")

    def get(path: str) -> bytes:
        url = f"http://127.0.0.1:{server.address[1]}/api/v1/{path}"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return bytes(answer.read())

    with ThreadPoolExecutor(3) as pool:
        with memory.DECODING.taken(2 * memory.BYTES, None):
            asked = [pool.submit(get, path) for path in paths]
            until(lambda: memory.DECODING.waiting == 3)
            with refused(503, "memory-busy"):
                server.client.inspect(product, [png(3)])
            assert not any(each.done() for each in asked)
        assert all(each.result(PATIENCE)[:2] == b"\xff\xd8" for each in asked)
    assert server.client.inspect(product, [png(3)])["inspections"]


def head_of(path: str, length: int) -> str:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {length}\r\n\r\n"
    )


def head(product: str, length: int) -> str:
    return head_of(f"/api/v1/products/{product}/inspections", length)


@pytest.mark.parametrize("drips", [False, True], ids=["silent", "byte by byte"])
def test_uploads_that_stop_or_drip_are_given_up(
    tiny: str, tmp_path: Path, drips: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "UPLOAD_TIMEOUT", 1.0)
    monkeypatch.setattr(middleware, "PLAIN", middleware.PLAIN._replace(seconds=1.0))
    server = InProcess(replace(StationSettings(tmp_path / "store"), reserve=10**6), tiny)
    product = server.client.create_product("bolt", [png(0), png(1)])["id"]
    try:
        for asked in (head(product, 100_000), LOGIN):
            give_up(server, asked, drips)
        assert server.client.ready()
    finally:
        server.stop()


LOGIN = head_of("/api/v1/login", 1000)


def give_up(server: InProcess, asked: str, drips: bool) -> None:
    """Sends the begin of a form and then nothing, or little: the station answers and hangs up."""
    ended = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            while not ended.wait(0.05):
                line.sendall(b"a")

    with server.connect() as line:
        line.sendall(asked.encode() + part("a").encode())
        dripping = threading.Thread(target=drip)
        if drips:
            dripping.start()
        told = line.recv(1000)
        assert told.startswith(b"HTTP/1.1 408")
        with contextlib.suppress(ConnectionResetError):  # it hangs up on what still comes
            while line.recv(1000):
                pass
        ended.set()
        if drips:
            dripping.join(PATIENCE)


def part(name: str) -> str:
    return f'--x\r\nContent-Disposition: form-data; name="images"; filename="{name}"\r\n\r\n'


def half_asked(server: InProcess, product: str, image: tuple[str, bytes]) -> socket.socket:
    """Sends an image and does not wait for the answer."""
    body = part(image[0]).encode() + image[1] + b"\r\n--x--\r\n"
    line = server.connect()
    line.sendall(head(product, len(body)).encode() + body)
    return line
