"""The station: its store, its engine, and what both can do together."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from ..detector.settings import Settings
from ..messages import Notify, silent
from .engine import StationEngine
from .folders import InspectionDesk, WatchedFolder
from .inspections import Inspections
from .labels import Labels
from .monitoring import LOG, Metrics
from .products import Products
from .refusals import BusyError
from .settings import StationSettings
from .store.store import Actor, Store, audit

TIDY_EVERY = 600.0
"""Seconds between two removals of what need not be kept."""
MAX_READERS = 200


class LiveFeed:
    """Wakes readers that follow verdicts as they come; they read what is new from the store.

    Nothing waits in memory, so a slow reader costs nothing, and one that was away reads on.
    """

    def __init__(self) -> None:
        self.closed = False
        self._lock = threading.Lock()
        self._readers: dict[object, Callable[[], object]] = {}

    def check_room(self) -> None:
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

    def wake(self) -> None:
        """There is something new in the store; called by any thread."""
        with self._lock:
            readers = list(self._readers.values())
        for wake in readers:
            wake()

    def close(self) -> None:
        """Lets all readers end."""
        self.closed = True
        self.wake()


class Station:
    """Opened before the first request, closed after the last one."""

    def __init__(self, settings: StationSettings, detector: Settings) -> None:
        """`detector` are the settings of new products, and of the machine for all."""
        detector.check("station")
        self.settings = settings
        self.store = Store(
            settings.store.absolute(),
            settings.database,
            keep=settings.keep,
            reserve=settings.reserve,
        )
        self.engine = StationEngine(detector, max_queue=settings.max_queue)
        self.live = LiveFeed()
        self.metrics = Metrics(lambda: self.engine.waiting, lambda: self.store.files.free)
        self.products = Products(self.store)
        self.inspections = Inspections(self.store, self._publish, originals=settings.originals)
        self.labels = Labels(self.store, self.products, self.inspections)
        desk = InspectionDesk(self.engine, self.products, self.inspections, settings.limits)
        self.folders = [WatchedFolder(desk, product, folder) for product, folder in settings.watch]
        self._ending = threading.Event()
        self._tidier = threading.Thread(target=self._tidy, name="hyperfsad-tidy", daemon=True)

    def open(self, *, wait: bool = False, notify: Notify = silent) -> "Station":
        """Opens the store and starts to load the encoder."""
        self.store.open(wait=wait, notify=notify)
        self.engine.start()
        self._tidier.start()
        for folder in self.folders:
            folder.start()
        return self

    def close(self) -> None:
        """Finishes what was accepted, then closes the store."""
        self._ending.set()
        self.live.close()
        for folder in self.folders:
            folder.stop()
        if self._tidier.ident is not None:  # where the store could not be opened, nothing runs
            self.engine.stop()
            self._tidier.join()
        self.store.close()

    def _publish(self, verdict: str) -> None:
        self.metrics.inspections.labels(verdict).inc()
        self.live.wake()

    def _tidy(self) -> None:
        first = True
        while first or not self._ending.wait(TIDY_EVERY):
            try:
                if not first:
                    self.store.sweep()
                if removed := self.store.expire():
                    LOG.info("retention removed %d originals", removed)
                    with self.store.database.writing() as session:
                        detail = f"{removed} images"
                        audit(session, Actor("station"), "originals removed", "", detail)
            except Exception:  # a full disk or a database that is away must not end it
                LOG.exception("the store could not be tidied")
            first = False
