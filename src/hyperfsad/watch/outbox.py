"""Results for another machine: each record is sent to a web address, in order, until it is taken.

The queue is results.jsonl itself; a small file says up to which byte it is delivered. So nothing
waits in memory, and what is not delivered survives a restart. A record may arrive twice (when the
power fails after its delivery, before that is noted); its key is then the same.
"""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ..disk.files import append_object, atomic_path
from ..errors import HyperfsadError, reason
from ..messages import Notice, Notify, log
from ..report.records import Record
from .webhook import Webhook

DELIVERED = ".webhook.json"
"""The position in results.jsonl up to which all is delivered."""
REFUSED = "webhook-refused.jsonl"
"""Records that the receiver will never take, and its answer."""
LONGEST_PAUSE = 60.0
LAST_DELIVERIES = 5.0
"""Seconds for the last deliveries, at the end."""


class Outbox:
    """Delivers the records of results.jsonl in its own thread."""

    def __init__(self, webhook: Webhook, results: Path, end: int, notify: Notify = log) -> None:
        """`end` is the size of the file so far; `publish` tells when it has grown."""
        self.webhook, self.results = webhook, results
        self._state = results.parent / DELIVERED
        self._end, self._notify = end, notify
        self._changed = threading.Condition()
        """Guards the end of the file and the deadline, so that no record slips between them."""
        self._deadline: float | None = None
        self._closed = False
        self._offset = self._initial_offset()
        self._save()
        self._thread = threading.Thread(target=self._run, name="hyperfsad-webhook", daemon=True)

    def start(self) -> "Outbox":
        """Starts with what earlier runs have left."""
        self._thread.start()
        return self

    def publish(self, end: int) -> None:
        """Records up to this byte are on the disk and may be sent."""
        with self._changed:
            self._end = end
            self._changed.notify_all()

    def pending(self) -> int:
        """How many records are still to be delivered."""
        return sum(self.webhook.wants(record) for _, record in self._records())

    def close(self, grace: float = LAST_DELIVERIES) -> int:
        """Delivers for `grace` seconds at most; returns how many records the next start will send.

        A delivery that still hangs then is abandoned.
        """
        with self._changed:
            self._deadline = time.monotonic() + grace
            self._changed.notify_all()
        self._thread.join(grace)
        self._save()
        self._closed = True
        try:
            return self.pending()
        except OSError:
            return 0

    def _initial_offset(self) -> int:
        """Where the last run stopped; without one, only results from now on are delivered."""
        try:
            offset = json.loads(self._state.read_text(encoding="utf-8"))["offset"]
        except FileNotFoundError:
            return self._end
        except (OSError, ValueError, KeyError, TypeError):
            offset = None
        if type(offset) is int and 0 <= offset <= self._end:
            with self.results.open("rb") as file:
                file.seek(max(0, offset - 1))
                if offset == 0 or file.read(1) == b"\n":  # a record starts there
                    return offset
        self._notify(Notice("webhook-state-unfit", path=self._state, results=self.results))
        return self._end

    def _records(self) -> Iterator[tuple[bytes, Record]]:
        """Records from the offset on, as bytes and decoded."""
        with self.results.open("rb") as file:
            place = file.seek(self._offset)
            while place < self._end:
                row = file.readline()
                if not row:
                    raise OSError(f"{self.results} is shorter than it was")
                place += len(row)
                try:
                    record = json.loads(row)
                except ValueError:
                    record = None
                yield row, record if isinstance(record, dict) else {}

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._offset < self._end or self._deadline is not None
                )
                if self._offset >= self._end:
                    return
            try:
                for row, record in self._records():
                    wanted = self.webhook.wants(record)
                    if wanted and not self._deliver(row, record):
                        return
                    self._offset += len(row)
                    if wanted:
                        self._save()
            except OSError as error:
                self._notify(Notice("webhook-waits", why=reason(error)))
                if not self._pause(LONGEST_PAUSE):
                    return

    def _deliver(self, row: bytes, record: Record) -> bool:
        """Tries until the record is taken or refused for good; False when time is up."""
        text = json.dumps([record.get("image"), record.get("stamp")])
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        host, tries = self.webhook.host, 0
        while (left := self._time_left()) > 0:
            answer = self.webhook.send(row, key, min(self.webhook.timeout, left))
            if answer.taken:
                if tries:
                    self._notify(Notice("webhook-recovered", host=host))
                return True
            if answer.final:
                facts = {"image": record.get("image"), "why": answer.why, "file": REFUSED}
                self._notify(Notice("webhook-refused", host=host, **facts))
                with (self.results.parent / REFUSED).open("ab") as file:
                    append_object(file, {"answer": answer.why, "record": record})
                return True
            if tries == 0:
                self._notify(Notice("webhook-retries", host=host, why=answer.why))
            pause = min(self.webhook.pause * 2 ** min(tries, 20), LONGEST_PAUSE)
            tries += 1
            if not self._pause(pause):
                break
        return False

    def _time_left(self) -> float:
        return float("inf") if self._deadline is None else self._deadline - time.monotonic()

    def _pause(self, seconds: float) -> bool:
        """Waits before another try, or until `close` is called. False when time is up."""
        if self._deadline is None:
            with self._changed:
                self._changed.wait_for(lambda: self._deadline is not None, seconds)
        else:
            time.sleep(max(0.0, min(seconds, self._time_left())))
        return self._time_left() > 0

    def _save(self) -> None:
        """Saves how far deliveries have come; if that fails, records are sent twice, not lost."""
        if self._closed:
            return
        try:
            with atomic_path(self._state) as temporary:
                temporary.write_text(json.dumps({"offset": self._offset}) + "\n", encoding="utf-8")
        except (HyperfsadError, OSError) as error:
            self._notify(Notice("webhook-state-unsaved", why=error))
