"""Runs a station until it is told to stop."""

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import uvicorn

from ..messages import Notify, silent
from .api.app import make_app
from .api.logs import start_logs
from .notices import route_warnings
from .settings import Settings
from .station import Station

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
    start_logs()
    route_warnings()
    station = Station(settings, detector, machine).open(wait=wait, notify=notify)
    try:
        config = uvicorn.Config(
            make_app(station, tokens),
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE,
            h11_max_incomplete_event_size=32_768,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        server = _Server(config, settings, notify)
        server.run()
    finally:
        station.close()


class _Server(uvicorn.Server):
    """Says where it listens, and ends quietly."""

    def __init__(self, config: uvicorn.Config, settings: Settings, notify: Notify) -> None:
        super().__init__(config)
        self._settings, self._notify = settings, notify

    async def startup(self, sockets: Any = None) -> None:
        """Opens the port."""
        await super().startup(sockets)
        for one in self.servers:
            for socket in one.sockets:
                host, port = socket.getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                kind = "https" if self._settings.secure else "http"
                self._notify(
                    f"The station listens on {kind}://{shown}:{port} (process {os.getpid()});"
                    " Ctrl-C ends it."
                )
                return

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM and Ctrl-C end it with the exit code 0: it was asked to."""
        kinds = (signal.SIGINT, signal.SIGTERM)
        before = {kind: signal.signal(kind, self.handle_exit) for kind in kinds}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)
