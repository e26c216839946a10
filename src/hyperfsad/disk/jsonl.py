"""JSON Lines: one object a line."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any


def read_objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file; what is none, as a last line cut off, is passed over."""
    try:
        with path.open("rb") as file:
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
    """UTF-8; what of a file's name is no Unicode gets the escape that JSON has for it."""
    return text.encode("utf-8", errors="backslashreplace")
