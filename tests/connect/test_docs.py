"""The clients of docs/connect.md, as somebody would type them."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperfsad.connect import Modbus, Mqtt, OpcUa, read_connections
from hyperfsad.connect.state import REASONS, STATES
from tests.conftest import REPOSITORY
from tests.connect.machines import Broker, Plant, free_port
from tests.waiting import DEADLINE, until

TEXT = (REPOSITORY / "docs" / "connect.md").read_text(encoding="utf-8")
CLIENTS = {
    name: next(code for code in re.findall(r"```python\n(.*?)```", TEXT, re.S) if name in code)
    for name in ("paho", "asyncua", "pymodbus")
}


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[tuple[Plant, dict[str, int]]]:
    broker = Broker(tmp_path / "broker").start()
    ports = {"1883": broker.port, "4840": free_port(), "5020": free_port()}
    sinks = Mqtt("127.0.0.1", broker.port), OpcUa(port=ports["4840"]), Modbus(port=ports["5020"])
    found = Plant(tmp_path / "plant", *sinks).start()
    yield found, ports
    found.close()
    broker.stop()


def started(name: str, ports: dict[str, int]) -> "subprocess.Popen[str]":
    code = CLIENTS[name]
    for usual, port in ports.items():
        code = code.replace(usual, str(port))
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_the_clients_work_as_they_are_printed(plant: tuple[Plant, dict[str, int]]) -> None:
    made, ports = plant
    with started("paho", ports) as database:
        made.judge(True)
        made.line.acknowledge()
        with started("pymodbus", ports) as plc:
            until(lambda: made.line.live.state == "busy")
            made.judge(False)
            assert plc.communicate(timeout=DEADLINE)[0] == "good reason 0\n"
        until(lambda: made.line.live.state == "ready")
        with started("asyncua", ports) as browser:
            rows = browser.communicate(timeout=DEADLINE)[0].splitlines()
        assert rows == ["ready none waiting", "1 anomalous ", "2 good "]
        rows = list[str]()
        reader = threading.Thread(target=lambda: rows.extend(database.stdout or ()))
        reader.start()
        until(lambda: "none unjudged" in "".join(rows) or (made.judge(None) and None))
        database.terminate()
    reader.join(DEADLINE)
    assert any(re.fullmatch(r"\d+ none unjudged\n", row) for row in rows)


def test_the_first_file_and_the_codes_are_those_of_the_code(tmp_path: Path) -> None:
    (tmp_path / "line.toml").write_text(re.findall(r"```toml\n(.*?)```", TEXT, re.S)[0])
    found = read_connections(tmp_path / "line.toml")
    assert [sink.name for sink in found.sinks] == ["mqtt", "opcua", "modbus"]
    codes = dict(re.findall(r"^\| (\w+) \| (\d) \|", TEXT, re.M))
    assert {name: int(code) for name, code in codes.items()} == dict(zip(STATES, range(6)))  # noqa: B905
    table = TEXT[TEXT.index("| state | code") : TEXT.index("```text\nstopped →")]
    for code, name in re.findall(r"(\d) ([a-z]+)", table):
        assert REASONS[int(code)] == name
