"""Results for another machine: each line is sent to a web address, in order, until it is taken.

The queue is results.jsonl itself, and a small file with the place up to which all is delivered. So
nothing waits in memory, and what is not delivered survives a restart. A line may arrive twice (when
the power fails between its delivery and the note of it); its key is then the same.
"""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..disk.atomic import atomic_path
from ..disk.jsonl import encoded
from ..errors import HyperfsadError, reason
from ..messages import Notify, silent
from .webhook import Webhook

STATE = ".webhook.json"
REFUSED = "webhook-refused.jsonl"
"""Lines that the other side will never take, and its answer."""
LONGEST_PAUSE = 60.0
GRACE = 5.0
"""Seconds that are left for deliveries at the end."""
SAVE_EVERY = 10.0
"""Seconds between notes of lines that need no delivery."""


class Courier:
    """Delivers the lines of results.jsonl in a thread of its own."""

    def __init__(
        self,
        webhook: Webhook,
        results: Path,
        end: int,
        notify: Notify = silent,
        grace: float = GRACE,
    ) -> None:
        """`end` says up to where the file is on the disk; see `deliver_to`."""
        self.webhook, self.results = webhook, results
        self._state = results.parent / STATE
        self._end, self._notify, self._grace = end, notify, grace
        self._changed = threading.Event()
        self._deadline: float | None = None
        self._saved: int | None = None
        self._saved_at = 0.0
        self._closed = False
        self._offset = self._begin()
        self._save()
        self._thread = threading.Thread(target=self._run, name="hyperfsad-webhook", daemon=True)

    def start(self) -> "Courier":
        """Begins with what earlier runs have left."""
        left = self.waiting()
        if left:
            self._notify(f"{left} earlier result{'s' * (left > 1)} for the webhook.")
        self._thread.start()
        return self

    def deliver_to(self, end: int) -> None:
        """Lines up to this byte are on the disk and may be sent."""
        self._end = end
        self._changed.set()

    def waiting(self) -> int:
        """How many lines are still to be delivered."""
        return sum(self.webhook.wants(line) for _, line in self._rows())

    def close(self, grace: float | None = None) -> int:
        """Goes on for a few seconds at most; returns how many lines are left for the next start."""
        grace = self._grace if grace is None else grace
        self._deadline = time.monotonic() + grace
        self._changed.set()
        self._thread.join(grace)
        self._save()
        self._closed = True  # whatever still hangs says no more
        try:
            return self.waiting()
        except OSError:
            return 0

    def _begin(self) -> int:
        """The place from the last run; without one, results from now on are delivered."""
        try:
            offset = json.loads(self._state.read_text(encoding="utf-8"))["offset"]
        except FileNotFoundError:
            return self._end
        except (OSError, ValueError, KeyError, TypeError):
            offset = None
        if type(offset) is int and 0 <= offset <= self._end and self._is_start(offset):
            return offset
        self._notify(f"{self._state} does not fit {self.results}; earlier results are not sent.")
        return self._end

    def _is_start(self, offset: int) -> bool:
        with self.results.open("rb") as file:
            file.seek(max(0, offset - 1))
            return offset == 0 or file.read(1) == b"\n"

    def _rows(self) -> Iterator[tuple[bytes, dict[str, Any]]]:
        """Lines on the disk from the offset on, as they are and as they are read."""
        with self.results.open("rb") as file:
            place = file.seek(self._offset)
            while place < self._end:
                row = file.readline()
                if not row:
                    raise OSError(f"{self.results} is shorter than it was")
                place += len(row)
                try:
                    line = json.loads(row)
                except ValueError:
                    line = None
                yield row, line if isinstance(line, dict) else {}

    def _run(self) -> None:
        while True:
            ending = self._deadline is not None  # if not yet, lines may come while these are read
            try:
                for row, line in self._rows():
                    wanted = self.webhook.wants(line)
                    if wanted and not self._deliver(row, line):
                        return
                    self._offset += len(row)
                    if wanted or time.monotonic() - self._saved_at > SAVE_EVERY:
                        self._save()
            except OSError as error:
                self._notify(f"The webhook waits: {reason(error)}.")
                if self._rest(LONGEST_PAUSE):
                    return
                continue
            if ending:
                return
            if self._deadline is None:
                self._changed.wait()
                self._changed.clear()

    def _deliver(self, row: bytes, line: dict[str, Any]) -> bool:
        """Tries until the line is taken or refused for good; False at the end of the grace."""
        key = _key(line)
        tries = 0
        while True:
            left = self._left()
            if left <= 0:
                return False
            answer = self.webhook.send(row, key, min(self.webhook.timeout, left))
            if answer.taken:
                if tries:
                    self._notify(f"The webhook at {self.webhook.place} takes results again.")
                return True
            if answer.final:
                self._note_refusal(line, answer.text)
                return True
            if tries == 0:
                self._notify(
                    f"The webhook at {self.webhook.place} did not take a result ({answer.text});"
                    " it is tried again until it does."
                )
            pause = min(self.webhook.pause * 2 ** min(tries, 20), LONGEST_PAUSE)
            tries += 1
            if self._rest(pause):
                return False

    def _left(self) -> float:
        return float("inf") if self._deadline is None else self._deadline - time.monotonic()

    def _rest(self, seconds: float) -> bool:
        """Waits, but when the end has come only as long as it may; whether time is up."""
        until = time.monotonic() + seconds
        ending = self._deadline is not None
        while (left := min(until - time.monotonic(), self._left())) > 0:
            if self._changed.wait(left):
                self._changed.clear()  # a new line, which waits its turn, or the end
            if not ending and self._deadline is not None:
                break  # one more try at once
        return self._left() <= 0

    def _note_refusal(self, line: dict[str, Any], text: str) -> None:
        self._notify(
            f"The webhook at {self.webhook.place} refused the result of {line.get('image')}"
            f" ({text}); it is not sent again but noted in {REFUSED}."
        )
        note = encoded(json.dumps({"answer": text, "line": line}, ensure_ascii=False) + "\n")
        with (self.results.parent / REFUSED).open("ab") as file:
            file.write(note)

    def _save(self) -> None:
        """Notes how far deliveries have come; where that fails, lines are sent twice, not lost."""
        self._saved_at = time.monotonic()
        if self._closed or self._saved == self._offset:
            return
        try:
            with atomic_path(self._state) as temporary:
                temporary.write_text(json.dumps({"offset": self._offset}) + "\n", encoding="utf-8")
            self._saved = self._offset
        except (HyperfsadError, OSError) as error:
            self._notify(f"The state of the webhook cannot be kept: {error}")


def _key(line: dict[str, Any]) -> str:
    text = json.dumps([line.get("image"), line.get("stamp")])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
