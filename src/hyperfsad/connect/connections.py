"""All that machines hear of a line: its records, and what they may act upon now."""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import HyperfsadError, first_line
from ..messages import Notice, Notify, log
from ..report.records import Record
from .config import ConnectSettings, LineSettings
from .delivery import LAST_DELIVERIES, Delivery
from .outbox import Outbox
from .sinks import Sink
from .state import Line, Live, Reason, told

LOOK, BEAT_STEPS, BEAT = 0.1, 10, 1.0
"""Seconds between two looks at the clock; how many make a heartbeat, and how long that takes."""
SILENT = 10.0
"""Seconds without a word about the health that are a fault."""


@dataclass(frozen=True)
class ConnectionState:
    """A receiver, as an engineer wants to know it."""

    name: str
    address: str
    problem: str | None
    delivered: int
    waiting: int
    """Records that it has not taken yet."""


class Connections:
    """Opened once for a run; each receiver has a thread and a place in the outbox of its own."""

    def __init__(
        self,
        settings: ConnectSettings,
        outbox: Outbox,
        health: Callable[[], Reason | None] = lambda: None,
        notify: Notify = log,
    ) -> None:
        """`health` says why nothing can be judged now, if so; it is asked every second."""
        self.line = Line(self._show, deadline=settings.line.deadline, hold=settings.line.hold)
        self.outbox, self._health, self._notify = outbox, health, notify
        self._deliveries = {sink.name: Delivery(sink, outbox, notify) for sink in settings.sinks}
        self._ending = threading.Event()
        self._problem: Reason | None = "restart"
        self._asked = time.monotonic()
        """When the health was last told."""
        self._threads = [
            threading.Thread(target=work, name="hyperfsad-line", daemon=True)
            for work in (self._tick, self._ask)
        ]

    @classmethod
    def of(cls, sinks: Sequence[Sink], outbox: Outbox, notify: Notify = log) -> "Connections":
        """Without a file."""
        return cls(ConnectSettings(tuple(sinks), LineSettings()), outbox, notify=notify)

    def start(self) -> "Connections":
        """Begins with "starting": what was before the start is no verdict now."""
        self.line.begin(self.outbox.newest)
        for delivery in self._deliveries.values():
            delivery.sink.start(self.line, self.outbox.origin)
            delivery.start()
        for thread in self._threads:
            thread.start()
        return self

    def close(self, grace: float = LAST_DELIVERIES, reason: Reason = "stopped") -> None:
        """Says that the line stops, then delivers what it can."""
        self.line.stop(reason)
        self._ending.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(BEAT)
        for delivery in self._deliveries.values():
            if left := delivery.close(grace):
                facts = {"name": delivery.sink.name, "number": left}
                self._notify(Notice("delivery-left", **facts))
            delivery.sink.stop()

    def judged(
        self, record: Record, number: int, arrived: float | None, trigger: int | None = None
    ) -> None:
        """A record that is on the disk, with its number there."""
        if self._problem == "restart":  # who judges has started
            self._problem = None
        self.line.look(self._problem)
        self.line.judged(told(record, number, self.outbox.origin), arrived, trigger)

    def states(self) -> list[ConnectionState]:
        newest = self.outbox.newest
        return [
            ConnectionState(
                name,
                one.sink.address,
                one.sink.problem or one.problem,
                one.delivered,
                newest - one.delivered,
            )
            for name, one in self._deliveries.items()
        ]

    def test(self, name: str) -> HyperfsadError | None:
        """What is wrong with a receiver, as far as connecting to it shows; KeyError if unknown."""
        sink = self._deliveries[name].sink
        try:
            sink.test()
        except HyperfsadError as error:
            return error
        return None

    def _show(self, live: Live) -> None:
        for name, delivery in self._deliveries.items():
            try:
                delivery.sink.show(live)
            except Exception as error:  # of a library; the others and the inspection go on
                self._notify(Notice("delivery-waits", name=name, why=first_line(error)))

    def _ask(self) -> None:
        """The health, which may take its time where a disk or a database hangs."""
        while not self._ending.is_set():
            self._problem, self._asked = self._health(), time.monotonic()
            self._ending.wait(BEAT)

    def _tick(self) -> None:
        """Deadlines and the heartbeat, whatever hangs."""
        for step in itertools.count():
            if self._ending.wait(LOOK):
                return
            silent = time.monotonic() - self._asked > SILENT
            self.line.look("fault" if silent else self._problem, beat=step % BEAT_STEPS == 0)
