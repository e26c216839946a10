"""One process at a time: a lock that the operating system takes back when its holder dies.

A file that merely exists would outlive a power failure, and its process number may belong to
another program by then. So the lock is the system's own; the file only says who holds it, and goes
when the work is done. What a killed process leaves behind is in nobody's way.

`filelock`, which comes with torch, waits or refuses as well; but it does not say who holds a lock,
and leaves its files lying about.
"""

import contextlib
import errno
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from ..errors import HyperfsadError
from ..messages import Notify, silent
from .files import explain_os_errors, remove_leftovers

FOLDER_LOCK = ".hyperfsad.lock"
"""In an output folder, while a command writes there."""

_PLACE = 1 << 30
"""Windows forbids reading locked bytes, so the lock is on a byte far behind the text."""

_SOON = 0.002
"""The same for those who wait for a moment only."""

_AGAIN = 0.2
"""Seconds until a waiting process asks again; so that Ctrl-C works everywhere."""


class FileLock:
    """Held from `acquire()` to `release()`, or to the end of the process, however it ends."""

    def __init__(self, path: Path, what: Path, doing: str, advice: str) -> None:
        """The file of the lock; what it protects, and for those who come too late, what its holder
        is doing and what they can do."""
        self.path = path
        self._what, self._doing, self._advice = what, doing, advice
        self._file: int | None = None
        self._owner = 0

    def acquire(self, *, wait: bool = False, notify: Notify = silent) -> bool:
        """Takes the lock; False where the file system has no locks.

        If another has it, waits until it is free, or raises.
        """
        told = False
        while True:
            with explain_os_errors(self._what):
                file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _lock(file)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                    os.close(file)
                    return False
                holder = os.read(file, 200).decode("utf-8", errors="replace").strip()
                os.close(file)
                busy = f"Another process ({holder or 'unknown'}) is {self._doing}"
                if not wait:
                    raise HyperfsadError(f"{busy}; {self._advice}, or wait with --wait.") from error
                if not told:
                    notify(f"{busy}; waiting until it is done.")
                    told = True
                time.sleep(_AGAIN)
                continue
            if _is_at(file, self.path):
                break
            os.close(file)  # its holder has just removed it
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()} on {socket.gethostname()}\n".encode())
        self._file, self._owner = file, os.getpid()
        remove_leftovers(self._what)
        return True

    def release(self) -> None:
        """Gives the lock back and removes its file; one that waits for it notices that."""
        if self._file is None:
            return
        file, self._file = self._file, None
        if self._owner != os.getpid():  # a forked copy, while the lock is its parent's
            os.close(file)
            return
        with contextlib.suppress(OSError):  # Windows removes no open file, so it is tried again
            self.path.unlink()
        _unlock(file)
        os.close(file)
        if sys.platform == "win32":
            with contextlib.suppress(OSError):
                self.path.unlink()

    @contextlib.contextmanager
    def held(self, *, wait: bool = False, notify: Notify = silent) -> Iterator[None]:
        """Holds the lock for a while."""
        if not self.acquire(wait=wait, notify=notify):
            notify(
                f"{self.path.parent} lies on a file system without locks;"
                " make sure that no other process writes there."
            )
        try:
            yield
        finally:
            self.release()


def folder_lock(folder: Path) -> FileLock:
    """Of a folder that results are written to."""
    advice = "stop it or choose another output folder"
    return FileLock(folder / FOLDER_LOCK, folder, f"at work in {folder}", advice)


@contextlib.contextmanager
def occupied(folder: Path, *, wait: bool = False, notify: Notify = silent) -> Iterator[None]:
    """Makes a folder and keeps others out of it; it goes again if nothing was put there."""
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with folder_lock(folder).held(wait=wait, notify=notify):
            yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


class Turns:
    """For steps of a moment that threads, and processes on one folder, take one after the other.

    Its file stays, since it would be made again at once.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Without a path, only this process's threads take turns."""
        self._path, self._threads = path, threading.Lock()

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            self._file = None if self._path is None else _waited_for(self._path)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            if self._file is not None:
                os.close(self._file)  # which gives the lock back
        finally:
            self._threads.release()


def _waited_for(path: Path) -> int:
    """A file that is open and locked; not locked where the file system has no locks."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    while True:
        try:
            _lock(file)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                time.sleep(_SOON)
                continue
        except BaseException:
            os.close(file)
            raise
        return file


_changing: ContextVar[frozenset[Path]] = ContextVar("_changing", default=frozenset())
"""The files that this thread of work has locked already."""


@contextlib.contextmanager
def changing(path: Path, *, wait: bool = False, notify: Notify = silent) -> Iterator[None]:
    """Keeps others from changing a file from before it is read until it is written again.

    The file is replaced by another of its name, so the lock is on a neighbour. Within, the same
    file may be locked again.
    """
    target = Path(os.path.realpath(path.parent)) / path.name
    if target in _changing.get() or not target.parent.is_dir():  # then writing it says so
        yield
        return
    advice = "try again when it is done, or write to another file"
    lock = FileLock(target.with_name(f".{path.name}.lock"), path, f"changing {path}", advice)
    with lock.held(wait=wait, notify=notify):
        before = _changing.set(_changing.get() | {target})
        try:
            yield
        finally:
            _changing.reset(before)


def _is_at(file: int, path: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        os.lseek(file, _PLACE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(file, 0, os.SEEK_SET)

    def _unlock(file: int) -> None:
        os.lseek(file, _PLACE, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)  # also where a forked process still has the file open
