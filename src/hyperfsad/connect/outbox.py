"""Numbered records on the disk, and how far each receiver has got.

A record's number is its place in a file of JSON Lines: results.jsonl itself beside a watch, a file
of its own in a station. So nothing waits in memory, and what is not delivered survives a restart. A
record may arrive twice (when the power fails after its delivery, before that is noted), with the
same number.
"""

import json
import os
import threading
import uuid
import zlib
from dataclasses import dataclass
from pathlib import Path

from ..disk.files import append_object, atomic_path, explain_os_errors, read_objects
from ..errors import HyperfsadError
from ..messages import Notice, Notify, log
from ..report.records import Record

PROGRESS = ".connect.json"
"""Beside the records: which sequence of numbers this is, and how far each receiver has got."""
LARGEST = 64 * 10**6
"""Bytes from which on delivered records are removed from a file of our own."""
KEPT = 1000
"""Records that stay there, for receivers that catch up by number."""
AT_ONCE, SKIPPED = 100, 10_000
"""Records that are read together, to be sent and to be passed over."""


@dataclass(frozen=True)
class Place:
    """All up to and with the record of this number."""

    number: int = 0
    offset: int = 0
    """Where the next one begins, counted in all bytes that were ever written."""
    check: int = 0
    """Of the record itself, by which another file of the same name is noticed."""


class Outbox:
    """The records of a file; one process at a time uses it."""

    def __init__(self, path: Path, notify: Notify = log) -> None:
        self.path = path
        self._notify, self._progress = notify, path.parent / PROGRESS
        self.changed = threading.Condition(threading.RLock())
        """Told when there are new records, or somebody waits no longer."""
        self._removed, self._most = 0, LARGEST
        first = next(read_objects(path), {})
        self._oldest = Place(int(first.get("number", 1)) - 1)
        self._newest = self._oldest
        self._places: dict[str, Place] = {}
        self._known: dict[str, list[int]] = {}
        self.origin = uuid.uuid4().hex
        """Names the sequence of numbers; another one begins anew."""
        self._count()
        self._load()

    @property
    def newest(self) -> int:
        """The number of the latest record."""
        return self._newest.number

    def add(self, record: Record) -> int:
        """Appends a record to a file of our own, with its number; it is on the disk then."""
        with self.changed, explain_os_errors(self.path):
            self._make_room()
            number = self.newest + 1
            with self.path.open("ab", buffering=0) as file:
                end = os.fstat(file.fileno()).st_size
                try:
                    append_object(file, {**record, "number": number})
                    os.fsync(file.fileno())
                except BaseException:  # all of the record, or nothing
                    os.ftruncate(file.fileno(), end)
                    raise
            return self.publish()

    def publish(self) -> int:
        """Takes in what was appended to the file; returns the latest number."""
        with self.changed:
            self._count()
            self.changed.notify_all()
            return self.newest

    def after(self, place: Place, most: int = AT_ONCE) -> list[tuple[Place, bytes]]:
        """The records that follow, as bytes, each with its place."""
        found: list[tuple[Place, bytes]] = []
        if place.number >= self.newest:
            return found
        with self.changed, self.path.open("rb") as file:
            file.seek(place.offset - self._removed)
            while place.number < self.newest and len(found) < most:
                row = file.readline()
                if not row:
                    raise OSError(f"{self.path} is shorter than it was")
                place = Place(place.number + 1, place.offset + len(row), zlib.crc32(row))
                found.append((place, row))
        return found

    def back(self, count: int) -> Place:
        """Where the last so many records begin."""
        return self._find(max(self._oldest.number, self.newest - count))

    def begin(self, name: str) -> Place:
        """Where a receiver goes on; one that is new gets only records from now on."""
        with self.changed:
            number, check = self._known.get(name, [self.newest, self._newest.check])
            if number <= self._oldest.number:
                found = self._oldest
            elif number > self.newest or (found := self._find(number)).check != check:
                facts = {"path": self._progress, "results": self.path}
                self._notify(Notice("outbox-state-unfit", **facts))
                self._known, self.origin = {}, uuid.uuid4().hex
                found = self._newest
            self.save(name, found)
            return found

    def save(self, name: str, place: Place) -> None:
        """Notes how far a receiver has got; if that fails, records are sent twice, not lost."""
        with self.changed:
            self._places[name] = place
            self._known[name] = [place.number, place.check]
            text = json.dumps({"origin": self.origin, "places": self._known})
            try:
                with atomic_path(self._progress) as temporary:
                    temporary.write_text(text + "\n", encoding="utf-8")
            except (HyperfsadError, OSError) as error:
                self._notify(Notice("outbox-state-unsaved", why=error))

    def _load(self) -> None:
        try:
            found = json.loads(self._progress.read_text(encoding="utf-8"))
            self.origin = str(found["origin"])
            for name, (number, check) in found["places"].items():
                self._known[name] = [int(number), int(check)]
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            facts = {"path": self._progress, "results": self.path}
            self._notify(Notice("outbox-state-unfit", **facts))

    def _count(self) -> None:
        """Counts the records that are whole."""
        if not self.path.exists():
            return
        place = self._newest
        with self.path.open("rb") as file:
            file.seek(place.offset - self._removed)
            for row in file:
                if row.endswith(b"\n"):
                    place = Place(place.number + 1, place.offset + len(row), zlib.crc32(row))
        self._newest = place

    def _find(self, number: int) -> Place:
        with self.changed:
            if number >= self.newest:
                return self._newest
            place = self._oldest
            while place.number < number:
                place = self.after(place, min(SKIPPED, number - place.number))[-1][0]
            return place

    def _make_room(self) -> None:
        """Removes what all receivers have, and the beginning of a record that was cut off."""
        end = self._newest.offset - self._removed
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < end:
            raise HyperfsadError("watch-results-changed", path=self.path)
        if size > end:
            os.truncate(self.path, end)
        if end < self._most:
            return
        first = min([self.newest - KEPT, *(place.number for place in self._places.values())])
        place = self._find(max(first, self._oldest.number))
        with self.path.open("rb") as file, atomic_path(self.path) as temporary:
            file.seek(place.offset - self._removed)
            temporary.write_bytes(file.read())
        self._oldest, self._removed = place, place.offset
        self._most = max(LARGEST, 2 * (self._newest.offset - self._removed))
