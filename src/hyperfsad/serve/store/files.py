"""The files of a store: originals and detectors, under the hash of their content.

No name comes from a client. A file goes to its place before the row that names it is committed,
and is removed after the row that named it is gone: what a crash leaves behind is a file without a
row, never a row without a file. A file without a row is not deleted: it goes to the trash of its
day, below the path that it had.
"""

import contextlib
import json
import os
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import filelock

from ...disk.files import explain_os_errors, file_sha256, sync_folder, write_file
from ..refusals import FullError

NEW_FILE_GRACE = 600.0
"""Seconds for which a new file is left alone: the row that names it may be on its way."""
UPLOAD_GRACE = 86_400.0
"""Seconds for which an upload is left alone: it may wait in the queue."""
MOVING = ".moving.lock"
"""Between two processes: a file must not be removed as old the moment it has come again."""

IDENTITY_FILE = "store.json"

_STORED = re.compile(r"[0-9a-f]{64}(\.[a-z0-9]{1,8})")
_UPLOAD = re.compile(r"[0-9a-f]{32}\.part|\.[0-9a-f]{32}\.part\.lock")
"""Also the lock of a detector file that was being written."""


class Files:
    """Where everything lies below the store's folder."""

    def __init__(self, folder: Path, reserve: int, *, shared: bool = False) -> None:
        """Keeps `reserve` bytes of the disk free; several processes use a `shared` folder."""
        self.folder, self.reserve = folder, reserve
        self.incoming = folder / "incoming"
        self.images = folder / "images"
        self.detectors = folder / "detectors"
        self.trash = folder / "trash"
        self.watched = folder / "watched"
        """What was done of each folder that is watched."""
        self.connected = folder / "connect"
        """What machines were told, and how far each has heard it."""
        # the lock's file stays: the next step would make it again at once
        self._moving: contextlib.AbstractContextManager[Any] = (
            filelock.FileLock(folder / MOVING, poll_interval=0.002) if shared else threading.Lock()
        )

    def prepare(self) -> None:
        own = (self.incoming, self.images, self.detectors, self.trash, self.watched, self.connected)
        for folder in own:
            folder.mkdir(mode=0o700, exist_ok=True)

    @property
    def identity(self) -> str | None:
        """The id of the store that the folder belongs to; empty where its file is lost."""
        try:
            return str(json.loads((self.folder / IDENTITY_FILE).read_bytes())["store"])
        except (OSError, ValueError, LookupError, TypeError):
            return "" if any(self._stored()) else None

    def identify(self, store: str) -> None:
        content = json.dumps({"store": store}).encode()
        write_file(self.folder / IDENTITY_FILE, content, private=True)

    def upload(self) -> Path:
        return self.incoming / f"{uuid.uuid4().hex}.part"

    def image(self, sha256: str, suffix: str) -> Path:
        return self.images / sha256[:2] / f"{sha256}{suffix}"

    def detector(self, sha256: str) -> Path:
        return self.detectors / f"{sha256}.hfsad"

    def keep(self, finished: Path, target: Path) -> None:
        """Moves a file to its place; it is on the disk when this returns."""
        os.utime(finished)  # it may have waited in the queue for longer than a new file is spared
        with explain_os_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with finished.open("rb+") as written:
                os.fsync(written.fileno())
            with self._moving:  # not while the disk writes
                finished.replace(target)
            sync_folder(target.parent)

    def keep_detector(self, finished: Path) -> str:
        """Moves a detector file to its place; returns its hash."""
        found = file_sha256(finished)
        self.keep(finished, self.detector(found))
        return found

    def spare(self, detector: str) -> None:
        """Leaves a detector file that was just replaced to those who wait for it."""
        with contextlib.suppress(OSError):
            os.utime(self.detector(detector))

    def check_space(self, wanted: int = 0) -> None:
        """Refuses before the disk is full, so that nothing is lost when it is."""
        if self.free < self.reserve + wanted:
            raise FullError("disk-nearly-full", free=self.free, reserve=self.reserve)

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.folder).free

    @property
    def trashed(self) -> int:
        """Bytes in the trash."""
        found = 0
        for path in _files(self.trash):
            with contextlib.suppress(FileNotFoundError):  # it may be emptied this moment
                found += path.stat().st_size
        return found

    def remove(self, path: Path, grace: float = NEW_FILE_GRACE, *, trash: bool = False) -> None:
        """Removes a file that no row names, unless it is new: then it may be named any moment."""
        with self._moving, contextlib.suppress(OSError):
            # without grace, not even a file from the future stays: the clock may have gone back
            if grace and time.time() - path.stat().st_mtime < grace:
                return
            if not trash:
                path.unlink()
                return
            target = self.trash / date.today().isoformat() / path.relative_to(self.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)

    def sweep(self, named: Callable[[str], bool], grace: float = NEW_FILE_GRACE) -> None:
        """Removes uploads that were never finished; files whose hash no row names go to the
        trash."""
        for path in _files(self.incoming):
            if _UPLOAD.fullmatch(path.name):
                self.remove(path, UPLOAD_GRACE if grace else 0.0)
        for path in self._stored():
            if not named(path.stem):
                self.remove(path, grace, trash=True)

    def _stored(self) -> Iterator[Path]:
        """All originals and detectors."""
        found = (path for folder in (self.detectors, self.images) for path in _files(folder))
        return (path for path in found if _STORED.fullmatch(path.name))


def _files(folder: Path) -> Iterator[Path]:
    return (Path(place, name) for place, _, names in os.walk(folder) for name in names)
