"""Runs a station until it is told to stop."""

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn

from ..errors import UsageError, reason
from ..messages import Notify, silent
from .api.app import make_app
from .api.logs import start_logs
from .notices import route_warnings
from .settings import Settings
from .station import Station

HEAD = 20.0
"""Seconds within which a request's head has to be there."""
GRACE = 600
"""Seconds that a stop waits for what was accepted."""


def serve(
    settings: Settings,
    *,
    detector: dict[str, Any],
    machine: dict[str, Any],
    wait: bool = False,
    notify: Notify = silent,
) -> None:
    """Answers until SIGTERM or Ctrl-C; what was accepted is finished first.

    `detector` and `machine` as in `Station`.
    """
    tokens = settings.check()
    listening = _socket(settings)
    station = Station(settings, detector, machine)
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
            timeout_graceful_shutdown=GRACE,
            h11_max_incomplete_event_size=32_768,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        try:
            config.load()
        except OSError as error:  # also what ssl raises
            raise UsageError(f"TLS cannot be used: {reason(error)}.") from error
        Server(config, station, notify).run([listening])
    finally:
        listening.close()
        station.close()


def _socket(settings: Settings) -> socket.socket:
    """The port, opened before anything else is done."""
    kind = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=kind)
    except OSError as error:
        raise UsageError(
            f"Port {settings.port} on {settings.host} cannot be opened:"
            f" {reason(error).lower()}; choose another one with --port and --host."
        ) from error


class Server(uvicorn.Server):
    """Says where it listens, and ends quietly."""

    def __init__(self, config: uvicorn.Config, station: Station, notify: Notify) -> None:
        super().__init__(config)
        self._station, self._notify = station, notify
        self._silent: dict[Any, tuple[Any, float]] = {}

    async def on_tick(self, counter: int) -> bool:
        """What uvicorn does ten times a second."""
        if counter % 10 == 0:
            self._close_silent()
        return await super().on_tick(counter)

    def _close_silent(self) -> None:
        """Closes connections that are there without asking: uvicorn waits for a request's head
        without end, so a few thousand half heads would take all places."""
        now = time.monotonic()
        silent: dict[Any, tuple[Any, float]] = {}
        for line in self.server_state.connections:
            cycle = getattr(line, "cycle", None)
            if cycle is None or cycle.response_complete:
                known, since = self._silent.get(line, (cycle, now))
                silent[line] = cycle, since if known is cycle else now
        self._silent = silent
        for line, (_, since) in silent.items():
            transport = getattr(line, "transport", None)
            if now - since > HEAD and transport is not None:
                transport.close()

    async def startup(self, sockets: Any = None) -> None:
        """Opens the port."""
        await super().startup(sockets)
        host, port = sockets[0].getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        kind = "https" if self._station.settings.secure else "http"
        self._notify(f"The station listens on {kind}://{shown}:{port} (Ctrl-C ends it).")

    async def shutdown(self, sockets: Any = None) -> None:
        """Waits for all requests; who follows verdicts would never end by themselves."""
        self._station.live.close()
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
