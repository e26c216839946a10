"""Watched folders: the pictures that a camera writes are inspected as if they were uploaded.

`watch/` knows what is new and complete, and what is done; its ledger stands in the store. A verdict
goes into the history before its picture counts as done there, under an id that follows from the
picture. So a crash in between costs a second inspection, and leaves neither a gap nor a duplicate.
"""

import contextlib
import hashlib
import os
import shutil
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from ..disk.files import FileStamp, file_sha256, stamp_of
from ..errors import HyperfsadError, ImageError
from ..images.loading import NamedFile
from ..messages import Notice
from ..results.result import AnomalyResult
from ..watch.watcher import Watcher
from ..wording import STATION
from .engine import StationEngine
from .inspections import Inspections
from .monitoring import LOG
from .pictures import Picture, Upload, UploadLimits, checked_picture, clean_name
from .products import Products
from .refusals import (
    BusyError,
    FullError,
    MissingError,
    RefusedError,
    is_full,
    public,
    station_text,
)
from .schemas import WatchedFolderOut

RETRY, LONGEST_RETRY = 2.0, 60.0
"""Seconds after which watching is tried again that failed: without a product, space or database.
Nothing is lost meanwhile, as pictures stay where they are."""


@dataclass(frozen=True)
class InspectionDesk:
    """What it takes to inspect a picture and to keep its verdict."""

    engine: StationEngine
    products: Products
    inspections: Inspections
    limits: UploadLimits


class WatchedFolder:
    """A folder and its product; a thread follows it until it is stopped."""

    def __init__(self, desk: InspectionDesk, product: str, folder: Path) -> None:
        """`product` is a name or an id; it may be made later."""
        self._desk, self._folder = desk, Path(os.path.abspath(folder))
        self._ending = threading.Event()
        self._watcher: Watcher | None = None
        self._thread = threading.Thread(target=self._run, name="hyperfsad-watch", daemon=True)
        self.start = self._thread.start
        self.state = WatchedFolderOut(product=product)
        """What it does, without its path, which only those know who started the station."""

    def stop(self) -> None:
        """Ends after the current picture."""
        self._ending.set()
        if self._watcher is not None:
            self._watcher.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        pause = RETRY
        while not self._ending.is_set():
            try:
                self._follow()
            except Exception as error:
                self._report(error)
                if not isinstance(error, MissingError):
                    pause = min(2 * pause, LONGEST_RETRY)
            self._ending.wait(pause)

    def _report(self, error: Exception) -> None:
        known = isinstance(error, HyperfsadError)
        found = error if isinstance(error, HyperfsadError) else HyperfsadError("watch-failed")
        shown = public(found, {str(self._folder): "the folder"}).worded(STATION)
        if shown != self.state.problem:  # once, not every two seconds
            LOG.warning("watching for %s: %s", self.state.product, error, exc_info=not known)
        self.state.problem = shown

    def _follow(self) -> None:
        self.state.product_id = product = self._desk.products.find(self.state.product)
        key = hashlib.sha256(f"{product}\n{self._folder}".encode(errors="surrogateescape"))
        ledger = self._desk.products.store.files.watched / key.hexdigest()[:32]

        def log(text: str) -> None:
            LOG.info("watching for %s: %s", self.state.product, text)

        with contextlib.closing(_QueuedDetector(self._desk, product, self._ending)) as queued:
            self._watcher = Watcher(
                queued, self._folder, ledger, heatmaps=False, persist=queued.keep, notify=log
            )
            if self._ending.is_set():
                return
            self.state.problem = None
            for result in self._watcher.run():
                self.state.judged += 1
                if result.error is not None:
                    self.state.failed += 1
                    LOG.warning("watching for %s: %s", self.state.product, result.error)


class _QueuedDetector:
    """What the watcher takes for a detector: the product's own, as it is at each picture."""

    encoder_ = threshold_ = None  # the engine has its own

    def __init__(self, desk: InspectionDesk, product: str, ending: threading.Event) -> None:
        self._desk, self._product, self._ending = desk, product, ending
        self._judged: tuple[Picture, int] | None = None

    def identity(self) -> str:
        """The detector's, as the watch begins."""
        return self._desk.products.detector(self._product)[1].stem

    def predict(self, image: NamedFile, *, keep_pictures: bool = False) -> AnomalyResult | None:
        """Inspects a copy of the picture; None if the picture changed while it was copied."""
        self.close()
        stamp = stamp_of(image.path)
        upload = self._copied(image.path)
        try:
            if stamp is None or stamp_of(image.path) != stamp:
                return None
            try:
                picture = checked_picture(upload, self._desk.limits)
            except RefusedError as error:
                raise ImageError(error.code, **error.facts) from error
            _, detector, revision = self._desk.products.detector(self._product)
            result = self._result(detector, picture)
            self._judged = picture, revision
        finally:
            if self._judged is None:
                upload.path.unlink(missing_ok=True)
        return replace(result, image=image.path)

    def keep(self, result: AnomalyResult, stamp: FileStamp, arrived: float) -> None:
        """Puts a verdict into the history; of a picture that cannot be read there is none."""
        name = clean_name(os.path.basename(result.image))
        if result.error is not None:
            machines = self._desk.inspections.machines
            said = station_text(Notice("picture-unjudged"))  # its own error names the folder
            machines.failed(self._product, name, said, arrived)
        if result.error is not None or self._judged is None:
            return
        picture, revision = self._judged
        name = f"{self._product} {stamp[0]} {stamp[1]} {result.image}"
        key = hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=16).hexdigest()
        self._desk.inspections.add(
            self._product, revision, [(picture, result)], key, arrived=arrived
        )

    def close(self) -> None:
        """Removes the last copy, if it has not found its place in the store."""
        if self._judged is not None:
            self._judged[0].upload.path.unlink(missing_ok=True)
            self._judged = None

    def _copied(self, path: str) -> Upload:
        size, most = os.path.getsize(path), self._desk.limits.image_bytes
        if size > most:
            raise ImageError("upload-bytes", name=path, limit=most)
        files = self._desk.products.store.files
        files.check_space(size)
        place = files.upload()
        try:
            shutil.copyfile(path, place)
            return Upload(place, clean_name(os.path.basename(path)), file_sha256(place), size)
        except BaseException as error:
            place.unlink(missing_ok=True)
            if is_full(error):  # of ours: the picture is not to blame
                raise FullError("disk-full") from error
            raise

    def _result(self, detector: Path, picture: Picture) -> AnomalyResult:
        """Waits for a place in the queue as long as it takes."""
        while True:
            try:
                with self._desk.engine.reserved(1) as enter:
                    (future,) = enter(detector, [picture])
                return future.result()
            except BusyError:
                if self._ending.wait(RETRY):
                    raise
