"""What is reported of the work: logs as JSON on standard error, figures for Prometheus, and
warnings, which belong into the answer to the request that caused them."""

import contextlib
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..errors import HyperfsadWarning
from .refusals import station_text
from .schemas import SourceOut

LOG = logging.getLogger("hyperfsad.serve")
LOG_FIELDS = ("request", "method", "path", "status", "milliseconds", "user", "role", "client")
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


class JsonRows(logging.Formatter):
    """One JSON object a row: text from clients is escaped, so that nobody can forge a row."""

    def format(self, record: logging.LogRecord) -> str:
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


def start_logs() -> None:
    """Everything that is logged goes to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonRows())
    for logger in (LOG, logging.getLogger("uvicorn")):
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)


class Metrics:
    """Of one station; two in one process share nothing."""

    def __init__(
        self, waiting: Callable[[], int], free: Callable[[], int], trashed: Callable[[], int]
    ) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"namespace": "hyperfsad", "registry": self.registry}
        labels = ("method", "route", "status")
        self.requests = Counter("requests", "Requests answered.", labels, **own)
        text = "Seconds until the answer."
        self.seconds = Histogram("request_seconds", text, ("route",), **own)
        self.inspections = Counter("inspections", "Images with a verdict.", ("verdict",), **own)
        self.rejected = Counter("rejected_images", "Uploads that are not a usable picture.", **own)
        Gauge("queue_images", "Places taken in the queue.", **own).set_function(waiting)
        Gauge("disk_free_bytes", "Space on the disk.", **own).set_function(free)
        Gauge("trash_bytes", "Files in the trash.", **own).set_function(trashed)

    def follow(self, cameras: Callable[[], Iterable[SourceOut]]) -> None:
        """Adds the figures of cameras, whatever their number."""
        self.registry.register(CameraFigures(cameras))


class CameraFigures(Collector):
    """What cameras do, asked for at each look."""

    def __init__(self, states: Callable[[], Iterable[SourceOut]]) -> None:
        self._states = states

    def collect(self) -> Iterator[Metric]:
        states, labels = list(self._states()), ("product",)
        shots = CounterMetricFamily(
            "hyperfsad_camera_shots", "Frames to be judged.", labels=(*labels, "outcome")
        )
        running = GaugeMetricFamily("hyperfsad_camera_running", "1 while it sends.", labels=labels)
        losses = CounterMetricFamily("hyperfsad_camera_losses", "Times it went.", labels=labels)
        queue = GaugeMetricFamily("hyperfsad_camera_queue", "Shots that wait.", labels=labels)
        text = "Seconds that the oldest of them has waited."
        oldest = GaugeMetricFamily("hyperfsad_camera_oldest_seconds", text, labels=labels)
        text = "Seconds from trigger to verdict."
        verdict = GaugeMetricFamily(
            "hyperfsad_camera_verdict_seconds", text, labels=(*labels, "quantile")
        )
        for one in states:
            own = [one.product_id]
            for outcome in ("late", "failed", "dropped"):
                shots.add_metric([*own, outcome], getattr(one, outcome))
            shots.add_metric([*own, "judged"], one.judged)
            running.add_metric(own, one.state == "running")
            losses.add_metric(own, one.losses)
            queue.add_metric(own, one.queue)
            oldest.add_metric(own, one.oldest_ms / 1000)
            for share in (50, 95, 99):
                if (seconds := getattr(one, f"p{share}_ms")) is not None:
                    verdict.add_metric([*own, f"0.{share}".rstrip("0")], seconds / 1000)
        yield from (shots, running, losses, queue, oldest, verdict)
