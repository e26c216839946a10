"""results.jsonl of a watch: only ever appended to, and the truth about what is done.

An image is done when its record is on the disk. A record that a power failure cut off is moved
aside at the next start; nothing else is ever rewritten.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from io import FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..disk.files import append_object, atomic_path, check_target, explain_os_errors, read_objects
from ..disk.locks import folder_lock
from ..errors import HyperfsadError, UsageError
from ..messages import Notify, silent
from ..report.exports import Record
from ..report.journal import Stamp

RESULTS = "results.jsonl"
CUT_OFF = "results.cut.jsonl"
"""Where a record goes that was cut off."""
SKIPPED = ".watch.skipped.jsonl"
"""The images that the first start found, where only new ones are wanted."""


class Ledger:
    """Records are added one by one, each complete and on the disk before the next."""

    def __init__(self, folder: Path, notify: Notify = silent, *, wait: bool = False) -> None:
        """`wait` lets another process finish that writes there."""
        self.folder = folder
        self.path = folder / RESULTS
        self.count = 0
        """Records in the file."""
        self.detector: str | None = None
        """The detector of the last record."""
        self.end = 0
        """Size of the file in bytes."""
        self._notify, self._wait = notify, wait
        self._lock = folder_lock(folder)
        self._done = Digests()
        self._file: FileIO | None = None

    def __enter__(self) -> "Ledger":
        """Locks the folder, repairs the file and reads which images are done."""
        with explain_os_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        if not self._lock.acquire(wait=self._wait, notify=self._notify):
            self._notify(
                f"{self.folder} lies on a file system without locks;"
                " make sure that no other process writes there."
            )
        try:
            self._refuse_foreign_results()
            check_target(self.path)
            with explain_os_errors(self.path):
                self._file = self.path.open("ab", buffering=0)
            self._repair()
            self._done = Digests(map(self._counted, read_objects(self.path)))
            self.end = os.path.getsize(self.path)
            _sync_folder(self.folder)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        self._lock.release()

    def is_done(self, image: str, stamp: Stamp) -> bool:
        """Whether this very picture has its record."""
        return _digest(image, stamp) in self._done

    def add(self, record: Record) -> None:
        """Appends a record; when this returns, it is on the disk."""
        assert self._file is not None
        with explain_os_errors(self.path):
            if not self.path.exists() or self.path.stat().st_size != self.end:
                raise HyperfsadError(
                    f"{self.path} was changed by another program while it was written; start again."
                )
            try:
                length = append_object(self._file, record)
                os.fsync(self._file.fileno())
            except BaseException:  # all of the record, or nothing
                os.ftruncate(self._file.fileno(), self.end)
                raise
        self.end += length
        self._done.add(self._counted(record))

    def skip(self, files: Mapping[str, Stamp] | None) -> None:
        """Treats the files of the first start as done: `files`, or None for those noted then."""
        noted = self.folder / SKIPPED
        if files is not None:
            with atomic_path(noted) as temporary, temporary.open("wb") as file:
                for image, stamp in files.items():
                    append_object(file, {"image": image, "stamp": stamp})
        for number in map(_digest_of, read_objects(noted)):
            self._done.add(number)

    @property
    def is_first_start(self) -> bool:
        """Whether nothing was done or skipped before."""
        return self.count == 0 and not (self.folder / SKIPPED).exists()

    def _counted(self, record: Record) -> int:
        """The digest of a record, which is now one of those in the file."""
        self.count += 1
        self.detector = record.get("detector")
        return _digest_of(record)

    def _refuse_foreign_results(self) -> None:
        """`detect` writes other records to a file of this name, and replaces it at its end."""
        first = next(read_objects(self.path), None)
        foreign = first is not None and "stamp" not in first
        if foreign or (self.folder / "results.partial.jsonl").exists():
            raise UsageError(
                f"{self.folder} holds the results of another command;"
                " choose another output folder (-o) for watching."
            )

    def _repair(self) -> None:
        """Completes or moves aside a last record that has no line end."""
        rest = _last_without_end(self.path)
        if not rest:
            return
        with explain_os_errors(self.path), self.path.open("r+b") as file:
            try:
                complete = isinstance(json.loads(rest), dict)
            except ValueError:
                complete = False
            if complete:
                file.seek(0, os.SEEK_END)
                file.write(b"\n")
            else:
                with (self.folder / CUT_OFF).open("ab") as aside:
                    aside.write(rest + b"\n")
                    aside.flush()
                    os.fsync(aside.fileno())
                file.truncate(os.path.getsize(self.path) - len(rest))
                self._notify(
                    f"The last record of {self.path} was cut off; it is now in {CUT_OFF}, and its"
                    " image is judged again."
                )
            file.flush()
            os.fsync(file.fileno())


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


def _digest(image: str, stamp: Stamp) -> int:
    name = os.path.normcase(image).encode("utf-8", errors="surrogatepass")
    text = f"{stamp[0]} {stamp[1]} ".encode() + name
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def _last_without_end(path: Path, step: int = 1 << 16) -> bytes:
    """The bytes after the last line end."""
    rest = b""
    with path.open("rb") as file:
        place = file.seek(0, os.SEEK_END)
        while place > 0 and b"\n" not in rest:
            start = max(0, place - step)
            file.seek(start)
            rest = file.read(place - start) + rest
            place = start
    return rest.rpartition(b"\n")[2]


def _sync_folder(folder: Path) -> None:
    """Puts the name of a new file on the disk, too; not all systems can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
