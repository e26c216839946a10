"""Logs as one JSON object a row on standard error, and figures for Prometheus."""

import json
import logging
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from ..notices import LOG

LOG_FIELDS = ("request", "method", "path", "status", "milliseconds", "role", "client")


class JsonRows(logging.Formatter):
    """Text from clients is escaped, so that nobody can forge a row."""

    def format(self, record: logging.LogRecord) -> str:
        """One row."""
        time = datetime.fromtimestamp(record.created, timezone.utc)
        row: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        row |= {name: getattr(record, name) for name in LOG_FIELDS if hasattr(record, name)}
        if record.exc_info:
            row["trace"] = self.formatException(record.exc_info)
        return json.dumps(row)


def start_logs(level: int = logging.INFO) -> None:
    """Everything that is logged goes to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonRows())
    for logger in (LOG, logging.getLogger("uvicorn")):
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


class Metrics:
    """Of one station; nothing is shared between two in one process."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, waiting: Callable[[], int], free: Callable[[], int]) -> None:
        own: dict[str, Any] = {"registry": CollectorRegistry()}
        self._registry = own["registry"]
        labels = ("method", "route", "status")
        self.requests = Counter("hyperfsad_requests", "Requests answered.", labels, **own)
        text = "Seconds until the answer."
        self.seconds = Histogram("hyperfsad_request_seconds", text, ("route",), **own)
        text = "Images with a verdict."
        self.inspections = Counter("hyperfsad_inspections", text, ("verdict",), **own)
        text = "Uploads that are not a usable picture."
        self.rejected = Counter("hyperfsad_rejected_images", text, **own)
        Gauge("hyperfsad_queue_images", "Places taken in the queue.", **own).set_function(waiting)
        Gauge("hyperfsad_disk_free_bytes", "Space on the disk.", **own).set_function(free)

    def count(self, verdicts: Sequence[str]) -> None:
        """Counts verdicts, wherever they were asked for."""
        for verdict in verdicts:
            self.inspections.labels(verdict).inc()

    def text(self) -> bytes:
        """All of them, as Prometheus reads it."""
        return generate_latest(self._registry)
