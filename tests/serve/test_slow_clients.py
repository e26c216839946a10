"""Clients that hold a place and send little: they are sent away, and the others are served."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from hyperfsad.serve import server as serving
from hyperfsad.serve.api import uploads
from hyperfsad.serve.api.app import make_app
from hyperfsad.serve.client import StationClient
from hyperfsad.serve.server import Server
from hyperfsad.serve.settings import Settings
from hyperfsad.serve.station import Station
from tests.serve.conftest import png
from tests.serve.test_line import until


@pytest.fixture
def here(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """A station in this process whose patience is short; its address."""
    monkeypatch.setattr(serving, "HEAD", 2.0)
    monkeypatch.setattr(uploads, "PATIENCE", 2.0)
    settings = replace(Settings(tmp_path / "store"), reserve=10**6)
    new: dict[str, Any] = {"backbone": tiny, "recipe": "paper-offline", "resolution": 84}
    station = Station(settings, new, {"device": "cpu", "engine": "torch"}).open()
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(make_app(station, {}), log_config=None, access_log=False)
    server = Server(config, station, lambda _: None)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    until(lambda: server.started)
    yield listening.getsockname()[:2]
    server.should_exit = True
    thread.join()
    listening.close()
    station.close()


def test_who_says_nothing_is_sent_away(here: tuple[str, int]) -> None:
    lines = [socket.create_connection(here, timeout=60) for _ in range(50)]
    for line in lines[:40]:
        line.sendall(b"GET /api/v1/products HTTP/1.1\r\nHost: localhost\r\nX-a")
    client = StationClient(f"http://127.0.0.1:{here[1]}", timeout=60)
    assert client.products() == []  # the others are served meanwhile
    for line in lines:
        assert line.recv(100) == b""
        line.close()
    # a request that is being answered is never cut off
    product = client.create_product("bolt", [png(0), png(1)])["id"]
    images = [png(number) for number in range(20)]
    assert len(client.inspect(product, images)["inspections"]) == 20


def test_uploads_that_drip_are_given_up(here: tuple[str, int]) -> None:
    client = StationClient(f"http://127.0.0.1:{here[1]}", timeout=60)
    product = client.create_product("bolt", [png(0), png(1)])["id"]
    for pause in (None, 0.05):  # silent, or byte by byte without end
        with socket.create_connection(here, timeout=60) as line:
            head = (
                f"POST /api/v1/products/{product}/inspections HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 100000\r\n\r\n"
                '--x\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
            )
            line.sendall(head.encode())
            ended = threading.Event()

            def drip(line: socket.socket = line, ended: threading.Event = ended) -> None:
                while not ended.wait(0.05):
                    try:
                        line.sendall(b"a")
                    except OSError:
                        return

            dripping = threading.Thread(target=drip)
            if pause:
                dripping.start()
            assert line.recv(1000).startswith(b"HTTP/1.1 408")
            ended.set()
            if pause:
                dripping.join()
    assert client.ready()
