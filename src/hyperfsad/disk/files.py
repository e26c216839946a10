"""Bytes on disk: files that appear whole or not at all, locks between processes, JSON Lines.

The operating system takes a lock back when its holder dies. `filelock` takes it; its file names the
holder for those who come later, and is removed when the work is done. A file that a killed process
left behind blocks nobody.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, TypeAlias

import filelock

from ..errors import HyperfsadError
from ..messages import Notice, Notify, log
from ..wording.disk import WRITE_PROBLEMS

FileStamp: TypeAlias = tuple[int, int]
"""Size and time of change (in nanoseconds): a file with another stamp has another content."""

_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")
"""The names that `atomic_path` and `atomic_folder` give."""


@contextlib.contextmanager
def atomic_path(target: Path, *, parents: bool = False, private: bool = False) -> Iterator[Path]:
    """A temporary path beside `target`; renamed over it on success, removed on any failure.

    Only a regular file is replaced. `parents` makes the folders above it, for places in a folder
    of ours; a `private` file only its owner can read. A full disk or a forbidden folder becomes an
    error of ours.
    """
    with explain_os_errors(target):
        if parents:
            target.parent.mkdir(parents=True, exist_ok=True)
        check_target(target)
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name[:60]}.", suffix=".tmp"
        )
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o600 if private else 0o666 & ~_umask())
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def remove_leftovers(target: Path) -> None:
    """Removes what killed processes had not finished: beside a file, or everywhere in a folder.

    Only the holder of the lock may call this.
    """
    inside = target.is_dir()
    start = "." if inside else f".{target.name[:60]}."
    for folder, below, names in os.walk(target if inside else target.parent):
        for name in [*names, *below]:
            if name.startswith(start) and _TEMPORARY.fullmatch(name):
                with contextlib.suppress(OSError):
                    path = Path(folder, name)
                    shutil.rmtree(path) if name in below else path.unlink()
        if not inside:
            below.clear()


def write_file(
    target: Path, content: bytes | memoryview, *, parents: bool = False, private: bool = False
) -> None:
    """Writes a file at once or not at all.

    Libraries that are given a path may take a full disk for a success: Pillow ignores that the
    system wrote a part only. So they write into memory, and this writes all of it or fails.
    """
    with atomic_path(target, parents=parents, private=private) as temporary:
        temporary.write_bytes(content)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder survive a power failure, where the system can do that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_target(target: Path) -> None:
    """Refuses a place where no file can be written, or that is not a file."""
    with explain_os_errors(target):
        try:
            mode = os.lstat(target).st_mode
        except FileNotFoundError:
            if not target.parent.is_dir():
                raise HyperfsadError(
                    "write-folder-missing", path=target, folder=target.parent
                ) from None
            return
        except ValueError as error:  # a null character
            raise HyperfsadError(
                "write-name-invalid", path=str(target), reason=str(error)
            ) from error
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise HyperfsadError("write-not-a-file", path=target, kind=_kind(mode))


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target`, renamed to it on success and removed on any failure.

    When another process has put a folder there in the meantime, that one stays.
    """
    with explain_os_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(
            tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name[:60]}.", suffix=".tmp")
        )
        try:
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            try:
                temporary.rename(target)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Opens a file for reading; refuses anything else, such as a pipe, without waiting for it."""
    _require_regular(os.stat(path).st_mode)  # before opening, which alone may move a device
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    file = os.fdopen(os.open(path, flags), "rb")
    try:
        _require_regular(os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def file_sha256(path: Path) -> str:
    """The sha256 of a file's content."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _require_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {_kind(mode)}, not a file")


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")


@contextlib.contextmanager
def explain_os_errors(target: Path) -> Iterator[None]:
    """Turns the operating system's refusals to write `target` into an error of ours."""
    try:
        yield
    except OSError as error:
        if error.errno not in WRITE_PROBLEMS:
            raise
        raise HyperfsadError("write-failed", path=target, error=error.errno) from error


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def stamp_of(path: str | os.PathLike[str]) -> FileStamp | None:
    """The stamp of a file; None if it does not exist or cannot be read."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def read_objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file; other rows, such as one that was cut off, are skipped."""
    try:
        with open_regular(path) as file:
            for row in file:
                try:
                    value = json.loads(row.decode("utf-8", errors="replace"))
                except ValueError:
                    continue
                if isinstance(value, dict):
                    yield value
    except OSError:
        return


def append_object(file: IO[bytes], value: Mapping[str, Any]) -> int:
    """Writes an object as one line to an open file; returns the number of bytes."""
    row = encoded(json.dumps(value, ensure_ascii=False) + "\n")
    written = 0
    while written < len(row):  # an unbuffered file on a nearly full disk takes a part of it
        written += file.write(row[written:])
    return len(row)


def encoded(text: str) -> bytes:
    """UTF-8; bytes of a file's name that are not Unicode become JSON's escape for them."""
    return text.encode("utf-8", errors="backslashreplace")


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

    def acquire(self, *, wait: bool = False, notify: Notify = log) -> bool:
        """Takes the lock; False, with a notice, where the file system has no locks.

        If another process holds it, waits until it is free, or raises.
        """
        holder = ""
        try:
            with explain_os_errors(self._target):
                try:
                    self._lock.acquire(blocking=False)
                except filelock.Timeout:
                    with contextlib.suppress(OSError):
                        holder = self.path.read_text(encoding="utf-8", errors="replace").strip()
                    facts = {"path": self._target, "holder": holder or "unknown"}
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

    def release(self) -> None:
        """Removes the lock's file and gives the lock back; in a forked process it does nothing."""
        owner, self._owner = self._owner, None
        if owner != os.getpid():
            return
        with contextlib.suppress(OSError):  # `filelock` notices that the file has gone
            self.path.unlink()
        self._lock.release()

    @contextlib.contextmanager
    def held(self, *, wait: bool = False, notify: Notify = log) -> Iterator[None]:
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
def locked_folder(folder: Path, *, wait: bool = False, notify: Notify = log) -> Iterator[None]:
    """Makes a folder and keeps others out of it; removes it again if it stays empty."""
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with folder_lock(folder).held(wait=wait, notify=notify):
            yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


_locked: ContextVar[frozenset[Path]] = ContextVar("_locked", default=frozenset())
"""The files that this thread of work has locked already."""


@contextlib.contextmanager
def locked_file(path: Path, *, wait: bool = False, notify: Notify = log) -> Iterator[None]:
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
