"""The machines that hear of one run of a watcher, from its first record to its last."""

import errno
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeVar

from ..errors import HyperfsadError
from ..messages import Notify, log
from ..report.records import Record
from .config import ConnectSettings
from .connections import Connections
from .delivery import LAST_DELIVERIES
from .outbox import Outbox
from .state import Reason

Item = TypeVar("Item")
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Session:
    """Opens connections for a run, and tells them at the end why it ends."""

    def __init__(
        self,
        settings: ConnectSettings | None,
        records: Path,
        health: Callable[[], Reason | None],
        notify: Notify = log,
    ) -> None:
        """`records` is the file whose rows are told; without settings nobody hears of them."""
        self._connections: Connections | None = None
        if settings is not None:
            self._connections = Connections(settings, Outbox(records, notify), health, notify)

    def during(self, results: Generator[Item, None, None]) -> Generator[Item, None, None]:
        """The same results, with machines connected meanwhile."""
        if self._connections is None:
            yield from results
            return
        grace: float = 0.0  # after an error or a second Ctrl-C
        why: Reason = "stopped"
        try:
            self._connections.start()
            yield from results
            grace = LAST_DELIVERIES
        except GeneratorExit:
            grace = LAST_DELIVERIES
            raise
        except Exception as error:
            full = isinstance(error, HyperfsadError) and error.facts.get("error") in DISK_FULL
            why = "disk" if full else "fault"
            raise
        finally:
            self._connections.close(grace, why)

    def is_late(self, arrived: float) -> bool:
        """Whether a verdict comes too late for the line."""
        return self._connections is not None and self._connections.line.is_late(arrived)

    def judged(self, record: Record, arrived: float) -> None:
        """Tells of a record that is on the disk now."""
        if self._connections is not None:
            number = self._connections.outbox.publish()
            self._connections.judged(record, number, arrived)
