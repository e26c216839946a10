"""Who follows the verdicts as they come: so many of all, of one role and of one client."""

import threading
from collections import Counter
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ..refusals import BusyError

MAX_READERS, MAX_OF_ROLE, MAX_OF_CLIENT = 200, 150, 50


class Readers:
    """The places of a station."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[tuple[str, str]] = Counter()

    @property
    def count(self) -> int:
        return self._taken.total()

    def enter(self, role: str, client: str) -> None:
        """Takes a place, or refuses."""
        with self._lock:
            of_role = sum(count for (other, _), count in self._taken.items() if other == role)
            of_client = sum(count for (_, other), count in self._taken.items() if other == client)
            for limit, count in (
                (MAX_READERS, self._taken.total()),
                (MAX_OF_ROLE, of_role),
                (MAX_OF_CLIENT, of_client),
            ):
                if count >= limit:
                    raise BusyError("live-full", limit=limit, retry_after=30)
            self._taken[role, client] += 1

    def leave(self, role: str, client: str) -> None:
        with self._lock:
            self._taken[role, client] -= 1
            self._taken += Counter()  # forgets those without a place


class LiveResponse(StreamingResponse):
    """A stream that gives its place back when it ends, also where it never began."""

    def __init__(self, content: Any, readers: Readers, role: str, client: str) -> None:
        super().__init__(content, media_type="text/event-stream")
        self.headers["x-accel-buffering"] = "no"
        self._readers, self._place = readers, (role, client)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._readers.leave(*self._place)
