"""Inspecting pictures while a camera writes them, for weeks: none twice, none lost."""

import math
import os
import time
from collections.abc import Callable, Generator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..connect.config import ConnectSettings
from ..connect.session import Session
from ..connect.sinks.webhook import refuse_without_threshold
from ..connect.state import Reason
from ..disk.files import FileStamp, stamp_of
from ..errors import ImageError, UsageError, reason
from ..images.loading import NamedFile
from ..messages import Notice, Notify, log
from ..report.folder import into_folder, write_files
from ..report.records import file_name, make_record
from ..results.result import AnomalyResult
from .incoming import FolderScan, IncomingFiles, scan_folder
from .ledger import Ledger

if TYPE_CHECKING:
    from ..detector.detector import HyperFSAD

INTERVAL, SETTLE, SETTLED_PATIENCE = 0.5, 1.0, 10.0
_NAP = 0.1
"""Seconds until `stop` is noticed."""


class WatchDetector(Protocol):
    """What a watcher needs of a detector."""

    def predict(self, image: NamedFile, *, keep_pictures: bool = False) -> AnomalyResult | None:
        """What is said of a picture; None if it changed meanwhile and must wait."""
        ...

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
        connect: ConnectSettings | None = None,
        adapt: bool = False,
        persist: Callable[[AnomalyResult, FileStamp, float], None] | None = None,
        wait: bool = False,
        notify: Notify = log,
    ) -> None:
        """A picture is complete when it has not changed for `settle` seconds and decodes; one that
        never decodes gets a record with its error after `patience` seconds.

        `new_only` skips what the very first start finds. `adapt` learns from the inspected pictures
        after 12, 24 and 48 of them, as unlabelled parts of the line. `persist` gets a result, its
        picture's stamp and when it was found, before it counts as done; so after a crash perhaps
        again.
        `connect` says which machines hear of it.
        `wait` lets another process finish that writes to the output folder. `notify` receives
        messages.
        """
        for name, value in (("interval", interval), ("settle", settle), ("patience", patience)):
            if not 0 <= value < math.inf:
                raise UsageError("watch-seconds", name=name, given=value)
        self.detector = detector
        self.folder = os.path.abspath(folder)  # an image has the same name wherever we start
        self.output = Path(output)
        self.interval, self.new_only, self.wait = interval, new_only, wait
        self.heatmaps, self.maps = heatmaps, maps
        self.notify, self._connect = notify, connect
        self._session: Session
        self.stopping = False
        self._persist = persist
        self._incoming = IncomingFiles(settle, patience)
        self._done: dict[str, FileStamp] = {}
        self._unreadable: dict[str, str] = {}
        self._identity = detector.identity()[:12]
        real, out = os.path.realpath(self.folder), os.path.realpath(self.output)
        if real == out or out in map(str, Path(real).parents):
            raise UsageError("watch-inside-output", folder=self.folder, output=self.output)
        if os.path.isfile(self.folder):
            raise UsageError("watch-file", path=self.folder)
        self._learner = None
        if adapt:
            from .learning import LineLearner

            self._learner = LineLearner(detector, self.output, notify)
        if detector.threshold_ is None and persist is None:
            refuse_without_threshold(connect.sinks if connect is not None else ())

    def stop(self) -> None:
        """Ends `run` after the current image; safe in signal handlers and threads."""
        self.stopping = True

    def run(self, once: bool = False) -> Generator[AnomalyResult, None, None]:
        """Yields each result after its record is on the disk; `once` takes what is there now."""
        if once and not os.path.isdir(self.folder):
            raise UsageError("watch-no-folder", folder=self.folder)
        saw = None if self._learner is None else self._learner.saw
        with Ledger(self.output, self.notify, wait=self.wait, saw=saw) as ledger:
            facts = {"folder": self.folder, "done": ledger.count, "results": ledger.path}
            self.notify(Notice("watch-started", **facts))
            self.detector.encoder_  # noqa: B018 (missing weights fail now, not at an image)
            if self._learner is not None:
                self._use(self._learner.resume())
            self._session = Session(self._connect, ledger.path, self._health, self.notify)
            yield from self._session.during(self._rounds(ledger, once))

    def _health(self) -> Reason | None:
        return "fault" if self.folder in self._unreadable else None

    def _rounds(self, ledger: Ledger, once: bool) -> Generator[AnomalyResult, None, None]:
        wanted: set[str] | None = None
        skipping = self.new_only
        self._adapt()
        while not self.stopping:
            began = time.monotonic()
            scan = self._scan()
            why = scan.unreadable.get(self.folder)
            if once and why is not None:
                raise UsageError("folder-unreadable", folder=self.folder, reason=why)
            if skipping and why is None:
                ledger.skip(scan.files)
                skipping = False
            # only what the folder holds now; the ledger knows all
            self._done = {
                path: stamp
                for path, stamp in scan.files.items()
                if self._done.get(path) == stamp or ledger.is_done(path, stamp)
            }
            new = {path: at for path, at in scan.files.items() if path not in self._done}
            self._incoming.update(new, began)
            cost = time.monotonic() - began
            if wanted is None:
                wanted = set(new)
            for path, stamp in self._incoming.ready(time.monotonic()):
                if self.stopping:
                    return
                if once and path not in wanted:
                    continue
                result = self._inspect(path, stamp, ledger)
                if result is not None:
                    yield result
                    self._adapt()
            if once:
                endless = wanted & self._incoming.still_changing(time.monotonic())
                for path in sorted(endless):
                    self.notify(Notice("watch-left-for-next", image=path))
                wanted -= endless
                if not any(path in self._incoming for path in wanted):
                    return
            # a large folder on a slow share is scanned less often
            end = time.monotonic() + max(self.interval, 4 * cost)
            while not self.stopping and (left := end - time.monotonic()) > 0:
                time.sleep(min(left, _NAP))

    @property
    def adapted_to(self) -> int:
        """Inspected parts that the detector in use is adapted to."""
        return 0 if self._learner is None else self._learner.parts

    def _adapt(self) -> None:
        """Learns from the inspected parts where it is time for it; stopped, the next start does."""
        if self._learner is not None and not self.stopping:
            self._use(self._learner.learn())

    def _use(self, adapted: "HyperFSAD | None") -> None:
        if adapted is not None:
            self.detector, self._identity = adapted, adapted.identity()[:12]

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

    def _inspect(self, path: str, stamp: FileStamp, ledger: Ledger) -> AnomalyResult | None:
        """The result of a complete picture, after its record is written; None if it must wait."""
        if not self._is_unchanged(path, stamp):
            return None
        picture = None
        try:
            # not the path: the name of one that has gone may look like a pattern
            file = NamedFile(path, path)
            result = self.detector.predict(file, keep_pictures=self.heatmaps)
            if result is None:
                return None
            if self.heatmaps:
                picture = result.shown()
            if stamp_of(path) not in (stamp, None):
                return None  # it was written to while it was read
        except (ImageError, OSError, MemoryError) as error:
            again = self._incoming.retry_later(path, time.monotonic())
            if again or not self._is_unchanged(path, stamp):
                return None
            if isinstance(error, MemoryError):
                error = ImageError("image-memory", name=path)
            elif isinstance(error, OSError):
                error = ImageError("image-unreadable", name=path, reason=reason(error))
            result = AnomalyResult.failed(path, str(error))
        arrived = self._incoming.arrived(path)
        if self._persist is not None:
            self._persist(result, stamp, arrived)
        # a folder for each day; one would fill with millions
        name = f"{_day(stamp)}/{file_name(result.image, f' {stamp[0]} {stamp[1]}')}"
        files = write_files(result, name, picture, self.maps, into_folder(self.output))
        moment = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        watched = {"time": moment, "stamp": list(stamp), "detector": self._identity}
        record = make_record(result, {**files, **watched})
        if self._session.is_late(arrived):
            record["late"] = True
        ledger.add(record)
        self._session.judged(record, arrived)
        self._incoming.remove(path)
        self._done[path] = stamp
        return result

    def _is_unchanged(self, path: str, stamp: FileStamp) -> bool:
        current = stamp_of(path)
        if current is None and os.path.isdir(self.folder):
            self.notify(Notice("watch-vanished", image=path))
        return current == stamp


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


def _day(stamp: FileStamp) -> str:
    """The day of a picture's file, which is the same at every try."""
    try:
        return datetime.fromtimestamp(stamp[1] // 10**9, timezone.utc).strftime("%Y-%m-%d")
    except (OSError, OverflowError, ValueError):  # a camera without a clock
        return "undated"
