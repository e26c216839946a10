"""Readers that follow verdicts as they come: they are woken, and read what is new from the store.

Nothing waits in memory, so a slow reader costs nothing, and one that was away reads on.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from .refusals import BusyError

MAX_READERS = 200


class LiveFeed:
    """Tells readers that there is something new, and that the station stops."""

    def __init__(self) -> None:
        self.closed = False
        self.count: Callable[[Sequence[str]], object] = len
        """Called with all verdicts, for the metrics."""
        self._lock = Lock()
        self._readers: dict[object, Callable[[], object]] = {}

    def publish(self, verdicts: Sequence[str]) -> None:
        """There are new verdicts in the store; called by any thread."""
        self.count(verdicts)
        self._wake()

    def check_room(self) -> None:
        """Refuses when there are too many readers."""
        if len(self._readers) >= MAX_READERS:
            raise BusyError("live-full", limit=MAX_READERS, retry_after=30)

    @contextlib.contextmanager
    def following(self, wake: Callable[[], object]) -> Iterator[None]:
        """Calls `wake`, which must not wait, whenever there is something new."""
        self.check_room()
        key = object()
        with self._lock:
            self._readers[key] = wake
        try:
            yield
        finally:
            with self._lock:
                del self._readers[key]

    def close(self) -> None:
        """Lets all readers end."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            readers = list(self._readers.values())
        for wake in readers:
            wake()
