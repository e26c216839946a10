"""Runs a station until it is asked to stop."""

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn

from ..detector.settings import Settings
from ..errors import UsageError, reason
from ..messages import Notice, Notify, log
from .api.app import make_app
from .monitoring import route_warnings, start_logs
from .settings import StationSettings
from .station import Station

HEAD_TIMEOUT = 20.0
"""Seconds within which a request's head has to arrive."""
SEND_TIMEOUT = 30.0
"""Seconds after which a client that reads nothing of its answer is cut off."""
SHUTDOWN_TIMEOUT = 600
"""Seconds that a stop waits for what was accepted."""


def serve(
    settings: StationSettings, *, detector: Settings, wait: bool = False, notify: Notify = log
) -> None:
    """Answers until SIGTERM or Ctrl-C; what was accepted is finished first."""
    tokens = settings.check()
    listening = _socket(settings)
    station = Station(settings, detector)
    start_logs()
    route_warnings()
    try:
        station.open(wait=wait, notify=notify)
        config = uvicorn.Config(
            make_app(station, tokens),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
            h11_max_incomplete_event_size=32_768,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        try:
            config.load()
        except OSError as error:  # also what ssl raises
            raise UsageError("tls-unusable", reason=reason(error)) from error
        Server(config, station, notify).run([listening])
    finally:
        listening.close()
        station.close()


def _socket(settings: StationSettings) -> socket.socket:
    kind = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=kind)
    except OSError as error:
        facts = {"port": settings.port, "host": settings.host, "reason": reason(error).lower()}
        raise UsageError("port-unusable", **facts) from error


class Server(uvicorn.Server):
    """Says where it listens, and ends quietly."""

    def __init__(self, config: uvicorn.Config, station: Station, notify: Notify) -> None:
        super().__init__(config)
        self._station, self._notify = station, notify
        self._idle: dict[Any, tuple[Any, float]] = {}
        self._stuck: dict[Any, tuple[int, float]] = {}

    async def on_tick(self, counter: int) -> bool:
        """Closes connections that send no request: uvicorn waits for a request's head without end,
        so a few thousand incomplete heads would take all places."""
        if counter % 10:  # once a second is enough
            return await super().on_tick(counter)
        now = time.monotonic()
        idle: dict[Any, tuple[Any, float]] = {}
        for line in self.server_state.connections:
            cycle = getattr(line, "cycle", None)
            if cycle is None or cycle.response_complete:
                known, since = self._idle.get(line, (cycle, now))
                idle[line] = cycle, since if known is cycle else now
        self._idle = idle
        for line, (_, since) in idle.items():
            transport = getattr(line, "transport", None)
            if now - since > HEAD_TIMEOUT and transport is not None:
                transport.close()
        self._cut_off(now)
        return await super().on_tick(counter)

    def _cut_off(self, now: float) -> None:
        """Ends lines on which bytes wait and none leaves: uvicorn would wait without end."""
        before, self._stuck = self._stuck, {}
        for line in self.server_state.connections:
            transport = getattr(line, "transport", None)
            if transport is None or not (waiting := transport.get_write_buffer_size()):
                continue
            known, since = before.get(line, (waiting, now))
            since = since if known == waiting else now
            self._stuck[line] = waiting, since
            if now - since > SEND_TIMEOUT:
                transport.abort()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        host, port = sockets[0].getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        scheme = "https" if self._station.settings.secure else "http"
        self._notify(Notice("station-listening", address=f"{scheme}://{shown}:{port}"))

    async def shutdown(self, sockets: Any = None) -> None:
        self._station.ending.set()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM and Ctrl-C end it with the exit code 0: it was asked to."""
        if threading.current_thread() is not threading.main_thread():  # others get no signals
            yield
            return
        kinds = (signal.SIGINT, signal.SIGTERM)
        before = {kind: signal.signal(kind, self.handle_exit) for kind in kinds}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)
