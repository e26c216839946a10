"""Writing so that nothing is ever half there: to a temporary name, then renamed; JSON Lines."""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias

from ..errors import HyperfsadError
from ..wording.disk import WRITE_PROBLEMS

FileStamp: TypeAlias = tuple[int, int]
"""Size and time of change (in nanoseconds): a file with another stamp has another content."""

_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")
"""The names that `atomic_path` gives."""


@contextlib.contextmanager
def atomic_path(target: Path, *, parents: bool = False) -> Iterator[Path]:
    """A temporary path beside `target`; renamed over it on success, removed on any failure.

    Only a regular file is replaced. `parents` makes the folders above it, for places in a folder
    of ours. A full disk or a forbidden folder becomes an error of ours.
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
            temporary.chmod(0o666 & ~_umask())
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def remove_leftovers(target: Path) -> None:
    """Removes the temporary files of killed processes: beside a file, or everywhere in a folder.

    Only the holder of the lock may call this.
    """
    inside = target.is_dir()
    start = "." if inside else f".{target.name[:60]}."
    for folder, below, names in os.walk(target if inside else target.parent):
        for name in names:
            if name.startswith(start) and _TEMPORARY.fullmatch(name):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))
        if not inside:
            below.clear()


def write_file(target: Path, content: bytes | memoryview, *, parents: bool = False) -> None:
    """Writes a file at once or not at all.

    Libraries that are given a path may take a full disk for a success: Pillow ignores that the
    system wrote a part only. So they write into memory, and this writes all of it or fails.
    """
    with atomic_path(target, parents=parents) as temporary, temporary.open("wb") as file:
        file.write(content)


def settle(
    finished: Path, target: Path, moving: contextlib.AbstractContextManager[Any] | None = None
) -> None:
    """Moves a finished file to its place on the same disk; both survive a power failure after it.

    It replaces a file of that name. `moving` is held for the move alone, not while the disk
    writes.
    """
    with explain_os_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with finished.open("rb+") as written:
            os.fsync(written.fileno())
        with moving or contextlib.nullcontext():
            finished.replace(target)
        sync_folder(target.parent)


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
            tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
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
    kinds: dict[str, Callable[[int], bool]] = {
        "a folder": stat.S_ISDIR,
        "a link": stat.S_ISLNK,
        "a named pipe": stat.S_ISFIFO,
        "a socket": stat.S_ISSOCK,
    }
    return next((name for name, is_one in kinds.items() if is_one(mode)), "a device")


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
