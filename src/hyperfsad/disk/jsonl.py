"""JSON Lines: one object a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


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


def encoded(text: str) -> bytes:
    """UTF-8; what of a file's name is no Unicode gets the escape that JSON has for it."""
    return text.encode("utf-8", errors="backslashreplace")
