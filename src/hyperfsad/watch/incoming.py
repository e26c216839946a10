"""Which files of a folder are pictures, and which are complete while a camera is writing them.

Folders are scanned again and again, which works on network shares and on every system.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..disk.files import FileStamp, stamp_of
from ..errors import reason
from ..images.reading import has_image_suffix, walk

TEMPORARY_ENDINGS = (".tmp", ".part", ".partial", "~")
"""How names end, before the suffix, while a file is being written; it is renamed afterwards."""


def is_picture(name: str) -> bool:
    """Whether a file of this name is a picture: not hidden, and not still being written."""
    temporary = os.path.splitext(name)[0].lower().endswith(TEMPORARY_ENDINGS)
    return has_image_suffix(name) and not name.startswith((".", "~")) and not temporary


@dataclass
class FolderScan:
    """What one scan of a folder found."""

    files: dict[str, FileStamp] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    """Folders that could not be opened, and why."""


def scan_folder(folder: str, exclude: str) -> FolderScan:
    """All pictures below a folder, except those below the folder `exclude`."""
    scan = FolderScan()

    def refuse(error: OSError) -> None:
        if error.filename == folder or not isinstance(error, FileNotFoundError):
            scan.unreadable[error.filename] = reason(error)

    for parent, name in walk(folder, refuse, exclude):
        path = os.path.join(parent, name)
        # the listing's own stamp may be old on Windows
        if is_picture(name) and (stamp := stamp_of(path)) is not None:
            scan.files[path] = stamp
    return scan


@dataclass
class _Incoming:
    stamp: FileStamp
    arrived: float
    """When the file was first found."""
    unchanged_since: float
    """When it was first found with this stamp."""
    next_try: float


class IncomingFiles:
    """Files that wait: until their writer has finished, or for another try to decode them.

    `now` is our own clock in seconds: those of cameras and file servers may differ.
    """

    def __init__(self, settle: float, patience: float) -> None:
        self.settle, self.patience = settle, patience
        self._files: dict[str, _Incoming] = {}

    def update(self, files: Mapping[str, FileStamp], now: float) -> None:
        """Takes all files that are not done yet; forgets all others."""
        before, self._files = self._files, {}
        for path, stamp in files.items():
            file = before.get(path)
            if file is None or file.stamp != stamp:
                arrived = now if file is None else file.arrived
                file = _Incoming(stamp, arrived, now, now + self.settle)
            self._files[path] = file

    def arrived(self, path: str) -> float:
        """When a file was first found."""
        return self._files[path].arrived

    def ready(self, now: float) -> list[tuple[str, FileStamp]]:
        """Files that have not changed for the settle time, the oldest first."""
        due = [(path, file.stamp) for path, file in self._files.items() if file.next_try <= now]
        return sorted(due, key=lambda item: (item[1][1], item[0]))

    def retry_later(self, path: str, now: float) -> bool:
        """Plans another try to decode a file; False when its time is up."""
        file = self._files[path]
        end = file.unchanged_since + self.patience
        file.next_try = min(now + max(self.settle, (now - file.unchanged_since) / 2), end)
        return now < end

    def still_changing(self, now: float) -> set[str]:
        """Files that never stopped changing, though their time is up."""
        return {
            path
            for path, file in self._files.items()
            if now - file.arrived >= self.patience
            and file.arrived < file.unchanged_since
            and now - file.unchanged_since <= self.settle
        }

    def remove(self, path: str) -> None:
        """The file is done."""
        self._files.pop(path, None)

    def __contains__(self, path: str) -> bool:
        return path in self._files
