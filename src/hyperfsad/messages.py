"""What work reports while it goes on: notices and progress."""

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


def silent(_: str) -> None:
    """Says nothing."""


def no_progress(items: Sequence[Any], label: str) -> Iterable[Any]:
    """Shows nothing."""
    return items
