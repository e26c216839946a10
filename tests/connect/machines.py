"""Real machines for the tests: a broker, and clients of all three protocols."""

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from asyncua import Client, ua
from paho.mqtt.enums import CallbackAPIVersion
from pymodbus.client import ModbusTcpClient

from hyperfsad.connect.connections import Connections
from hyperfsad.connect.outbox import Outbox
from hyperfsad.connect.sinks import Sink
from hyperfsad.connect.sinks.serving import STARTING
from tests.waiting import DEADLINE, until

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


def free_port() -> int:
    """A port that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Broker:
    """A mosquitto that can be stopped and started again; its users are in a file."""

    def __init__(self, folder: Path, *more: str, port: int = 0) -> None:
        if MOSQUITTO is None:
            pytest.skip("there is no mosquitto on this machine (apt install mosquitto)")
        folder.mkdir(exist_ok=True)
        self.port, self._config = port or free_port(), folder / "mosquitto.conf"
        rows = [
            f"listener {self.port} 127.0.0.1",
            "persistence true",
            f"persistence_location {folder}/",
        ]
        rows += ["autosave_interval 1", "user root", "max_queued_messages 0", *more]
        if not any(row.startswith("allow_anonymous") for row in more):
            rows.append("allow_anonymous true")
        self._config.write_text("\n".join(rows) + "\n")
        self._log = folder / "mosquitto.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Broker":
        assert MOSQUITTO is not None
        with self._log.open("ab") as log:
            command = [MOSQUITTO, "-c", str(self._config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._answers, f"the broker ({self._log.read_text()})")
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(DEADLINE)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


class Listener:
    """An MQTT client that keeps its place with the broker, as a line's database would."""

    def __init__(self, port: int, topic: str = "hyperfsad", **options: Any) -> None:
        self.records: list[dict[str, Any]] = []
        self.states: list[dict[str, Any]] = []
        self.births: list[dict[str, Any]] = []
        self.beats: list[int] = []
        self._topic = topic
        client = self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id="listener", clean_session=False
        )
        if "user" in options:
            client.username_pw_set(options["user"], options["password"])
        if "ca" in options:
            client.tls_set(options["ca"], cert_reqs=ssl.CERT_REQUIRED)
        self._subscribed = threading.Event()
        client.on_connect = self._subscribe
        client.on_subscribe = lambda *_: self._subscribed.set()
        client.on_message = self._take
        client.reconnect_delay_set(1, 1)
        client.connect("127.0.0.1", port, 5)
        client.loop_start()
        assert self._subscribed.wait(DEADLINE)

    def _subscribe(self, *_: Any) -> None:
        self.client.subscribe(f"{self._topic}/#", 1)

    def _take(self, _: Any, __: Any, message: Any) -> None:
        kind = message.topic.removeprefix(f"{self._topic}/")
        if kind in ("trigger", "acknowledge"):
            return
        target = {"records": self.records, "state": self.states, "birth": self.births}
        target.get(kind, self.beats).append(json.loads(message.payload))

    @property
    def numbers(self) -> list[int]:
        return [record["number"] for record in self.records]

    def say(self, name: str, text: str = "", retain: bool = False) -> None:
        self.client.publish(f"{self._topic}/{name}", text, qos=1, retain=retain)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class Plc:
    """A Modbus client that reads the map as docs/connect.md describes it."""

    def __init__(self, port: int) -> None:
        self.client = ModbusTcpClient("127.0.0.1", port=port, timeout=5, retries=0)
        self.seen: dict[int, int] = {}
        """Verdicts by number, as they were shown or looked up."""

    def connect(self) -> bool:
        return bool(self.client.connect())

    def read(self, address: int = 0, count: int = 23, function: str = "holding") -> list[int]:
        answer = getattr(self.client, f"read_{function}_registers")(address, count=count)
        assert not answer.isError(), answer
        return list(answer.registers)

    def write(self, address: int, *values: int) -> bool:
        return not self.client.write_registers(address, list(values)).isError()

    def write_number(self, address: int, number: int) -> bool:
        return self.write(address, number >> 16, number & 0xFFFF)

    def look_up(self, number: int) -> int | None:
        """The verdict of a record; None where it is not there."""
        assert self.write_number(103, number)
        found = self.read(30, 7)
        return found[2] if number == found[0] << 16 | found[1] else None

    def catch_up(self) -> int:
        """Looks up what is new, in the order of the numbers; how many are known then."""
        registers = self.read()
        newest = registers[10] << 16 | registers[11]
        oldest = registers[12] << 16 | registers[13]
        for number in range(max([oldest, *(n + 1 for n in self.seen)]), newest + 1):
            if number == 0 or (verdict := self.look_up(number)) is None:
                break
            self.seen[number] = verdict
        return len(self.seen)

    def close(self) -> None:
        self.client.close()


def with_opcua(
    port: int, work: Callable[[Client, Any], Coroutine[Any, Any, Any]], **options: Any
) -> Any:
    """Does something with a client of the OPC UA server, and its object of the line."""

    async def run() -> Any:
        client = Client(f"opc.tcp://127.0.0.1:{port}/hyperfsad", timeout=options.pop("timeout", 20))
        if "user" in options:
            client.set_user(options["user"])
            client.set_password(options["password"])
        if "security" in options:
            await client.set_security_string(options["security"])
        async with client:
            space = await client.get_namespace_index("urn:hyperfsad:line")
            return await work(client, await client.nodes.objects.get_child(f"{space}:Line"))

    with ThreadPoolExecutor(1) as own:  # a browser's loop runs in that of the tests
        return own.submit(asyncio.run, run()).result()


async def variables(client: Client, line: Any) -> dict[str, Any]:
    found = await line.get_variables()
    names = [(await node.read_browse_name()).Name for node in found]
    return dict(zip(names, await client.read_values(found), strict=True))


async def records_after(line: Any, number: int, most: int = 100) -> list[dict[str, Any]]:
    space = (await line.read_browse_name()).NamespaceIndex
    kinds = ua.VariantType.Int64
    arguments = [ua.Variant(value, kinds) for value in (number, most)]
    return [json.loads(row) for row in await line.call_method(f"{space}:Records", *arguments) or []]


async def call(line: Any, name: str, *values: int) -> Any:
    space = (await line.read_browse_name()).NamespaceIndex
    arguments = [ua.Variant(value, ua.VariantType.Int64) for value in values]
    return await line.call_method(f"{space}:{name}", *arguments)


class Plant:
    """Connections over an outbox of a test's own."""

    def __init__(self, folder: Path, *sinks: Sink) -> None:
        folder.mkdir(exist_ok=True)
        self.said: list[str] = []
        self.outbox = Outbox(folder / "records.jsonl", self.said.append)
        self.connections = Connections.of(sinks, self.outbox, self.said.append)
        self.line = self.connections.line

    def start(self) -> "Plant":
        self.connections.start()
        until(lambda: self.line.live.state == "ready")
        until(lambda: all(one.problem != STARTING for one in self.connections.states()))
        return self

    def judge(self, anomalous: bool | None = False, **more: Any) -> int:
        record = {"anomalous": anomalous, "level": 0.5, "error": None, **more}
        record.setdefault("time", "2026-11-20T08:00:00+00:00")
        number = self.outbox.add(record)
        self.connections.judged(record, number, time.monotonic())
        return number

    def close(self) -> None:
        self.connections.close(0.5)
