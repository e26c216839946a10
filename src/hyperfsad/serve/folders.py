"""Watched folders: the pictures that a camera writes are judged as if they had been uploaded.

What is new and complete, and what is done, is known to `watch/`, whose ledger stands in the store.
A verdict goes into the history before its picture counts as done there, under an id that follows
from the picture. So a crash in between costs a second look, and leaves neither a gap nor a double.
"""

import contextlib
import hashlib
import logging
import os
import shutil
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..disk.files import FileStamp, file_sha256, stamp_of
from ..errors import HyperfsadError, ImageError
from ..results.result import AnomalyResult
from ..watch.watcher import Watcher
from .engine import Engine
from .faults import BusyError, FullError, MissingError, TooLargeError, is_full
from .inspections import Inspections
from .pictures import Limits, Picture, Upload, checked_picture, clean_name
from .products import Products
from .store.files import Files

LOG = logging.getLogger("hyperfsad.serve")
FOLDER = "watched"
"""Of the store, for the ledgers."""
AGAIN, LONGEST = 2.0, 60.0
"""Seconds after which a folder is watched again that could not be: without a product, space or
database. Nothing is lost meanwhile, as pictures stay where they are."""


@dataclass(frozen=True)
class Desk:
    """What it takes to judge a picture and to keep its verdict."""

    engine: Engine
    products: Products
    inspections: Inspections
    limits: Limits

    @property
    def files(self) -> Files:
        """Of the store."""
        return self.products.store.files


class WatchedFolder:
    """A folder and its product; a thread follows it until it is stopped."""

    def __init__(self, desk: Desk, product: str, folder: Path) -> None:
        """`product` is a name or an id; it may be made later."""
        self._desk, self._product, self._folder = desk, product, Path(os.path.abspath(folder))
        self._ending = threading.Event()
        self._watcher: Watcher | None = None
        self._thread = threading.Thread(target=self._run, name="hyperfsad-watch", daemon=True)
        self._state: dict[str, Any] = {"product_id": None, "judged": 0, "failed": 0}
        self._problem: str | None = None

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after the current picture."""
        self._ending.set()
        if self._watcher is not None:
            self._watcher.stop()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def state(self) -> dict[str, Any]:
        """What it does; the path is known to who started the station, and to nobody else."""
        return {"product": self._product, **self._state, "problem": self._problem}

    def _run(self) -> None:
        pause = AGAIN
        while not self._ending.is_set():
            try:
                self._follow()
            except MissingError as error:
                self._report(error)
            except Exception as error:
                self._report(error)
                pause = min(2 * pause, LONGEST)
            self._ending.wait(pause)

    def _report(self, error: Exception) -> None:
        known = isinstance(error, HyperfsadError)
        text = str(error) if known else "The folder cannot be watched now; see the log."
        if text != self._problem:  # once, not every two seconds
            LOG.warning("watching for %s: %s", self._product, text, exc_info=not known)
        self._problem = text.replace(str(self._folder), "the folder")

    def _follow(self) -> None:
        product = self._desk.products.find(self._product)
        self._state["product_id"] = product
        key = hashlib.sha256(f"{product}\n{self._folder}".encode(errors="surrogateescape"))
        ledger = self._desk.files.folder / FOLDER / key.hexdigest()[:32]
        with contextlib.closing(_Judge(self._desk, product, self._ending)) as judge:
            self._watcher = Watcher(
                judge, self._folder, ledger, heatmaps=False, persist=judge.keep, notify=self._tell
            )
            if self._ending.is_set():
                return
            self._problem = None
            for result in self._watcher.run():
                self._state["judged"] += 1
                self._state["failed"] += result.error is not None
                if result.error is not None:
                    LOG.warning("watching for %s: %s", self._product, result.error)

    def _tell(self, text: str) -> None:
        LOG.info("watching for %s: %s", self._product, text)


class _Judge:
    """What the watcher takes for a detector: the product's own, as it is at each picture."""

    encoder_ = threshold_ = None  # the engine has its own

    def __init__(self, desk: Desk, product: str, ending: threading.Event) -> None:
        self._desk, self._product, self._ending = desk, product, ending
        self._judged: tuple[Picture, int] | None = None

    def identity(self) -> str:
        """The detector's, as the watch begins."""
        return self._desk.products.detector(self._product)[1].stem

    def predict(self, images: str, *, keep_pictures: bool) -> Any:
        """Judges a copy of the picture; None if the picture changed while it was copied."""
        self.close()
        stamp = stamp_of(images)
        upload = self._copied(images)
        try:
            if stamp is None or stamp_of(images) != stamp:
                return None
            try:
                picture = checked_picture(upload, self._desk.limits)
            except TooLargeError as error:
                raise ImageError(str(error)) from error
            _, detector, revision = self._desk.products.detector(self._product)
            result = self._result(detector, picture)
            self._judged = picture, revision
        finally:
            if self._judged is None:
                upload.discard()
        return replace(result, image=images)

    def keep(self, result: AnomalyResult, stamp: FileStamp) -> None:
        """Puts a verdict into the history; of a picture that cannot be read there is none."""
        if result.error is not None or self._judged is None:
            return
        picture, revision = self._judged
        name = f"{self._product} {stamp[0]} {stamp[1]} {result.image}"
        key = hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=16).hexdigest()
        self._desk.inspections.add_once(key, self._product, revision, picture, result)

    def close(self) -> None:
        """Removes the last copy, if it has not found its place in the store."""
        if self._judged is not None:
            self._judged[0].upload.discard()
            self._judged = None

    def _copied(self, path: str) -> Upload:
        size, most = os.path.getsize(path), self._desk.limits.image_bytes
        if size > most:
            raise ImageError(f"{path} is too large: at most {most / 1e6:g} MB are accepted.")
        files = self._desk.files
        files.check_space(size)
        place = files.upload()
        try:
            shutil.copyfile(path, place)
            return Upload(place, clean_name(os.path.basename(path)), file_sha256(place), size)
        except BaseException as error:
            place.unlink(missing_ok=True)
            if is_full(error):  # of ours: the picture is not to blame
                raise FullError("The station's disk is full; free some space.") from error
            raise

    def _result(self, detector: Path, picture: Picture) -> AnomalyResult:
        """Waits for a place in the line as long as it takes."""
        while True:
            try:
                with self._desk.engine.reserved(1) as places:
                    (future,) = places.inspect(detector, [picture])
                return future.result()
            except BusyError as error:
                if self._ending.wait(min(error.retry_after or 1, AGAIN)):
                    raise
