"""What both servers of a line share: a thread with its loop, which comes back after a failure."""

import asyncio
import ipaddress
import itertools
import logging
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from ...errors import HyperfsadError, reason
from ...report.records import Record

HELD = 1000
"""Records that can be read by their number."""
RETRY = 5.0
"""Seconds after which a server is started again that could not be."""
STARTING = "it is starting"
_LIBRARIES = ("asyncua", "pymodbus")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def shown_address(scheme: str, host: str, port: int) -> str:
    """An address as it is written."""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def check_open(host: str, port: int, timeout: float, address: str) -> None:
    """Raises what is wrong with a place where somebody should listen."""
    try:
        socket.create_connection((host, port), timeout).close()
    except OSError as error:
        raise HyperfsadError("connect-silent", address=address, why=reason(error)) from error


class Latest:
    """The records that can be read by their number; threads may add while others read."""

    def __init__(self, most: int = HELD) -> None:
        self._most, self._records = most, OrderedDict[int, Record]()
        self._lock = threading.Lock()

    def add(self, record: Record) -> None:
        with self._lock:
            self._records[int(record["number"])] = record
            while len(self._records) > self._most:
                self._records.popitem(last=False)

    def get(self, number: int) -> Record | None:
        return self._records.get(number)

    @property
    def oldest(self) -> int:
        """Its number; 0 without any."""
        with self._lock:
            return next(iter(self._records), 0)

    def after(self, number: int, most: int) -> list[Record]:
        """The first that follow a number."""
        with self._lock:
            later = (record for known, record in self._records.items() if known > number)
            return list(itertools.islice(later, max(0, most)))


class ServerThread:
    """Runs one server until it is stopped."""

    def __init__(
        self,
        name: str,
        place: tuple[str, int],
        serving: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        """`serving` is entered where the server can listen at its place."""
        self.problem: str | None = STARTING
        self._place, self._serving = place, serving
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"hyperfsad-{name}", daemon=True)

    def start(self) -> None:
        """Soon it listens, or `problem` says why it cannot."""
        for library in _LIBRARIES:  # they tell of each client, with its user
            logging.getLogger(library).setLevel(logging.CRITICAL)
        self._thread.start()

    def stop(self) -> None:
        """Closes all connections."""
        self._stopping.set()
        self.call(self._ending.set)
        if self._thread.ident is not None:
            self._thread.join(RETRY)

    def call(self, work: Callable[..., Any], *values: Any) -> None:
        """Runs something in the server's own thread, soon, in the order of the calls."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(work, *values)
            except RuntimeError:  # it has ended
                return

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            try:
                _check_free(self._place)
                async with self._serving():
                    self.problem = None
                    await self._ending.wait()
            except Exception as error:  # of any of the libraries; it must not end the others
                self.problem = reason(error)
                try:
                    await asyncio.wait_for(self._ending.wait(), RETRY)
                except TimeoutError:
                    continue
                except asyncio.TimeoutError:
                    continue


def _check_free(place: tuple[str, int]) -> None:
    """The libraries do not say why they cannot listen."""
    kind = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
    socket.create_server(place, family=kind).close()
