"""The journal of a run: finished entries on disk, and in memory only where each of them lies."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from ..disk.atomic import atomic_path, explain_os_errors
from ..disk.jsonl import encoded, read_objects

Entry = dict[str, Any]


@dataclass(frozen=True)
class _Place:
    start: int
    length: int
    stamp: list[int] | None


class Journal:
    """One JSON object a line: a header that tells runs apart, then an entry for each image."""

    def __init__(self, path: Path, header: Entry) -> None:
        self.path = path
        self._header = header
        self._file: FileIO | None = None
        self._end = 0
        self._places: dict[str, _Place] = {}

    def start(self, earlier: Path | None, wanted: Callable[[Entry], bool]) -> None:
        """Begins with what is wanted of an earlier journal of the same run, and replaces it."""
        with atomic_path(self.path) as temporary:
            self._file = temporary.open("wb", buffering=0)
            try:
                self._write(self._header)
                for entry in self._earlier(earlier):
                    if wanted(entry):
                        self.add(entry)
            finally:
                self._file.close()
        with explain_os_errors(self.path):
            self._file = self.path.open("ab", buffering=0)  # each line is there at once

    def _earlier(self, path: Path | None) -> Iterator[Entry]:
        entries = read_objects(path) if path is not None else iter(())
        if next(entries, None) == self._header:
            yield from entries

    def add(self, entry: Entry) -> None:
        """Notes that an image is finished."""
        start = self._end
        self._write(entry)
        place = _Place(start, self._end - start, entry["stamp"])
        self._places[entry["line"]["image"]] = place

    def stamp(self, image: str) -> list[int] | None:
        """Size and time of the image's file when it was finished."""
        return self._places[image].stamp

    def __contains__(self, image: str) -> bool:
        return image in self._places

    def __len__(self) -> int:
        return len(self._places)

    def entries(self, images: list[str]) -> Iterator[Entry]:
        """The entries of finished images, read one by one."""
        with explain_os_errors(self.path), self.path.open("rb") as file:
            for image in images:
                place = self._places[image]
                file.seek(place.start)
                entry: Entry = json.loads(file.read(place.length))
                yield entry

    def close(self) -> None:
        """Nothing more will be written."""
        if self._file is not None:
            self._file.close()

    def _write(self, entry: Entry) -> None:
        assert self._file is not None
        line = encoded(json.dumps(entry, ensure_ascii=False) + "\n")
        with explain_os_errors(self.path):
            self._file.write(line)
        self._end += len(line)


def stamp(image: str) -> list[int] | None:
    """What changes with an image's file: its size and time; None where there is no file."""
    try:
        status = os.stat(image)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]
