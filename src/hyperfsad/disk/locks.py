"""One process at a time: locks that the operating system takes back when their holder dies.

`filelock` takes the lock. Its file names the holder, for those who come later, and is removed when
the work is done. A file that a killed process left behind blocks nobody.
"""

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

import filelock

from ..errors import HyperfsadError
from ..messages import Notice, Notify, silent
from .files import explain_os_errors, remove_leftovers

FOLDER_LOCK = ".hyperfsad.lock"
"""In an output folder, while a command writes there."""

LOCK_POLL = 0.2
"""Seconds between two attempts of a process that waits for another to finish its work."""

_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
"""What file systems without locks answer."""


class ProcessLock:
    """Held from `acquire()` to `release()`, or to the end of the process, however it ends."""

    def __init__(self, path: Path, target: Path) -> None:
        """The lock's own file, and the file or folder that it protects."""
        self.path, self._target = path, target
        self._lock = filelock.FileLock(path, thread_local=False, on_acquired=_write_holder)
        self._owner: int | None = None

    def acquire(self, *, wait: bool = False, notify: Notify = silent) -> bool:
        """Takes the lock; False, with a notice, where the file system has no locks.

        If another process holds it, waits until it is free, or raises.
        """
        try:
            with explain_os_errors(self._target):
                try:
                    self._lock.acquire(blocking=False)
                except filelock.Timeout:
                    facts = {"path": self._target, "holder": self._holder()}
                    if not wait:
                        raise HyperfsadError("target-locked", **facts) from None
                    notify(Notice("lock-awaited", **facts))
                    self._lock.acquire(poll_interval=LOCK_POLL)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            notify(Notice("locks-unsupported", folder=self.path.parent))
            return False
        self._owner = os.getpid()
        remove_leftovers(self._target)
        return True

    def _holder(self) -> str:
        with contextlib.suppress(OSError):
            return self.path.read_text(encoding="utf-8", errors="replace").strip() or "unknown"
        return "unknown"

    def release(self) -> None:
        """Removes the lock's file and gives the lock back; in a forked process it does nothing."""
        owner, self._owner = self._owner, None
        if owner != os.getpid():
            return
        with contextlib.suppress(OSError):  # `filelock` notices that the file has gone
            self.path.unlink()
        self._lock.release()

    @contextlib.contextmanager
    def held(self, *, wait: bool = False, notify: Notify = silent) -> Iterator[None]:
        """Holds the lock for a while."""
        self.acquire(wait=wait, notify=notify)
        try:
            yield
        finally:
            self.release()


def _write_holder(file: int) -> None:
    os.ftruncate(file, 0)
    os.write(file, f"{os.getpid()} on {socket.gethostname()}\n".encode())


def folder_lock(folder: Path) -> ProcessLock:
    """The lock of a folder that results are written to."""
    return ProcessLock(folder / FOLDER_LOCK, folder)


@contextlib.contextmanager
def locked_folder(folder: Path, *, wait: bool = False, notify: Notify = silent) -> Iterator[None]:
    """Makes a folder and keeps others out of it; removes it again if it stays empty."""
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with folder_lock(folder).held(wait=wait, notify=notify):
            yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def step_lock(path: Path | None) -> contextlib.AbstractContextManager[object]:
    """A lock for short steps, between threads and, given a path, between processes too.

    Its file stays, since the next step would make it again at once.
    """
    return threading.Lock() if path is None else filelock.FileLock(path, poll_interval=0.002)


_locked: ContextVar[frozenset[Path]] = ContextVar("_locked", default=frozenset())
"""The files that this thread of work has locked already."""


@contextlib.contextmanager
def locked_file(path: Path, *, wait: bool = False, notify: Notify = silent) -> Iterator[None]:
    """Keeps others from changing a file from before it is read until it is written again.

    The file is replaced by another of its name, so the lock is on a neighbour. Within the block,
    the same file may be locked again.
    """
    target = Path(os.path.realpath(path.parent)) / path.name
    if target in _locked.get() or not target.parent.is_dir():  # writing it names that folder
        yield
        return
    lock = ProcessLock(target.with_name(f".{path.name}.lock"), path)
    with lock.held(wait=wait, notify=notify):
        before = _locked.set(_locked.get() | {target})
        try:
            yield
        finally:
            _locked.reset(before)
