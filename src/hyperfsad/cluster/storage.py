"""Folders and files wherever fsspec finds them: on this machine, on S3, on the web."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..disk.files import open_regular, write_file
from ..errors import HyperfsadError, UsageError, first_line


def is_local(address: str) -> bool:
    """Whether this is a path of the machine's own file system."""
    from fsspec.utils import get_protocol

    return get_protocol(address) in ("file", "local")


def opened(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    from fsspec.core import url_to_fs

    try:
        found: tuple[Any, str] = url_to_fs(address, use_listings_cache=False)
    except ImportError as error:
        raise UsageError(f"{address} cannot be reached: {first_line(error)}.") from error
    except ValueError as error:
        raise UsageError(f"{address} is of a kind that fsspec does not know.") from error
    return found


def contents(names: Sequence[str]) -> Iterator[bytes | Exception]:
    """The contents of files of one remote file system, fetched side by side; an error for each
    that cannot be had."""
    files, _ = opened(names[0])
    paths = [opened(name)[1] for name in names]
    # cat() would take [, ? and * in names for patterns
    yield from files.cat_ranges(paths, None, None, on_error="return")


def loaded_files(address: str) -> dict[str, bytes]:
    """The content of a file, under no name, or of the files in a folder, by the names in it."""
    files, path = opened(address)
    try:
        if files.isdir(path):
            found = {os.path.relpath(each, path): each for each in files.find(path)}
        else:
            found = {"": path}
        return {name: files.cat_file(each) for name, each in found.items()}
    except FileNotFoundError:
        raise UsageError(f"{address} does not exist.") from None
    except Exception as error:  # each file system raises what it likes
        raise UsageError(f"{address} cannot be read: {first_line(error)}.") from error


class Place:
    """A folder to read from and to write to, by names below it."""

    def __init__(self, address: str) -> None:
        self.local = is_local(address)
        self.files, root = opened(address)
        self.root = root.rstrip("/") or root
        self.address = self.root if self.local else address.rstrip("/")

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none."""
        try:
            if self.local:
                with open_regular(self._path(name)) as file:
                    return file.read()
            content: bytes = self.files.cat_file(self._path(name))
            return content
        except (FileNotFoundError, NotADirectoryError):
            return None
        except Exception as error:  # each file system raises what it likes
            raise HyperfsadError(
                f"{self.address}/{name} cannot be read: {first_line(error)}."
            ) from error

    def write(self, name: str, content: bytes | memoryview) -> None:
        """Writes a file at once or not at all, as object stores do by themselves."""
        if self.local:
            write_file(Path(self._path(name)), content, parents=True)
            return
        try:
            self.files.pipe_file(self._path(name), bytes(content))
        except Exception as error:
            raise HyperfsadError(
                f"Cannot write {self.address}/{name}: {first_line(error)}."
            ) from error

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        if self.local:
            return os.path.isfile(self._path(name))
        return bool(self.files.exists(self._path(name)))

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

    def holds(self, name: str) -> bool:
        """Whether a remote file lies in this folder."""
        return not self.local and name.startswith(f"{self.address}/")

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"
