"""Which files of a folder are pictures, and which of them are complete: a camera is writing them.

Folders are looked at again and again, which works on network shares and on every system.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ..errors import reason
from ..images.finding import RUN_FILES, SUFFIXES

Stamp: TypeAlias = tuple[int, int]
"""Size and time of change (in nanoseconds): another stamp is another picture."""

TEMPORARY = (".tmp", ".part", ".partial", "~")
"""How names end, before the suffix, while a file is being written; it is renamed afterwards."""


def is_picture(name: str) -> bool:
    """Whether a file of this name is a picture, and no hidden one."""
    return os.path.splitext(name)[1].lower() in SUFFIXES and not name.startswith(".")


def is_temporary(name: str) -> bool:
    """Whether a picture of this name is still being written."""
    return name.startswith("~") or os.path.splitext(name)[0].lower().endswith(TEMPORARY)


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file; None where there is none, or none that can be asked."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_size, status.st_mtime_ns


@dataclass
class Look:
    """What one look at a folder found."""

    files: dict[str, Stamp] = field(default_factory=dict)
    temporary: list[str] = field(default_factory=list)
    """Pictures under names that they will not keep."""
    closed: dict[str, str] = field(default_factory=dict)
    """Folders that could not be opened, and why."""


def look(folder: str, leave_out: str) -> Look:
    """All pictures below a folder, but for those below the folder `leave_out` (a real path).

    Links to folders are followed once. The heat maps of a run are no pictures of parts.
    """
    found = Look()
    seen = {leave_out}
    waiting = [(folder, os.path.realpath(folder))]
    while waiting:
        parent, real = waiting.pop()
        if real in seen:
            continue
        seen.add(real)
        try:
            with os.scandir(parent) as listing:
                entries = list(listing)
        except OSError as error:
            if parent == folder or not isinstance(error, FileNotFoundError):
                found.closed[parent] = reason(error)
            continue
        ours = not RUN_FILES.isdisjoint(entry.name for entry in entries)
        for entry in entries:
            if entry.name.startswith(".") or (ours and entry.name == "heatmaps"):
                continue
            if _is_folder(entry):
                link = entry.is_symlink()
                below = os.path.realpath(entry.path) if link else os.path.join(real, entry.name)
                waiting.append((entry.path, below))
            elif not is_picture(entry.name):
                continue
            elif is_temporary(entry.name):
                found.temporary.append(entry.path)
            else:
                stamp = stamp_of(entry.path)  # that of the listing may be old on Windows
                if stamp is not None:
                    found.files[entry.path] = stamp
    return found


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


@dataclass
class _Waiting:
    stamp: Stamp
    first: float
    """When the file was first seen."""
    since: float
    """When it was first seen with this stamp."""
    due: float
    """When it is to be tried."""


class Arrivals:
    """Files that wait: for their writer to finish, and for another try where they do not decode.

    `now` is a clock of our own in seconds: those of cameras and file servers may differ.
    """

    def __init__(self, settle: float, patience: float) -> None:
        self.settle, self.patience = settle, patience
        self._waiting: dict[str, _Waiting] = {}

    def update(self, files: Mapping[str, Stamp], now: float) -> None:
        """Takes note of all files that are not done yet; others are forgotten."""
        waiting = {}
        for path, stamp in files.items():
            before = self._waiting.get(path)
            if before is None:
                before = _Waiting(stamp, now, now, now + self.settle)
            elif before.stamp != stamp:
                before = _Waiting(stamp, before.first, now, now + self.settle)
            waiting[path] = before
        self._waiting = waiting

    def ready(self, now: float) -> list[tuple[str, Stamp]]:
        """Files that have not changed for the settle time, the oldest first."""
        due = [(path, file.stamp) for path, file in self._waiting.items() if file.due <= now]
        return sorted(due, key=lambda item: (item[1][1], item[0]))

    def undecodable(self, path: str, now: float) -> bool:
        """The file did not decode: whether it is to be given up; if not, it is tried later."""
        file = self._waiting[path]
        end = file.since + self.patience
        if now >= end:
            return True
        file.due = min(now + max(self.settle, (now - file.since) / 2), end)
        return False

    def restless(self, now: float, seconds: float) -> list[str]:
        """Files that have been here for so long and are still changing."""

        def changes(file: _Waiting) -> bool:
            return file.first < file.since and now - file.since <= self.settle

        files = self._waiting.items()
        return [path for path, f in files if now - f.first >= seconds and changes(f)]

    def remove(self, path: str) -> None:
        """The file is done."""
        self._waiting.pop(path, None)

    def knows(self, path: str, stamp: Stamp) -> bool:
        """Whether the file waits as it is."""
        file = self._waiting.get(path)
        return file is not None and file.stamp == stamp

    def __contains__(self, path: str) -> bool:
        return path in self._waiting
