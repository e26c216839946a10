"""The journal of a run: finished entries on disk; memory only holds where each of them lies."""

import json
import os
import stat
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any, TypeAlias

from ..disk.files import append_object, atomic_path, explain_os_errors, read_objects

Entry: TypeAlias = dict[str, Any]
"""The stamp of an image's file, its record under "line", and its small pictures.

The key "line" is older than the word record. It stays, so that a journal of an earlier version can
be resumed."""

Stamp: TypeAlias = tuple[int, int]
"""Size and time of change (in nanoseconds): a file with another stamp is another picture."""


class Journal:
    """A JSON Lines file: a header that identifies the run, then an entry for each image."""

    def __init__(self, path: Path, header: Entry) -> None:
        self.path = path
        self._header = header
        self._file: FileIO | None = None
        self._end = 0
        self._places: dict[str, tuple[int, Stamp | None]] = {}
        """Of each image: where its entry begins in the file, and the stamp in it."""

    def start(self, earlier: Path | None, keep: Callable[[Entry], bool]) -> None:
        """Starts a new file with those entries of an earlier journal of the same run to keep."""
        with atomic_path(self.path) as temporary:
            self._file = temporary.open("wb", buffering=0)
            try:
                self._write(self._header)
                entries = read_objects(earlier) if earlier is not None else iter(())
                if next(entries, None) == self._header:
                    for entry in filter(keep, entries):
                        self.add(entry)
            finally:
                self._file.close()
        with explain_os_errors(self.path):
            self._file = self.path.open("ab", buffering=0)  # an entry is there at once

    def add(self, entry: Entry) -> None:
        """Notes that an image is finished."""
        start = self._end
        self._write(entry)
        stamp = entry["stamp"] and tuple(entry["stamp"])
        self._places[entry["line"]["image"]] = (start, stamp)

    def stamp(self, image: str) -> Stamp | None:
        """The stamp of the image's file when it was finished."""
        return self._places[image][1]

    def __contains__(self, image: str) -> bool:
        return image in self._places

    def __len__(self) -> int:
        return len(self._places)

    def entries(self, images: list[str]) -> Iterator[Entry]:
        """The entries of finished images, read one by one."""
        with explain_os_errors(self.path), self.path.open("rb") as file:
            for image in images:
                file.seek(self._places[image][0])
                yield json.loads(file.readline())

    def close(self) -> None:
        """Nothing more will be written."""
        if self._file is not None:
            self._file.close()

    def _write(self, entry: Entry) -> None:
        assert self._file is not None
        with explain_os_errors(self.path):
            self._end += append_object(self._file, entry)


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file; None where there is no file, or it cannot be read."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None
