"""Folders and files wherever fsspec finds them: on this machine, on S3, on the web."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..disk.files import write_file
from ..errors import HyperfsadError, UsageError, first_line


def is_local(address: str) -> bool:
    """Whether this is a path of the machine's own file system."""
    from fsspec.utils import get_protocol

    return get_protocol(address) in ("file", "local")


def open_storage(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    from fsspec.core import url_to_fs

    try:
        found: tuple[Any, str] = url_to_fs(address, use_listings_cache=False)
    except ImportError as error:
        raise UsageError("storage-unreachable", address=address, why=first_line(error)) from error
    except ValueError as error:
        raise UsageError("storage-unknown", address=address) from error
    return found


def fetch_files(addresses: Sequence[str]) -> list[bytes | Exception]:
    """The contents of files of one remote file system, fetched side by side; an error for each
    that cannot be had."""
    try:
        files, _ = open_storage(addresses[0])
        paths = [open_storage(address)[1] for address in addresses]
        # cat() would take [, ? and * in names for patterns
        return list(files.cat_ranges(paths, None, None, on_error="return"))
    except Exception as error:  # no such bucket, no such file system
        return [error] * len(addresses)


def read_files(address: str) -> dict[str, bytes]:
    """The content of a file, under no name, or of the files in a folder, by the names in it."""
    files, path = open_storage(address)
    try:
        if files.isdir(path):
            found = {os.path.relpath(each, path): each for each in files.find(path)}
        else:
            found = {"": path}
        return {name: files.cat_file(each) for name, each in found.items()}
    except FileNotFoundError:
        raise UsageError("storage-missing", address=address) from None
    except Exception as error:  # each file system raises what it likes
        raise UsageError("storage-unreadable", address=address, why=first_line(error)) from error


class StorageFolder:
    """A folder to read from and to write to, by names below it."""

    def __init__(self, address: str) -> None:
        self.local = is_local(address)
        self.files, root = open_storage(address)
        self.root = root.rstrip("/") or root
        self.address = self.root if self.local else address.rstrip("/")

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none."""
        try:
            content: bytes = self.files.cat_file(self._path(name))
            return content
        except (FileNotFoundError, NotADirectoryError):
            return None
        except Exception as error:  # each file system raises what it likes
            raise self._refused("storage-unreadable", name, error) from error

    def write(self, name: str, content: bytes | memoryview) -> None:
        """Writes a file at once or not at all, as object stores do by themselves."""
        if self.local:
            write_file(Path(self._path(name)), content, parents=True)
            return
        try:
            self.files.pipe_file(self._path(name), bytes(content))
        except Exception as error:
            raise self._refused("storage-unwritable", name, error) from error

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        return bool(self.files.isfile(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """The names in a folder below it; none where there is no such folder."""
        try:
            found = self.files.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        return [f"{folder}/{name}" for path in found if (name := os.path.basename(path))]

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        if self.exists(name):
            self.files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _refused(self, code: str, name: str, error: Exception) -> HyperfsadError:
        return HyperfsadError(code, address=f"{self.address}/{name}", why=first_line(error))
