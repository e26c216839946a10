"""One budget of memory for all pictures that the station decodes, whoever asks for them."""

import contextlib
import ctypes
import os
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from ..images.loading import draft, opened_picture
from .refusals import BusyError

BYTES = 10**9
"""For all at once. One that takes more is decoded alone."""
PATIENCE, MAX_WAITING = 30.0, 16
"""Seconds that a request waits for memory, and how many may; each of them holds a thread."""
COSTS = {"RGB": 8}
"""Bytes a pixel, measured: a picture of 10,000 pixels squared takes 400 MB, twice when turned."""
COST, DEEP_COST, DRAWING_COST = 12, 24, 16
"""Of the other modes of 8 bits, of those of more, and of drawing upon the picture."""
MMAP_THRESHOLD = -3
"""The name of malloc's option from which size on memory goes back to the system when freed."""


class MemoryBudget:
    """Gives memory to those who ask, in their order."""

    def __init__(self) -> None:
        self._free, self._line = BYTES, deque[object]()
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        return len(self._line)

    @contextlib.contextmanager
    def taken(self, count: int, patience: float | None) -> Iterator[None]:
        """Holds so many bytes during the block; without `patience` it waits as long as it takes."""
        wanted, ticket = min(count, BYTES), object()
        with self._changed:
            if patience is not None and len(self._line) >= MAX_WAITING:
                raise BusyError("memory-busy", retry_after=5)
            self._line.append(ticket)
            try:
                there = self._changed.wait_for(
                    lambda: self._line[0] is ticket and self._free >= wanted, patience
                )
            finally:
                self._line.remove(ticket)
                self._changed.notify_all()
            if not there:
                raise BusyError("memory-busy", retry_after=5)
            self._free -= wanted
        try:
            yield
        finally:
            with self._changed:
                self._free += wanted
                self._changed.notify_all()


DECODING = MemoryBudget()
with contextlib.suppress(AttributeError, OSError, TypeError):  # glibc only
    # otherwise it keeps freed pictures for the thread that decoded them, each its own
    ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 20)


@contextlib.contextmanager
def room_for(
    path: Path, name: str, *, drawn: int | None = None, patience: float | None = PATIENCE
) -> Iterator[None]:
    """Memory to decode a picture, by what its header says; `drawn` pixels at most, to look at."""
    with opened_picture(os.fspath(path), name) as image:
        if drawn is not None:
            draft(image, drawn)
        deep = image.mode.startswith(("I", "F"))
        count = image.width * image.height * COSTS.get(image.mode, DEEP_COST if deep else COST)
        count += DRAWING_COST * min(image.width * image.height, drawn or 0)
    with DECODING.taken(count, patience):
        yield
