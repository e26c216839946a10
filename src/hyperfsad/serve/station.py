"""The station: its store, its engine, and what both can do together."""

import threading

from ..detector.settings import Settings
from ..messages import Notify, log
from .adapting import Adapting
from .cameras import Cameras
from .configuring import Configuring
from .engine import StationEngine
from .folders import InspectionDesk, WatchedFolder
from .inspections import Inspections
from .labels import Labels
from .machines import Machines
from .monitoring import LOG, Metrics
from .products import Products
from .settings import StationSettings
from .store.audit import Actor, audit
from .store.retention import DAY
from .store.store import Store
from .users import Users

TIDY_EVERY = 600.0
"""Seconds between two removals of what need not be kept."""


class Station:
    """Opened before the first request, closed after the last one."""

    def __init__(self, settings: StationSettings, detector: Settings) -> None:
        """`detector` are the settings of new products, and of the machine for all."""
        self.settings = settings
        self.store = Store(
            settings.store.absolute(),
            settings.database,
            keep=settings.keep,
            reserve=settings.reserve,
            insist=settings.new_store,
            trust_clock=settings.trust_clock,
        )
        self.users = Users(self.store.database)
        self.engine = StationEngine(detector, max_queue=settings.max_queue)
        files = self.store.files
        self.metrics = Metrics(
            lambda: self.engine.waiting, lambda: files.free, lambda: files.trashed
        )
        self.products = Products(self.store)
        self.configuring = Configuring(self.store, self.products)
        self.adapting = Adapting(self.store, self.products, self.engine)
        self.machines = Machines(settings.connect, self.store, self.engine)
        self.inspections = Inspections(
            self.store, self.metrics.inspections, self.adapting.consider, self.machines
        )
        self.labels = Labels(self.store, self.products, self.inspections)
        desk = InspectionDesk(self.engine, self.products, self.inspections, settings.limits)
        self.folders = [WatchedFolder(desk, product, folder) for product, folder in settings.watch]
        self.cameras = Cameras(desk, self.store.folder / "cameras")
        self.metrics.follow(self.cameras.states)
        self.ending = threading.Event()
        """Set when the station is about to stop: live readers would never end by themselves."""
        self._tidier = threading.Thread(target=self._tidy, name="hyperfsad-tidy", daemon=True)

    def open(self, *, wait: bool = False, notify: Notify = log) -> "Station":
        """Opens the store and starts to load the encoder."""
        self.store.open(wait=wait, notify=notify)
        self.users.look()
        self.engine.start()
        self._tidier.start()
        self.machines.open(self.cameras.take, notify)
        for folder in self.folders:
            folder.start()
        self.cameras.open()
        return self

    def close(self) -> None:
        """Finishes what was accepted, then closes the store."""
        self.ending.set()
        for folder in self.folders:
            folder.stop()
        self.cameras.close()
        if self._tidier.ident is not None:  # where the store could not be opened, nothing runs
            self.engine.stop()
            self._tidier.join()
        self.machines.close()
        self.store.close()

    def _tidy(self) -> None:
        first = True
        while first or not self.ending.wait(TIDY_EVERY):
            try:
                if not first:
                    self.store.sweep()
                self._expire()
            except Exception:  # a full disk or a database that is away must not end it
                LOG.exception("the store could not be tidied")
            first = False

    def _expire(self) -> None:
        before = self.store.retains
        if removed := self.store.expire():
            self._note("originals removed", f"{removed} images")
        if self.store.retains != before:
            action = "retention resumed" if before is False else "retention suspended"
            self._note(action, f"the clock has jumped by {self.store.clock.moved / DAY:.1f} days")

    def _note(self, action: str, detail: str) -> None:
        LOG.warning("%s: %s", action, detail)
        with self.store.database.writing() as session:
            audit(session, Actor("station"), action, "", detail)
