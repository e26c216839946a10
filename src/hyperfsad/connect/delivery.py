"""One receiver and its thread: each record, in order, until it is taken."""

import json
import threading
import time

from ..disk.files import append_object
from ..errors import first_line, reason
from ..messages import Notice, Notify, log
from .outbox import Outbox
from .sinks import Answer, Sink
from .state import told

REFUSED = "connect-refused.jsonl"
"""Records that a receiver will never take, and its answer."""
DISK_PAUSE = 60.0
"""Seconds before records are read again that could not be."""
LAST_DELIVERIES = 5.0
"""Seconds for the last deliveries, at the end."""


class Delivery:
    """Brings the records of an outbox to one sink, whatever happens to the others."""

    def __init__(self, sink: Sink, outbox: Outbox, notify: Notify = log) -> None:
        self.sink, self._outbox, self._notify = sink, outbox, notify
        self.problem: str | None = None
        """Why the last try failed, if so."""
        self._deadline: float | None = None
        self._closed = False
        self._place = outbox.back(sink.replays) if sink.replays else outbox.begin(sink.name)
        self._thread = threading.Thread(target=self._run, name=f"to-{sink.name}", daemon=True)

    def start(self) -> "Delivery":
        """Starts with what earlier runs have left."""
        self._thread.start()
        return self

    @property
    def delivered(self) -> int:
        """The number up to which all is delivered."""
        return self._place.number

    def pending(self) -> int:
        """How many records are still to be delivered."""
        place, count = self._place, 0
        while found := self._outbox.after(place):
            count += sum(self.sink.wants(self._told(at.number, row)) for at, row in found)
            place = found[-1][0]
        return count

    def close(self, grace: float = LAST_DELIVERIES) -> int:
        """Delivers for `grace` seconds at most; returns how many records the next start will send.

        A delivery that still hangs then is abandoned.
        """
        with self._outbox.changed:
            self._deadline = time.monotonic() + grace
            self._outbox.changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(grace)
        self._save()
        self._closed = True
        try:
            return 0 if self.sink.replays else self.pending()
        except OSError:
            return 0

    def _told(self, number: int, row: bytes) -> dict[str, object]:
        try:
            record = json.loads(row)
        except ValueError:
            record = None
        found = record if isinstance(record, dict) else {"error": "the record is damaged"}
        return told(found, number, self._outbox.origin)

    def _run(self) -> None:
        while True:
            with self._outbox.changed:
                self._outbox.changed.wait_for(
                    lambda: self._place.number < self._outbox.newest or self._deadline is not None
                )
                if self._place.number >= self._outbox.newest:
                    return
            try:
                for place, row in self._outbox.after(self._place):
                    record = self._told(place.number, row)
                    wanted = self.sink.wants(record)
                    if wanted and not self._deliver(record):
                        return
                    self._place = place
                    if wanted:
                        self._save()
            except OSError as error:
                self._notify(Notice("delivery-waits", name=self.sink.name, why=reason(error)))
                if not self._pause(DISK_PAUSE):
                    return

    def _deliver(self, record: dict[str, object]) -> bool:
        """Tries until the record is taken or refused for good; False when time is up."""
        facts, tries = {"name": self.sink.name, "address": self.sink.address}, 0
        while (left := self._time_left()) > 0:
            try:
                answer = self.sink.send(record, min(self.sink.timeout, left))
            except Exception as error:  # of a library: the next try may do, and this thread stays
                answer = Answer(why=first_line(error))
            self.problem = None if answer.taken else answer.why
            if answer.taken:
                if tries:
                    self._notify(Notice("delivery-recovered", **facts))
                return True
            if answer.final:
                more = {"image": record.get("image"), "why": answer.why, "file": REFUSED}
                self._notify(Notice("delivery-refused", **facts, **more))
                with (self._outbox.path.parent / REFUSED).open("ab") as file:
                    kept = {"to": self.sink.name, "answer": answer.why, "record": record}
                    append_object(file, kept)
                return True
            if tries == 0:
                self._notify(Notice("delivery-retries", **facts, why=answer.why))
            pause = min(self.sink.pause * 2 ** min(tries, 20), self.sink.longest_pause)
            tries += 1
            if not self._pause(pause):
                break
        return False

    def _time_left(self) -> float:
        return float("inf") if self._deadline is None else self._deadline - time.monotonic()

    def _pause(self, seconds: float) -> bool:
        """Waits before another try, or until `close` is called. False when time is up."""
        if self._deadline is None:
            with self._outbox.changed:
                self._outbox.changed.wait_for(lambda: self._deadline is not None, seconds)
        else:
            time.sleep(max(0.0, min(seconds, self._time_left())))
        return self._time_left() > 0

    def _save(self) -> None:
        if not self._closed and not self.sink.replays:
            self._outbox.save(self.sink.name, self._place)
