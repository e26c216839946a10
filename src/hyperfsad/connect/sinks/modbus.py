"""A Modbus TCP server: one map of registers, with a handshake. docs/connect.md describes it.

Modbus has neither users nor encryption, so it listens on this machine only, unless told otherwise.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from ...messages import Notice, log
from ...report.records import Record
from ..state import REASONS, STATES, VERDICTS, Line, Live
from . import Answer
from .serving import HELD, Latest, ServerThread, check_open, is_loopback, shown_address

VERSION = 1
"""Of the map."""
LIVE, WINDOW, COMMANDS, END = 0, 30, 100, 105
"""Where each block begins: read, read, written; and how many registers there are."""
TRIGGER, ACKNOWLEDGE, LOOK_AT = 100, 101, 103
COUNTED = ("good", "anomalous", "none")
NO_LEVEL = 0xFFFF


class Modbus:
    """The server, and what it has of the records."""

    name, replays = "modbus", HELD
    timeout, pause, longest_pause = 10.0, 1.0, 1.0

    def __init__(self, host: str = "127.0.0.1", port: int = 5020) -> None:
        self._host, self._port = host, port
        self.address = shown_address("modbus", host, port)
        if not is_loopback(host):
            log(Notice("modbus-open", address=self.address))
        self._line = Line()
        self._records = Latest()
        self._looked_at = self._triggered = 0
        self._thread = ServerThread(self.name, (host, port), self._serving)

    def start(self, line: Line, origin: str) -> None:
        self._line = line
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop()

    @property
    def problem(self) -> str | None:
        return self._thread.problem

    def wants(self, record: Record) -> bool:
        return True

    def send(self, record: Record, timeout: float) -> Answer:
        self._records.add(record)
        return Answer(taken=True)

    def show(self, live: Live) -> None:
        """Nothing: registers are made when they are read."""

    def test(self) -> None:
        check_open(self._host, self._port, self.timeout, self.address)

    def registers(self) -> list[int]:
        """The whole map as it is now."""
        live, found = self._line.live, [0] * END
        oldest = self._records.oldest
        found[LIVE : LIVE + 22] = [
            *(live.heartbeat & 0xFFFF, STATES.index(live.state)),
            *(live.state in ("ready", "result"), live.state == "busy", live.state == "result"),
            *(VERDICTS.index(live.verdict), REASONS.index(live.reason)),
            *(*_two(live.number), live.trigger & 0xFFFF, *_two(live.newest), *_two(oldest)),
            *(
                number
                for name in ("good", "anomalous", "none")
                for number in _two(live.counts[name])
            ),
            live.late & 0xFFFF,
            _per_mille(live.level),
        ]
        found[LIVE + 22] = VERSION
        record = self._records.get(self._looked_at)
        if record is not None:
            found[WINDOW : WINDOW + 7] = [
                *_two(self._looked_at),
                VERDICTS.index(record["verdict"]),
                REASONS.index(record["reason"]),
                _per_mille(record.get("level")),
                *_two(_seconds(record.get("time"))),
            ]
        found[TRIGGER] = self._triggered
        found[LOOK_AT : LOOK_AT + 2] = _two(self._looked_at)
        return found

    async def _asked(
        self, function: int, _: int, address: int, count: int, registers: list[int], values: Any
    ) -> Any:
        """Before each request is answered; no other runs meanwhile, so an answer is of one moment.

        The trigger acts when it goes from 0 to another value.
        """
        from pymodbus.constants import ExcCodes

        if not values:
            registers[:] = self.registers()
            return None
        written = dict(zip(range(address, address + count), values, strict=True))
        halves = {ACKNOWLEDGE, ACKNOWLEDGE + 1}, {LOOK_AT, LOOK_AT + 1}
        if min(written) < COMMANDS or any(len(half & written.keys()) == 1 for half in halves):
            return ExcCodes.ILLEGAL_ADDRESS
        if TRIGGER in written:
            before, self._triggered = self._triggered, written[TRIGGER]
            if self._triggered and not before:
                self._line.trigger()
        if ACKNOWLEDGE in written:
            self._line.acknowledge(_one(written, ACKNOWLEDGE))
        if LOOK_AT in written:
            self._looked_at = _one(written, LOOK_AT)
        return None

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        from pymodbus.server import ModbusTcpServer
        from pymodbus.simulator import DataType, SimData, SimDevice

        block = SimData(0, count=END, values=0, datatype=DataType.REGISTERS)
        device = SimDevice(id=0, simdata=[block], action=self._asked)
        server = ModbusTcpServer(device, address=(self._host, self._port))
        await server.serve_forever(background=True)
        try:
            yield
        finally:
            await server.shutdown()


def _two(number: int) -> tuple[int, int]:
    """A number in two registers, the higher half first."""
    return number >> 16 & 0xFFFF, number & 0xFFFF


def _one(written: dict[int, int], first: int) -> int:
    return written[first] << 16 | written[first + 1]


def _per_mille(level: float | None) -> int:
    return NO_LEVEL if level is None else max(0, min(round(1000 * level), NO_LEVEL - 1))


def _seconds(time: Any) -> int:
    try:
        return int(datetime.fromisoformat(time).timestamp())
    except (TypeError, ValueError):
        return 0
