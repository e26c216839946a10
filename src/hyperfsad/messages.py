"""How long work speaks to whoever started it: a sentence, or how far it is."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

Notify: TypeAlias = Callable[[str], None]
"""Takes one sentence."""

Progress: TypeAlias = Callable[[Sequence[Any], str], Iterable[Any]]
"""Passes items on, and may show how far it is; the text says what is being done."""


def silent(_: str) -> None:
    """Says nothing."""


def no_progress(items: Sequence[Any], label: str) -> Iterable[Any]:
    """Shows nothing."""
    return items
