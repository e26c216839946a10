"""Modbus TCP with a real client, as a PLC would talk."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperfsad.connect import Modbus
from hyperfsad.connect.state import REASONS, STATES, VERDICTS
from tests.connect.machines import Plant, Plc, free_port
from tests.waiting import until

READY, BUSY, VALID = 2, 3, 4


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    found = Plant(tmp_path / "plant", Modbus(port=free_port())).start()
    yield found
    found.close()


@pytest.fixture
def plc(plant: Plant) -> Iterator[Plc]:
    found = Plc(int(plant.connections.states()[0].address.rpartition(":")[2]))
    assert found.connect()
    yield found
    found.close()


def test_a_part_by_handshake(plant: Plant, plc: Plc) -> None:
    registers = plc.read()
    assert registers[READY : VALID + 1] == [1, 0, 0]
    assert plc.write(100, 1)
    registers = plc.read()
    assert registers[READY : VALID + 1] == [0, 1, 0]
    assert registers[9] == 1
    plant.judge(True, level=1.25)
    registers = plc.read()
    assert STATES[registers[1]] == "result"
    assert registers[READY : VALID + 1] == [1, 0, 1]
    assert (VERDICTS[registers[5]], REASONS[registers[6]]) == ("anomalous", "")
    assert registers[7:9] == [0, 1]
    assert registers[21] == 1250
    assert registers[14:20] == [0, 0, 0, 1, 0, 0]
    assert plc.write_number(101, 9)  # of another record
    assert plc.read()[VALID] == 1
    assert plc.write(100, 0)
    assert plc.write_number(101, 1)
    registers = plc.read()
    assert registers[READY : VALID + 4] == [1, 0, 0, 0, REASONS.index("waiting"), 0]


def test_the_trigger_acts_when_it_rises(plant: Plant, plc: Plc) -> None:
    assert plc.write(100, 1)
    plant.judge()
    assert plc.write(100, 1)
    assert plant.line.live.trigger == 1
    assert plc.write(100, 0)
    assert plc.write(100, 1)
    assert plant.line.live.trigger == 2
    assert plc.read(100, 1) == [1]


def test_both_functions_read_and_only_commands_are_written(plant: Plant, plc: Plc) -> None:
    plant.judge()
    until(lambda: plc.look_up(1))
    held, inputs = plc.read(1, 22), plc.read(1, 22, "input")
    assert held == inputs
    assert not plc.write(5, 1)  # nobody writes "good"
    assert not plc.write(99, 1, 1)
    assert not plc.write(101, 1)  # half a number
    assert not plc.write(104, 1)
    assert not plc.write(105, 1)
    assert plc.read()[VALID] == 1


def test_records_by_number(plant: Plant, plc: Plc) -> None:
    for anomalous in (False, True, None, False, False, True):
        plant.judge(anomalous)
    until(lambda: plc.look_up(6))
    assert [plc.look_up(number) for number in range(1, 8)] == [1, 2, 0, 1, 1, 2, None]
    assert plc.read()[10:14] == [0, 6, 0, 1]
    assert plc.look_up(3) == 0
    assert REASONS[plc.read(33, 1)[0]] == "unjudged"
    assert plc.read(35, 2) == [1795161600 >> 16, 1795161600 & 0xFFFF]


def test_large_numbers_take_two_registers(plant: Plant, plc: Plc) -> None:
    sink = plant.connections._deliveries["modbus"].sink
    sink.send({"number": 70_000, "verdict": "good", "reason": ""}, 1)
    assert plc.look_up(70_000) == 1


def test_the_heartbeat_counts(plc: Plc) -> None:
    first = plc.read(0, 1)
    until(lambda: plc.read(0, 1) != first)


def test_a_client_that_was_away_catches_up_after_a_restart(tmp_path: Path) -> None:
    port = free_port()
    plant = Plant(tmp_path / "plant", Modbus(port=port)).start()
    plc = Plc(port)
    assert plc.connect()
    plant.judge(False)
    until(lambda: plc.catch_up() == 1)
    for anomalous in (True, True):
        plant.judge(anomalous)
    plant.close()
    plc.close()
    plant = Plant(tmp_path / "plant", Modbus(port=port)).start()
    assert plc.connect()
    assert plc.read()[VALID : VALID + 2] == [0, 0]  # what was before is no verdict now
    until(lambda: plc.catch_up() == 3)
    assert plc.seen == {1: 1, 2: 2, 3: 2}
    plc.close()
    plant.close()


def test_a_port_that_is_taken_stops_nothing_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperfsad.connect.sinks.serving.RETRY", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        plant = Plant(tmp_path / "plant", Modbus(port=port)).start()
        assert plant.judge() == 1
        assert plant.connections.states()[0].problem
    until(lambda: plant.connections.states()[0].problem is None)
    assert plant.connections.test("modbus") is None
    plant.close()
    error = plant.connections.test("modbus")
    assert error is not None
    assert error.code == "connect-silent"


def test_beyond_this_machine_it_warns(caplog: pytest.LogCaptureFixture) -> None:
    Modbus()
    assert caplog.records == []
    Modbus("0.0.0.0")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
