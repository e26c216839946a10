"""Figures for Prometheus."""

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE

__all__ = ["CONTENT_TYPE", "Metrics"]


class Metrics:
    """Of one station; nothing is shared between two in one process."""

    def __init__(self, waiting: Callable[[], int], free: Callable[[], int]) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "hyperfsad_requests",
            "Requests that were answered.",
            ("method", "route", "status"),
            registry=registry,
        )
        self.seconds = Histogram(
            "hyperfsad_request_seconds", "Time until the answer.", ("route",), registry=registry
        )
        self.inspections = Counter(
            "hyperfsad_inspections", "Images with a verdict.", ("verdict",), registry=registry
        )
        self.rejected = Counter(
            "hyperfsad_rejected_images", "Uploads that are no usable picture.", registry=registry
        )
        line = Gauge("hyperfsad_queue_images", "Places in the line.", registry=registry)
        line.set_function(waiting)
        disk = Gauge("hyperfsad_disk_free_bytes", "Space on the disk.", registry=registry)
        disk.set_function(free)

    def judged(self, verdicts: Sequence[str]) -> None:
        """Counts verdicts, whoever asked for them."""
        for verdict in verdicts:
            self.inspections.labels(verdict).inc()

    def text(self) -> bytes:
        """All of them, as Prometheus reads it."""
        return generate_latest(self._registry)
