"""Warnings and notices of hyperfsad while a request is worked on: they belong into its answer."""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from ..errors import HyperfsadWarning
from .refusals import station_text

LOG = logging.getLogger("hyperfsad.serve")
_notes: ContextVar[list[str] | None] = ContextVar("_notes", default=None)


@contextlib.contextmanager
def gathered() -> Iterator[list[str]]:
    """The warnings that this thread gives within the block, and whatever else is added."""
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
        if notes is not None and isinstance(message, HyperfsadWarning):
            notes.append(station_text(message.args[0]))
        else:
            LOG.warning("%s", message)

    warnings.showwarning = show
    warnings.simplefilter("always", HyperfsadWarning)
