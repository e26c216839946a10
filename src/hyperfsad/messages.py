"""What work reports while it goes on: notices, progress, and text that is safe to print."""

import json
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from .wording import Worded, worded


class Notice(Worded, str):
    """Something to report while work goes on: a sentence that keeps its code and facts."""

    def __new__(cls, code: str, /, **facts: Any) -> "Notice":
        made = super().__new__(cls, worded(code, facts))
        made.code, made.facts = code, facts
        return made


Notify: TypeAlias = Callable[[str], None]
"""Takes one sentence, mostly a `Notice`."""

Progress: TypeAlias = Callable[[Sequence[Any], str], Iterable[Any]]
"""Passes items on, and may show how far it is; the text says what is being done."""


_CONTROL = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's classes of characters that steer a terminal, turn the direction of text or end rows."""

_JOINERS = "\u200c\u200d"
"""Invisible as well, but harmless, and part of words in some scripts and of emoji."""


def visible(text: str) -> str:
    """Text for one row of a terminal: a file's name must not move the cursor or forge a row.

    Control characters become what JSON writes for them, so that JSON stays the same.
    """
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def as_rows(rows: Iterable[str]) -> str:
    """Several rows for a terminal; no name in them can add a row."""
    return "\n".join(map(visible, rows))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _CONTROL or character in _JOINERS:
        return character
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def count(number: int, what: str) -> str:
    """A number of things, as in "1 image" or "2 images"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def silent(_: str) -> None:
    """Says nothing."""


def no_progress(items: Sequence[Any], label: str) -> Iterable[Any]:
    """Shows nothing."""
    return items
