"""Inspecting pictures while a camera writes them, for weeks: none twice, none lost."""

import math
import os
import time
from collections.abc import Callable, Generator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from ..detector.protocols import Predictor
from ..disk.files import FileStamp, stamp_of
from ..errors import ImageError, UsageError, reason
from ..messages import Notice, Notify, silent
from ..report.folder import file_name, write_files
from ..report.records import Record, make_record
from ..results.result import AnomalyResult
from .incoming import FolderScan, IncomingFiles, scan_folder
from .ledger import Ledger
from .outbox import LAST_DELIVERIES, Outbox
from .webhook import Webhook

INTERVAL, SETTLE, SETTLED_PATIENCE = 0.5, 1.0, 10.0
STUCK = 60.0
"""Seconds after which a file that never stops changing is reported."""
_NAP = 0.1
"""Seconds until `stop` is noticed."""


class WatchDetector(Predictor, Protocol):
    """What a watcher needs of a detector."""

    @property
    def encoder_(self) -> Any:
        """Loaded by the time this returns."""
        ...

    @property
    def threshold_(self) -> float | None:
        """Above it an image is anomalous."""
        ...

    def identity(self) -> str:
        """Changes with what it has learnt."""
        ...


class Watcher:
    """Scans a folder again and again, and inspects each picture that is new and complete."""

    def __init__(
        self,
        detector: WatchDetector,
        folder: str | os.PathLike[str],
        output: str | os.PathLike[str] = "out",
        *,
        interval: float = INTERVAL,
        settle: float = SETTLE,
        patience: float = SETTLED_PATIENCE,
        new_only: bool = False,
        heatmaps: bool = True,
        maps: bool = False,
        webhook: Webhook | None = None,
        persist: Callable[[AnomalyResult, FileStamp], None] | None = None,
        wait: bool = False,
        notify: Notify = silent,
    ) -> None:
        """A picture is complete when it has not changed for `settle` seconds and decodes; one that
        never decodes gets a record with its error after `patience` seconds.

        `new_only` skips what the very first start finds. `persist` gets a result, and its picture's
        stamp, before the picture counts as done; so after a crash perhaps again. `wait` lets
        another process finish that writes to the output folder. `notify` receives messages.
        """
        for name, value in (("interval", interval), ("settle", settle), ("patience", patience)):
            if not 0 <= value < math.inf:
                raise UsageError("watch-seconds", name=name, given=value)
        self.detector = detector
        self.folder = os.path.abspath(folder)  # an image has the same name wherever we start
        self.output = Path(output)
        self.interval, self.new_only, self.wait = interval, new_only, wait
        self.heatmaps, self.maps = heatmaps, maps
        self.webhook, self.notify = webhook, notify
        self.record: Record = {}
        """The record of the last result."""
        self.stopping = False
        self._persist = persist
        self._incoming = IncomingFiles(settle, patience)
        self._done: dict[str, FileStamp] = {}
        self._unreadable: dict[str, str] = {}
        self._temporary: dict[str, float] = {}
        self._reported: set[str] = set()
        self._identity = detector.identity()[:12]
        self._check_settings()

    def stop(self) -> None:
        """Ends `run` after the current image; safe in signal handlers and threads."""
        self.stopping = True

    def run(self, once: bool = False) -> Generator[AnomalyResult, None, None]:
        """Yields each result after its record is on the disk; `once` takes what is there now."""
        if once and not os.path.isdir(self.folder):
            raise UsageError("watch-no-folder", folder=self.folder)
        with Ledger(self.output, self.notify, wait=self.wait) as ledger:
            facts = {"folder": self.folder, "done": ledger.count, "results": ledger.path}
            self.notify(Notice("watch-started", **facts))
            if ledger.detector not in (None, self._identity):
                change = {"before": ledger.detector, "now": self._identity}
                self.notify(Notice("watch-other-detector", **change))
            self.detector.encoder_  # noqa: B018 (missing weights fail now, not at an image)
            outbox = None
            if self.webhook is not None:
                outbox = Outbox(self.webhook, ledger.path, ledger.end, self.notify).start()
            grace = 0.0  # after an error or a second Ctrl-C
            try:
                yield from self._rounds(ledger, outbox, once)
                grace = LAST_DELIVERIES
            except GeneratorExit:
                grace = LAST_DELIVERIES
                raise
            finally:
                left = outbox.close(grace) if outbox is not None else 0
                if left:
                    self.notify(Notice("webhook-undelivered", number=left))

    def _check_settings(self) -> None:
        real, out = os.path.realpath(self.folder), os.path.realpath(self.output)
        if real == out or out in map(str, Path(real).parents):
            raise UsageError("watch-inside-output", folder=self.folder, output=self.output)
        if os.path.isfile(self.folder):
            raise UsageError("watch-file", path=self.folder)
        wanted = self.webhook.on if self.webhook else ()
        if "anomalous" in wanted and self.detector.threshold_ is None:
            raise UsageError("webhook-no-threshold")

    def _rounds(
        self, ledger: Ledger, outbox: Outbox | None, once: bool
    ) -> Generator[AnomalyResult, None, None]:
        wanted: set[str] | None = None
        skipping = self.new_only
        while not self.stopping:
            began = time.monotonic()
            scan = self._scan()
            if once and self.folder in scan.unreadable:
                why = scan.unreadable[self.folder]
                raise UsageError("watch-folder-closed", folder=self.folder, why=why)
            if skipping and self.folder not in scan.unreadable:
                ledger.skip(scan.files)
                skipping = False
            self._update(scan, ledger, began)
            self._report_stuck_files(scan, began, 0.0 if once else STUCK)
            cost = time.monotonic() - began
            if wanted is None:
                wanted = {path for path in scan.files if path in self._incoming}
            for path, stamp in self._incoming.ready(time.monotonic()):
                if self.stopping:
                    return
                if once and path not in wanted:
                    continue
                result = self._inspect(path, stamp, ledger)
                if result is not None:
                    if outbox is not None:
                        outbox.publish(ledger.end)
                    yield result
            if once and not self._must_wait(wanted, time.monotonic()):
                return
            # a large folder on a slow share is scanned less often
            self._sleep(max(self.interval, 4 * cost))

    def _scan(self) -> FolderScan:
        scan = scan_folder(self.folder, os.fspath(self.output))
        for folder, why in scan.unreadable.items():
            if folder not in self._unreadable:
                self.notify(Notice("watch-folder-lost", folder=folder, why=why))
        for folder in self._unreadable:
            if folder not in scan.unreadable and os.path.isdir(folder):
                self.notify(Notice("watch-folder-back", folder=folder))
        self._unreadable = scan.unreadable
        return scan

    def _update(self, scan: FolderScan, ledger: Ledger, now: float) -> None:
        done: dict[str, FileStamp] = {}
        new: dict[str, FileStamp] = {}
        for path, stamp in scan.files.items():
            known = self._done.get(path) == stamp or ledger.is_done(path, stamp)
            (done if known else new)[path] = stamp
        self._done = done  # only what the folder holds now; the ledger knows all
        self._incoming.update(new, now)

    def _report_stuck_files(self, scan: FolderScan, now: float, after: float) -> None:
        """Files that are never inspected: with temporary names, or never finished."""
        self._temporary = {path: self._temporary.get(path, now) for path in scan.temporary}
        temporary = {path for path, first in self._temporary.items() if now - first >= after}
        for path in sorted(temporary - self._reported)[:3]:
            self.notify(Notice("watch-temporary-name", image=path))
        changing = self._incoming.still_changing(now, STUCK)
        for path in sorted(changing - self._reported):
            settle = self._incoming.settle
            self.notify(Notice("watch-never-settles", image=path, seconds=settle))
        self._reported = changing | temporary

    def _inspect(self, path: str, stamp: FileStamp, ledger: Ledger) -> AnomalyResult | None:
        """The result of a complete picture, after its record is written; None if it must wait."""
        if not self._is_unchanged(path, stamp):
            return None
        picture = None
        try:
            result = self.detector.predict(path, keep_pictures=self.heatmaps)
            if not isinstance(result, AnomalyResult):  # gone, and its name looked like a pattern
                return None
            if self.heatmaps:
                picture = result.shown()
            if stamp_of(path) not in (stamp, None):
                return None  # it was written to while it was read
        except (ImageError, OSError, MemoryError) as error:
            again = self._incoming.retry_later(path, time.monotonic())
            if again or not self._is_unchanged(path, stamp):
                return None
            result = AnomalyResult.failed(path, str(_as_image_error(error, path)))
        if self._persist is not None:
            self._persist(result, stamp)
        # a folder for each day; one would fill with millions
        name = f"{_day(stamp)}/{file_name(result.image, f' {stamp[0]} {stamp[1]}')}"
        files = write_files(self.output, result, name, picture, self.maps)
        moment = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        watched = {"time": moment, "stamp": list(stamp), "detector": self._identity}
        self.record = make_record(result, {**files, **watched})
        ledger.add(self.record)
        self._incoming.remove(path)
        self._done[path] = stamp
        return result

    def _is_unchanged(self, path: str, stamp: FileStamp) -> bool:
        current = stamp_of(path)
        if current is None and os.path.isdir(self.folder):
            self.notify(Notice("watch-vanished", image=path))
        return current == stamp

    def _must_wait(self, wanted: set[str], now: float) -> bool:
        """Whether some of the wanted files are not done yet; those that never end are dropped."""
        endless = wanted & self._incoming.still_changing(now, self._incoming.patience)
        for path in sorted(endless):
            self.notify(Notice("watch-left-for-next", image=path))
        wanted -= endless
        return any(path in self._incoming for path in wanted)

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _NAP))


def watch(
    detector: WatchDetector,
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str] = "out",
    *,
    once: bool = False,
    **options: Any,
) -> Generator[AnomalyResult, None, None]:
    """The results of new pictures in a folder, one by one; `options` are those of `Watcher`."""
    return Watcher(detector, folder, output, **options).run(once)


def _as_image_error(error: ImageError | OSError | MemoryError, path: str) -> ImageError:
    if isinstance(error, ImageError):
        return error
    if isinstance(error, MemoryError):
        return ImageError("watch-image-memory", image=path)
    return ImageError("watch-image-unreadable", image=path, why=reason(error))


def _day(stamp: FileStamp) -> str:
    """The day of a picture's file, which is the same at every try."""
    try:
        return datetime.fromtimestamp(stamp[1] // 10**9, timezone.utc).strftime("%Y-%m-%d")
    except (OSError, OverflowError, ValueError):  # a camera without a clock
        return "undated"
