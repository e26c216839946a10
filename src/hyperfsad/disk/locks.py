"""One process at a time: a lock that the operating system takes back when its holder dies.

A file that merely exists would outlive a power failure, and its process number may belong to
another program by then. So the lock is the system's own; the file only says who holds it.
"""

import errno
import os
import socket
import sys
from pathlib import Path

from ..errors import HyperfsadError
from .files import explain_os_errors

_PLACE = 1 << 30
"""Windows forbids reading locked bytes, so the lock is on a byte far behind the text."""


class FileLock:
    """Held from `acquire()` to `release()`, or to the end of the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        """Takes the lock; False where the file system has no locks. Raises if another holds it."""
        with explain_os_errors(self.path):
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(file)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                os.close(file)
                return False
            holder = os.read(file, 200).decode("utf-8", errors="replace").strip()
            os.close(file)
            raise HyperfsadError(
                f"Another process ({holder or 'unknown'}) is at work in {self.path.parent};"
                " stop it or choose another output folder."
            ) from error
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()} on {socket.gethostname()}\n".encode())
        self._file = file
        return True

    def release(self) -> None:
        """Gives the lock back; the file stays, since removing it could free another's lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        os.lseek(file, _PLACE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(file, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
