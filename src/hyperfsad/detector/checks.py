"""What the settings of a detector may be; all else is refused where it is given, not far later.

Ranges are checked where a setting is used; here it is only whether it is of the right kind.
"""

import numbers
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..errors import UsageError, brief


def _text(value: Any) -> str:
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError
    return text


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError
    return value if isinstance(value, int) else float(value)


def _wholes(value: Iterable[Any]) -> tuple[int, ...]:
    return tuple(map(_whole, value))


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _function(value: Any) -> Any:
    if not callable(value):
        raise TypeError
    return value


Kind = tuple[str, Callable[[Any], Any]]
TEXT: Kind = ("a text", _text)
WHOLE: Kind = ("a whole number", _whole)
NUMBER: Kind = ("a number", _number)
WHOLES: Kind = ("several whole numbers such as [3, 6, 9]", _wholes)
FLAG: Kind = ("True or False", _flag)
FUNCTION: Kind = ("a function", _function)

KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        ("backbone", "recipe", "lookup", "pooling", "memory", "device", "engine"), TEXT
    ),
    **dict.fromkeys(("resolution", "batch_size"), WHOLE),
    **dict.fromkeys(("lam", "sharpness", "missing", "budget"), NUMBER),
    "layers": WHOLES,
    **dict.fromkeys(("smooth", "last_norm"), FLAG),
    "notify": FUNCTION,
}
"""What each setting is, in words, and what makes sure of it."""

REQUIRED = ("recipe", "device", "engine", "notify")
"""None stands for the usual value of all others."""


def checked(name: str, value: Any) -> Any:
    """A setting as its kind, or a refusal that says what was expected and what came."""
    if value is None and name not in REQUIRED:
        return None
    expected, convert = KINDS[name]
    try:
        return convert(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} is {expected}, not {brief(value)}.") from None


def file_path(path: Any) -> Path:
    """The path of a detector file."""
    try:
        return Path(_text(path))
    except (TypeError, ValueError):
        raise UsageError(f"A detector file is a path, not {brief(path)}.") from None
