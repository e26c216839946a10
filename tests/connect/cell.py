"""A cell of a plant: parts, a station, a broker and clients of all protocols; and what fails."""

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperfsad.serve.client import StationClient, StationError
from tests.connect.machines import Broker, Listener, Plc, free_port, records_after, with_opcua
from tests.serve.conftest import png
from tests.serve.stations import Running, Stations, until


@dataclass
class Told:
    """What reached one client: each record that it had not, in the order in which it came."""

    records: list[dict[str, Any]] = field(default_factory=list)

    def take(self, record: dict[str, Any]) -> None:
        if record["number"] not in {one["number"] for one in self.records}:
            self.records.append(record)


class Cell:
    """Parts go through one by one; between them, things are broken and mended."""

    def __init__(self, stations: Stations, folder: Path) -> None:
        self._stations, self._folder = stations, folder
        self.broker = Broker(folder / "broker").start()
        self._modbus, self._opcua = free_port(), free_port()
        file = folder / "line.toml"
        file.write_text(
            f'[mqtt]\nhost = "127.0.0.1"\nport = {self.broker.port}\ntimeout = 2\n'
            f"[opcua]\nport = {self._opcua}\n[modbus]\nport = {self._modbus}\n"
        )
        self._options = ("--connect", str(file))
        self.listener = Listener(self.broker.port)
        self.plc, self.shown = Plc(self._modbus), list[tuple[int, int]]()
        """Numbers and verdicts that the PLC acted upon."""
        self.opcua = Told()
        self.verdicts: list[str] = []
        """What each part got by HTTP: a verdict, or "error"."""
        self.station = self._start()
        self.product = str(self.client.create_product("bolt", [png(0), png(1)])["id"])
        self.client.calibrate_product(self.product, threshold=1e-6)

    @property
    def client(self) -> StationClient:
        return self.station.client()

    def _start(self) -> Running:
        found = self._stations.start(self._folder / "store", *self._options).wait()
        until(self.plc.connect, "the PLC's connection")
        until(lambda: self.plc.read()[2], "the bit ready")
        return found

    def part(self, number: int) -> None:
        """Every third part can pass, every seventh picture is damaged."""
        if number % 3 == 0:
            self.client.calibrate_product(self.product, threshold=0.9)
        elif number % 3 == 1:
            self.client.calibrate_product(self.product, threshold=1e-6)
        assert self.plc.write(100, 0)
        assert self.plc.write(100, 1)
        damaged = number % 7 == 0
        try:
            image = ("x.png", b"no picture") if damaged else png(1000 + number)
            (found,) = self.client.inspect(self.product, [image])["inspections"]
            self.verdicts.append(found["verdict"])
        except StationError:
            if not damaged:
                raise
            self.verdicts.append("error")
        registers = self.plc.read()
        if registers[4]:
            self.shown.append((registers[7] << 16 | registers[8], registers[5]))
            self.plc.write_number(101, self.shown[-1][0])

    def parts(self, first: int, last: int) -> None:
        for number in range(first, last):
            self.part(number)

    def cut_off(self, work: Callable[[], None]) -> None:
        """The broker is gone while something is done."""
        self.broker.stop()
        work()
        self.broker.start()

    def kill(self) -> None:
        """The station dies in the middle of a part, and comes back."""
        last = threading.Thread(target=self._lost)
        last.start()
        self.station.stop(signal.SIGKILL)
        last.join()
        self.plc.close()
        self.station = self._start()
        assert self.plc.read()[4:6] == [0, 0]  # what was before is no verdict now
        found = [one["verdict"] for one in self.client.history()]
        known = [verdict for verdict in self.verdicts if verdict != "error"]
        if len(found) > len(known):  # the last part was kept, though nobody was told
            self.verdicts.append(found[0])

    def _lost(self) -> None:
        try:
            self.client.inspect(self.product, [png(1)])
        except StationError:
            return

    def catch_up(self) -> int:
        """The clients that look up records do so; how many the OPC UA client has then."""
        self.plc.catch_up()

        async def look(_: Any, line: Any) -> list[dict[str, Any]]:
            last = self.opcua.records[-1]["number"] if self.opcua.records else 0
            return await records_after(line, last)

        for record in with_opcua(self._opcua, look):
            self.opcua.take(record)
        return len(self.opcua.records)

    def check(self) -> None:
        """Each client has every record once by its number, in order, and nothing wrongly good."""
        expected = [{"error": "none"}.get(verdict, verdict) for verdict in self.verdicts]
        count = len(expected)
        until(lambda: self.catch_up() >= count, "OPC UA")
        until(lambda: self.plc.catch_up() >= count, "Modbus")
        until(lambda: len(set(self.listener.numbers)) >= count, "MQTT")
        mqtt = Told()
        for record in self.listener.records:
            mqtt.take(record)
        for told in (self.opcua, mqtt):
            assert [one["number"] for one in told.records] == [*range(1, count + 1)]
            assert [one["verdict"] for one in told.records] == expected
            assert len({one["origin"] for one in told.records}) == 1
        codes = {"none": 0, "good": 1, "anomalous": 2}
        assert self.plc.seen == {n: codes[said] for n, said in enumerate(expected, 1)}
        for number, verdict in self.shown:
            assert self.plc.seen[number] == verdict
        shown = [one for one in self.listener.states if one["verdict"] == "good"]
        assert all(expected[one["number"] - 1] == "good" for one in shown)

    def close(self) -> None:
        self.listener.close()
        self.plc.close()
        self.station.stop()
        self.broker.stop()
