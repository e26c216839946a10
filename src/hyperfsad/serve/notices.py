"""Warnings of hyperfsad while a request is worked on: they belong into its answer."""

import contextlib
import logging
import re
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from ..errors import HyperfsadWarning

_OPTIONS = (
    re.compile(r"\s*\(--[^()]*\)"),  # in parentheses
    re.compile(r"(?<=\.)\s+[^.]*\s--[a-z][^.]*\."),  # a further sentence
    re.compile(r":[^.:]*\s--[a-z][^.:]*(?=\.$)"),  # what stands behind a colon
)
_notes: ContextVar[list[str] | None] = ContextVar("_notes", default=None)


def without_options(text: str) -> str:
    """A message without what it says of the command line, which nobody has at the page."""
    for pattern in _OPTIONS:
        text = pattern.sub("", text)
    return text


@contextlib.contextmanager
def gathered() -> Iterator[list[str]]:
    """The warnings that this thread gives within the block."""
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def route_warnings() -> None:
    """From now on warnings go to `gathered`, or to the log."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        notes = _notes.get()
        if notes is not None and issubclass(category, HyperfsadWarning):
            notes.append(without_options(str(message)))
        else:
            logging.getLogger("hyperfsad.serve").warning("%s", message)

    warnings.showwarning = show
    warnings.simplefilter("always", HyperfsadWarning)
