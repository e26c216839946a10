"""What machines hear of a station: each inspection of its store, and each picture without one.

The store knows the inspections and their order; the outbox remembers the last one that it took in.
So a crash between the two costs nothing: the next start goes on there.
"""

import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timezone

from sqlalchemy import text

from ..connect.config import ConnectSettings
from ..connect.connections import Connections
from ..connect.outbox import Outbox
from ..connect.state import Reason
from ..disk.files import read_objects
from ..messages import Notify, log
from ..report.records import Record
from .engine import StationEngine
from .monitoring import LOG
from .refusals import RefusedError
from .schemas import ConnectionOut, ConnectionsOut, ConnectionTestOut, InspectionRow
from .store.history import Filter, following, newest
from .store.store import Store

RECORDS = "records.jsonl"
AT_ONCE = 100
MOST_EXPECTED = 10_000
"""Inspections that may be on their way to the database."""


class Machines:
    """The connections of a station; without a file of `--connect` it does nothing."""

    def __init__(
        self, settings: ConnectSettings | None, store: Store, engine: StationEngine
    ) -> None:
        self._settings, self._store, self._engine = settings, store, engine
        self._connections: Connections | None = None
        self._lock = threading.Lock()
        self._last = 0
        """The number of the last inspection that the outbox took in."""
        self._arrived: dict[str, float] = {}
        """When the pictures of inspections came that are not in the outbox yet."""

    def open(self, take: Callable[[int], None], notify: Notify = log) -> None:
        """Goes on where the last run ended; the store is open. `take` takes a picture where a
        machine asks for one, given the number of its trigger."""
        if self._settings is None:
            return
        folder = self._store.files.connected
        outbox = Outbox(folder / RECORDS, notify)
        known = [int(row.get("inspection", 0)) for row in read_objects(outbox.path)]
        latest = newest(self._store.database)
        self._last = min(max(known), latest) if known else latest
        self._connections = Connections(self._settings, outbox, self._health, notify)
        self._connections.line.on_trigger.append(take)
        self.sync()
        self._connections.start()

    def close(self) -> None:
        """Delivers what it can."""
        if self._connections is not None:
            self._connections.close()

    def expect(self, inspections: Iterable[str], arrived: float) -> None:
        """Inspections that are about to be kept, and when their pictures came."""
        if self._connections is not None:
            with self._lock:
                self._arrived |= dict.fromkeys(inspections, arrived)
                while len(self._arrived) > MOST_EXPECTED:
                    del self._arrived[next(iter(self._arrived))]

    def sync(self) -> None:
        """Takes in the inspections that are new in the store, in its order."""
        if self._connections is None:
            return
        try:
            with self._lock:
                found = None
                while found is None or len(found) == AT_ONCE:
                    with self._store.database.reading() as session:
                        found = following(session, Filter(), self._last, AT_ONCE)
                    for number, row in found:
                        self._tell(_record(row), number, self._arrived.get(row.id))
                        self._last = number
                        self._arrived.pop(row.id, None)
        except Exception:  # the inspections are kept; the next look tells them
            LOG.exception("machines were not told of the latest inspections")

    def failed(self, product: str, name: str, error: str, arrived: float) -> None:
        """A picture without an inspection."""
        moment = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        record = {"id": None, "time": moment, "product_id": product, "name": name}
        if self._connections is None:
            return
        try:
            with self._lock:
                self._tell({**record, "anomalous": None, "error": error}, self._last, arrived)
        except Exception:  # as above; without space nothing is told, and the line hears that
            LOG.exception("machines were not told of a picture that failed")

    def states(self) -> ConnectionsOut:
        if self._connections is None:
            return ConnectionsOut(state=None, reason=None, connections=[])
        live = self._connections.line.live
        found = [ConnectionOut(**vars(one)) for one in self._connections.states()]
        return ConnectionsOut(state=live.state, reason=live.reason, connections=found)

    def test(self, name: str) -> ConnectionTestOut:
        """Connects to a receiver; KeyError where there is none of the name."""
        if self._connections is None:
            raise KeyError(name)
        error = self._connections.test(name)
        return ConnectionTestOut(works=error is None, problem=None if error is None else str(error))

    def _tell(self, record: Record, inspection: int, arrived: float | None) -> None:
        assert self._connections is not None
        if arrived is not None and self._connections.line.is_late(arrived):
            record["late"] = True
        number = self._connections.outbox.add({**record, "inspection": inspection})
        self._connections.judged(record, number, arrived)

    def _health(self) -> Reason | None:
        """Also takes in what other stations with the same database have added."""
        if not self._engine.ready:
            return "restart"
        if self._engine.problem is not None:
            return "fault"
        try:
            self._store.files.check_space()
        except RefusedError:
            return "disk"
        try:
            self._store.database.check()
            with self._store.database.reading() as session:
                session.execute(text("SELECT 1"))
        except Exception:  # of whichever database
            return "fault"
        self.sync()
        return None


def _record(row: InspectionRow) -> Record:
    judged = {"anomalous": True, "good": False, "unjudged": None}[row.verdict]
    return {**row.model_dump(exclude={"label"}), "anomalous": judged, "error": None}
