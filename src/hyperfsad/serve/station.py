"""The station: its store, its engine, and what both can do together."""

import logging
import threading
from pathlib import Path
from typing import Any

from ..detector.detector import HyperFSAD
from ..encoders.runtime import INT8, named_engine, precision_of
from ..errors import UsageError
from ..messages import Notify, silent
from .coverage import Advisor
from .engine import Engine
from .folders import Desk, WatchedFolder
from .goodparts import GoodParts
from .inspections import Inspections
from .labels import Labels
from .live import Live
from .products import Products
from .settings import Settings
from .store.store import Actor, Store, note
from .trends import Trends

LOG = logging.getLogger("hyperfsad.serve")
TIDY = 600.0
"""Seconds between two looks at what need not be kept."""


class Station:
    """Opened before the first request, closed after the last one."""

    def __init__(
        self, settings: Settings, detector: dict[str, Any], machine: dict[str, Any]
    ) -> None:
        """`detector` holds the arguments of `HyperFSAD` for new products, `machine` those with
        which detector files are loaded."""
        if precision_of(named_engine(machine.get("engine", "auto"))) == INT8:
            raise UsageError(
                "The engine openvino-int8 is calibrated on one product, and a station has many;"
                " take openvino."
            )
        self.settings = settings
        self.store = Store(
            settings.store.absolute(),
            settings.database,
            keep=settings.keep,
            reserve=settings.reserve,
        )
        self.engine = Engine(
            lambda: HyperFSAD(**detector, **machine), machine, max_queue=settings.max_queue
        )
        self.live = Live()
        self.products = Products(self.store)
        self.good_parts = GoodParts(self.store)
        self.inspections = Inspections(self.store, self.live, originals=settings.originals)
        self.labels = Labels(self.store, self.products, self.inspections)
        self.trends = Trends(self.store)
        self.advisor = Advisor(self.store, self.products)
        self.folders = [self._watched(product, folder) for product, folder in settings.watch]
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

    def _watched(self, product: str, folder: Path) -> WatchedFolder:
        desk = Desk(self.engine, self.products, self.inspections, self.settings.limits)
        return WatchedFolder(desk, product, folder)

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

    def _tidy(self) -> None:
        while True:
            try:
                if removed := self.store.expire():
                    LOG.info("%d originals were removed, as --keep says", removed)
                    with self.store.database.writing() as session:
                        told = f"{removed} images"
                        note(session, Actor("station"), "originals removed", "", told)
                if self._ending.wait(TIDY):
                    return
                self.store.sweep()
            except Exception:  # a full disk or a database that is away must not end it
                LOG.exception("the store could not be tidied")
                if self._ending.wait(TIDY):
                    return
