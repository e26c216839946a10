"""results.jsonl of a watch: only ever appended to, and the truth about what is done.

An image is done when its record is on the disk. A record that a power failure cut off is moved
aside at the next start; nothing else is ever rewritten.
"""

import contextlib
import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from io import FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..disk.files import (
    FileStamp,
    append_object,
    atomic_path,
    check_target,
    explain_os_errors,
    locked_folder,
    read_objects,
    sync_folder,
)
from ..errors import HyperfsadError, UsageError
from ..messages import Notice, Notify, log
from ..report.records import Record

WATCH_RESULTS = "results.jsonl"
CUT_OFF = "results.cut.jsonl"
"""Where a record goes that was cut off."""
SKIPPED = ".watch.skipped.jsonl"
"""The images that the first start found, where only new ones are wanted."""


class Ledger:
    """Records are added one by one, each complete and on the disk before the next."""

    def __init__(
        self,
        folder: Path,
        notify: Notify = log,
        *,
        wait: bool = False,
        saw: Callable[[Record], None] | None = None,
    ) -> None:
        """`wait` lets another process finish that writes there; `saw` gets each record that is in
        the file, in their order."""
        self.folder, self.path = folder, folder / WATCH_RESULTS
        self.count = 0
        """Records in the file."""
        self.end = 0
        """Size of the file in bytes."""
        self._notify, self._wait, self._saw = notify, wait, saw
        self._open = contextlib.ExitStack()
        self._done = Digests()
        self._file: FileIO

    def __enter__(self) -> "Ledger":
        """Locks the folder, repairs the file and reads which images are done."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(locked_folder(self.folder, wait=self._wait, notify=self._notify))
            self._refuse_foreign_results()
            check_target(self.path)
            with explain_os_errors(self.path):
                self._file = stack.enter_context(self.path.open("ab", buffering=0))
            self._repair()
            self._done = Digests(map(self._counted, read_objects(self.path)))
            self.end = os.path.getsize(self.path)
            with contextlib.suppress(OSError):  # not every file system can
                sync_folder(self.folder)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def is_done(self, image: str, stamp: FileStamp) -> bool:
        """Whether this very picture has its record."""
        return _digest(image, stamp) in self._done

    def add(self, record: Record) -> None:
        """Appends a record; when this returns, it is on the disk."""
        with explain_os_errors(self.path):
            if not self.path.exists() or self.path.stat().st_size != self.end:
                raise HyperfsadError("watch-results-changed", path=self.path)
            try:
                length = append_object(self._file, record)
                os.fsync(self._file.fileno())
            except BaseException:  # all of the record, or nothing
                os.ftruncate(self._file.fileno(), self.end)
                raise
        self.end += length
        self._done.add(self._counted(record))

    def skip(self, files: Mapping[str, FileStamp]) -> None:
        """Treats what the very first start finds as done; at later starts, what it found then."""
        skipped = self.folder / SKIPPED
        if self.count == 0 and not skipped.exists():
            with atomic_path(skipped) as temporary, temporary.open("wb") as file:
                for image, stamp in files.items():
                    append_object(file, {"image": image, "stamp": stamp})
        for digest in map(_digest_of, read_objects(skipped)):
            self._done.add(digest)

    def _counted(self, record: Record) -> int:
        """The digest of a record, which is now one of those in the file."""
        self.count += 1
        if self._saw is not None:
            self._saw(record)
        return _digest_of(record)

    def _refuse_foreign_results(self) -> None:
        """`detect` writes other records to a file of this name, and replaces it at its end."""
        first = next(read_objects(self.path), None)
        foreign = first is not None and "stamp" not in first
        if foreign or (self.folder / "results.partial.jsonl").exists():
            raise UsageError("watch-results-foreign", folder=self.folder)

    def _repair(self) -> None:
        """Completes or moves aside a last record that has no line end."""
        with self.path.open("rb") as file:
            rest = b"".join(deque(file, maxlen=1))
        if not rest or rest.endswith(b"\n"):
            return
        try:
            complete = isinstance(json.loads(rest), dict)
        except ValueError:
            complete = False
        with explain_os_errors(self.path):
            if complete:
                self._file.write(b"\n")
            else:
                with (self.folder / CUT_OFF).open("ab") as aside:
                    aside.write(rest + b"\n")
                    aside.flush()
                    os.fsync(aside.fileno())
                self._file.truncate(os.path.getsize(self.path) - len(rest))
                self._notify(Notice("watch-record-cut-off", path=self.path, file=CUT_OFF))
            os.fsync(self._file.fileno())


class Digests:
    """A set of 64-bit numbers in 8 bytes each: an image every second for a month takes 20 MB.

    Files that are gone are not forgotten: they come back when a network share has dropped.
    """

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._sorted: NDArray[np.uint64] = np.unique(np.fromiter(numbers, dtype=np.uint64))
        self._latest: set[int] = set()

    def add(self, number: int) -> None:
        """Adds a number."""
        self._latest.add(number)
        if len(self._latest) >= 4096:
            self._sorted = np.union1d(self._sorted, np.fromiter(self._latest, dtype=np.uint64))
            self._latest.clear()

    def __contains__(self, number: int) -> bool:
        if number in self._latest:
            return True
        place = int(np.searchsorted(self._sorted, np.uint64(number)))
        return place < len(self._sorted) and int(self._sorted[place]) == number


def _digest_of(record: Record) -> int:
    """The digest of a record's picture; 0 stands for none, where the record is not ours."""
    try:
        size, time = record["stamp"]
        return _digest(record["image"], (int(size), int(time)))
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0


def _digest(image: str, stamp: FileStamp) -> int:
    name = os.path.normcase(image).encode("utf-8", errors="surrogatepass")
    text = f"{stamp[0]} {stamp[1]} ".encode() + name
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
