"""The line before the engine: its places are freed, its images judged together, none is lost."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn

from hyperfsad.serve.api.app import make_app
from hyperfsad.serve.client import StationClient, StationError
from hyperfsad.serve.settings import Settings
from hyperfsad.serve.station import Station
from tests.serve.conftest import png


class Server:
    """A station in this process, so that a test can hold its engine up."""

    def __init__(self, settings: Settings, tiny: str) -> None:
        new = {"backbone": tiny, "recipe": "paper-offline", "resolution": 84}
        self.station = Station(settings, new, {"device": "cpu", "engine": "torch"}).open()
        app = make_app(self.station, settings.check())
        config = uvicorn.Config(app, port=0, log_config=None, access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        until(lambda: self._server.started)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.client = StationClient(f"http://127.0.0.1:{port}", timeout=60)
        self.address = ("127.0.0.1", port)

    def held_up(self) -> threading.Event:
        """Keeps the engine busy until the event is set."""
        begun, go_on = threading.Event(), threading.Event()

        def hold(_: object) -> None:
            begun.set()
            assert go_on.wait(60)

        self.station.engine.call(hold)
        assert begun.wait(60)
        return go_on

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self.station.close()


@pytest.fixture
def server(tiny: str, tmp_path: Path) -> Iterator[Server]:
    settings = replace(Settings(tmp_path / "store"), max_queue=3, reserve=10**6)
    found = Server(settings, tiny)
    yield found
    found.stop()


@pytest.fixture
def product(server: Server) -> str:
    return str(server.client.create_product("bolt", [png(0), png(1)])["id"])


def test_who_goes_away_leaves_the_line(server: Server, product: str) -> None:
    engine = server.station.engine
    go_on = server.held_up()
    lines = [half_asked(server, product, png(10 + number)) for number in range(3)]
    until(lambda: engine.waiting == 3)
    with pytest.raises(StationError) as error:
        server.client.inspect(product, [png(20)])
    assert error.value.status == 503
    assert (error.value.retry_after or 0) >= 1
    for line in lines:
        line.close()
    until(lambda: engine.waiting == 0)
    stays = threading.Thread(target=server.client.inspect, args=(product, [png(20)]))
    stays.start()
    until(lambda: engine.waiting == 1)
    go_on.set()
    stays.join()
    assert [row["name"] for row in server.client.history()] == ["20.png"]
    assert list(server.station.store.files.incoming.iterdir()) == []


def test_who_asks_for_evidence_and_goes_away_leaves_the_line(server: Server, product: str) -> None:
    (one,) = server.client.inspect(product, [png(10)])["inspections"]
    go_on = server.held_up()
    with socket.create_connection(server.address) as line:
        path = f"/api/v1/inspections/{one['id']}/evidence"
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        until(lambda: server.station.engine.waiting == 1)
    until(lambda: server.station.engine.waiting == 0)
    go_on.set()


def test_waiting_images_are_judged_together(server: Server, product: str) -> None:
    figures = server.station.engine.figures
    go_on = server.held_up()
    threads = [
        threading.Thread(target=server.client.inspect, args=(product, [png(30 + number)]))
        for number in range(3)
    ]
    for thread in threads:
        thread.start()
    until(lambda: server.station.engine.waiting == 3)
    before = figures.batches, figures.judged
    go_on.set()
    for thread in threads:
        thread.join()
    assert (figures.batches - before[0], figures.judged - before[1]) == (1, 3)
    assert len(list(server.client.history())) == 3


def test_reading_goes_on_while_the_engine_works(server: Server, product: str) -> None:
    (one,) = server.client.inspect(product, [png(40)])["inspections"]
    go_on = server.held_up()
    assert server.client.inspection(one["id"]) == one
    assert server.client.picture(one["id"], "overlay")[:2] == b"\xff\xd8"
    assert server.client.products()[0]["id"] == product
    go_on.set()


def test_a_stop_finishes_what_was_accepted(server: Server, product: str) -> None:
    go_on = server.held_up()
    found: list[str] = []

    def send() -> None:
        answer = server.client.inspect(product, [png(50)])
        found.extend(one["id"] for one in answer["inspections"])

    sending = threading.Thread(target=send)
    sending.start()
    until(lambda: server.station.engine.waiting == 1)
    server._server.should_exit = True
    time.sleep(0.2)
    go_on.set()
    sending.join()
    assert len(found) == 1
    server._thread.join()
    assert server.station.inspections.get(found[0])["name"] == "50.png"


def half_asked(server: Server, product: str, image: tuple[str, bytes]) -> socket.socket:
    """Sends an image and does not wait for the answer."""
    head = f'--x\r\nContent-Disposition: form-data; name="images"; filename="{image[0]}"\r\n\r\n'
    body = head.encode() + image[1] + b"\r\n--x--\r\n"
    line = socket.create_connection(server.address)
    request = (
        f"POST /api/v1/products/{product}/inspections HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    line.sendall(request.encode() + body)
    return line


def until(held: Callable[[], bool]) -> None:
    """Waits until something holds."""
    end = time.monotonic() + 60
    while not held():
        assert time.monotonic() < end
        time.sleep(0.01)
