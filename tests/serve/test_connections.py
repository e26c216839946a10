"""A station and its machines: real ones, on ports of their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hyperfsad.connect.state import REASONS, STATES
from hyperfsad.serve.client import StationClient
from tests.connect.machines import Broker, Listener, Plc, free_port
from tests.serve.conftest import ADMIN, INSPECT, png, token_file
from tests.serve.stations import Running, Stations, refused, until


class Connected(NamedTuple):
    station: Running
    client: StationClient
    plc: Plc
    port: int
    """Where nobody listens who was asked to."""


@pytest.fixture(scope="module")
def connected(stations: Stations, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connected]:
    """A station with tokens, a PLC, and a broker that is not there."""
    folder, modbus, silent = tmp_path_factory.mktemp("connected"), free_port(), free_port()
    file = folder / "line.toml"
    file.write_text(
        f'[modbus]\nport = {modbus}\n[mqtt]\nhost = "127.0.0.1"\nport = {silent}\n'
        f'[webhook]\nurl = "http://127.0.0.1:{silent}/secret-place"\n'
    )
    options = ("--connect", str(file), *token_file(folder))
    with stations.running(folder / "store", *options) as found:
        plc = Plc(modbus)
        until(plc.connect)
        yield Connected(found, found.client(ADMIN), plc, silent)
        plc.close()


def test_verdicts_and_failures_get_one_sequence_of_numbers(connected: Connected) -> None:
    _, client, plc, _ = connected
    product = client.create_product("bolt", [png(0), png(1)])["id"]
    client.calibrate_product(product, threshold=1e-6)
    until(lambda: STATES[plc.read()[1]] == "ready")
    assert plc.write(100, 1)
    client.inspect(product, [png(2)])
    registers = plc.read()
    assert (STATES[registers[1]], registers[4:6], registers[7:9]) == ("result", [1, 2], [0, 1])
    client.calibrate_product(product, threshold=0.9)
    client.inspect(product, [png(3)])
    assert plc.read()[5:9] == [1, 0, 0, 2]
    with refused(422):
        client.inspect(product, [("broken.png", b"no picture")])
    assert plc.read()[5:9] == [0, 1, 0, 3]  # no verdict, because of an error
    found = client.inspect(product, [png(4), ("broken.png", b"no picture"), png(5)])
    assert len(found["inspections"]) == 2
    until(lambda: plc.catch_up() == 6)
    assert plc.seen == {1: 2, 2: 1, 3: 0, 4: 0, 5: 1, 6: 1}


def test_an_engineer_sees_what_is_wrong_and_no_secret(connected: Connected) -> None:
    _, client, _, port = connected
    found = client.connections()
    assert found["state"] in STATES
    by_name = {one["name"]: one for one in found["connections"]}
    assert by_name["modbus"]["problem"] is None
    assert by_name["mqtt"]["problem"]
    assert by_name["mqtt"]["address"] == f"mqtt://127.0.0.1:{port}"
    assert "secret-place" not in str(found)
    assert client.test_connection("modbus") == {"works": True, "problem": None}
    for name in ("mqtt", "webhook"):
        test = client.test_connection(name)
        assert not test["works"]
        assert str(port) in (test["problem"] or "")
        assert "secret-place" not in str(test)
    with refused(404, "connection-unknown"):
        client.test_connection("profinet")
    operator = connected.station.client(INSPECT)
    with refused(403, "admin-required"):
        operator.connections()
    with refused(403, "admin-required"):
        operator.test_connection("mqtt")


def test_without_a_file_nothing_is_connected(client: StationClient) -> None:
    assert client.connections() == {"state": None, "reason": None, "connections": []}
    with refused(404, "connection-unknown"):
        client.test_connection("mqtt")


def test_a_watched_folder_is_told_of_and_so_are_pictures_that_cannot_be_read(
    stations: Stations, tmp_path: Path
) -> None:
    broker = Broker(tmp_path / "broker").start()
    camera, file = tmp_path / "camera", tmp_path / "line.toml"
    camera.mkdir()
    file.write_text(f'[mqtt]\nhost = "127.0.0.1"\nport = {broker.port}\n')
    listener = Listener(broker.port)
    options = ("--connect", str(file), "--watch", f"bolt={camera}")
    with stations.running(tmp_path / "store", *options) as station:
        station.client().create_product("bolt", [png(0), png(1)])
        (camera / "1.png").write_bytes(png(2)[1])
        until(lambda: listener.numbers == [1])
        (camera / "2.png").write_bytes(b"no picture")
        until(lambda: listener.numbers == [1, 2])
    assert [record["name"] for record in listener.records] == ["1.png", "2.png"]
    assert listener.records[1]["verdict"] == "none"
    assert listener.records[1]["reason"] == "error"
    assert str(camera) not in str(listener.records)
    until(lambda: listener.states[-1]["state"] == "stopped")
    listener.close()
    broker.stop()


def test_nothing_is_lost_between_the_store_and_the_outbox(
    stations: Stations, tmp_path: Path
) -> None:
    """As after a crash between the two: what the store has, and the outbox has not, is told."""
    port, file, store = free_port(), tmp_path / "line.toml", tmp_path / "store"
    file.write_text(f"[modbus]\nport = {port}\n")
    with stations.running(store, "--connect", str(file)) as station:
        client = station.client()
        product = client.create_product("bolt", [png(0), png(1)])["id"]
        for seed in range(2, 5):
            client.inspect(product, [png(seed)])
    records = store / "connect" / "records.jsonl"
    rows = records.read_bytes().splitlines(keepends=True)
    assert len(rows) == 3
    records.write_bytes(b"".join(rows[:1]) + rows[1][:20])
    with stations.running(store, "--connect", str(file)) as station:
        plc = Plc(port)
        until(plc.connect)
        until(lambda: plc.catch_up() == 3)
        assert plc.read()[5] == 0  # caught up on, and no verdict now
        plc.close()
    assert records.read_bytes().splitlines()[0] == rows[0].rstrip()
    assert len(records.read_bytes().splitlines()) == 3


def test_a_full_disk_is_told_as_such(stations: Stations, tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "line.toml"
    file.write_text(f"[modbus]\nport = {port}\n")
    most = str(10**9)
    station = stations.start(
        tmp_path / "store", "--connect", str(file), "--reserve-megabytes", most
    )
    station.listening()
    plc = Plc(port)
    until(plc.connect)
    until(lambda: STATES[plc.read()[1]] == "fault")
    assert REASONS[plc.read()[6]] == "disk"
    assert plc.write(100, 1)
    assert plc.read()[2:6] == [0, 0, 0, 0]
    plc.close()
    station.stop()
