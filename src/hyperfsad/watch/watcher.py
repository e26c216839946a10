"""Judging pictures as a camera writes them, for weeks: none twice, none lost.

>>> for result in watch(detector, "camera/", "out/"):
...     print(result.image, result.score)
"""

import math
import os
import time
from collections.abc import Generator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ImageError, UsageError, reason
from ..messages import Notify, silent
from ..output.exports import make_record
from ..output.folder import file_name, write_files
from ..results.result import AnomalyResult
from .arrivals import Arrivals, Look, Stamp, look, stamp_of
from .delivery import Courier
from .ledger import RESULTS, Ledger
from .webhook import Webhook

if TYPE_CHECKING:
    from PIL import Image

    from ..detector.hyperfsad import HyperFSAD
    from ..detector.products import ProductDetector

INTERVAL, SETTLE, PATIENCE = 0.5, 1.0, 10.0
RESTLESS = 60.0
"""Seconds after which it is told that a file never rests."""
_NAP = 0.1
"""Seconds between two questions whether to stop."""


class Watcher:
    """Looks at a folder again and again, judges what is new and complete, and notes it."""

    def __init__(
        self,
        detector: "HyperFSAD | ProductDetector",
        folder: str | os.PathLike[str],
        output: str | os.PathLike[str] = "out",
        *,
        interval: float = INTERVAL,
        settle: float = SETTLE,
        patience: float = PATIENCE,
        new_only: bool = False,
        heatmaps: bool = True,
        maps: bool = False,
        webhook: Webhook | None = None,
        notify: Notify = silent,
    ) -> None:
        """A picture is complete when it has not changed for `settle` seconds and decodes; one that
        never decodes gets a line with its error after `patience` seconds.

        `new_only` leaves out what is there at the very first start. `notify` takes messages.
        """
        for name, value in (("interval", interval), ("settle", settle), ("patience", patience)):
            if not 0 <= value < math.inf:
                raise UsageError(f"The {name} is a number of seconds, not {value}.")
        self.detector = detector
        self.folder = os.path.abspath(folder)  # the same name for an image, wherever we start from
        self.output = Path(output)
        self.interval = interval
        self.new_only, self.heatmaps, self.maps = new_only, heatmaps, maps
        self.webhook, self.notify = webhook, notify
        self.line: dict[str, Any] = {}
        """The line of the last result."""
        self.stopping = False
        self._arrivals = Arrivals(settle, patience)
        self._done: dict[str, Stamp] = {}
        self._closed: dict[str, str] = {}
        self._temporary: dict[str, float] = {}
        self._told: set[str] = set()
        self._identity = detector.identity()[:12]
        self._require_sense()

    def stop(self) -> None:
        """Ends `run` after the image in hand, for good; safe in signal handlers and threads."""
        self.stopping = True

    def run(self, once: bool = False) -> Generator[AnomalyResult, None, None]:
        """Yields each result after its line is on the disk; with `once`, only what is there now."""
        if once and not os.path.isdir(self.folder):
            raise UsageError(f"There is no folder {self.folder}.")
        with Ledger(self.output, self.notify) as ledger:
            self._tell_start(ledger)
            self.detector.encoder_  # noqa: B018 (what is missing is told now, not at an image)
            if self.webhook is None:
                yield from self._rounds(ledger, None, once)
                return
            courier = Courier(self.webhook, ledger.path, ledger.end, self.notify).start()
            grace: float | None = 0.0
            try:
                yield from self._rounds(ledger, courier, once)
                grace = None
            except GeneratorExit:
                grace = None
                raise
            finally:  # at once after an error or a second Ctrl-C
                left = courier.close(grace)
                if left:
                    self.notify(
                        f"{left} result{'s' * (left > 1)} could not be delivered to the webhook"
                        " yet; the next start does that."
                    )

    def _require_sense(self) -> None:
        real, out = os.path.realpath(self.folder), os.path.realpath(self.output)
        if real == out or out in map(str, Path(real).parents):
            raise UsageError(
                f"{self.folder} is or lies in the output folder {self.output}, which is never"
                " watched; choose another output folder (-o)."
            )
        if os.path.isfile(self.folder):
            raise UsageError(f"{self.folder} is a file; name the folder that is to be watched.")
        wanted = self.webhook.on if self.webhook else ()
        if "anomalous" in wanted and self.detector.threshold_ is None:
            raise UsageError(
                "The detector has no threshold, so no image would be called anomalous: set one with"
                " hyperfsad calibrate, or send all results (--webhook-on all)."
            )

    def _tell_start(self, ledger: Ledger) -> None:
        done = f"{ledger.count} image{'s' * (ledger.count != 1)} done before"
        self.notify(f"Watching {self.folder}; {done}; results go to {self.output / RESULTS}.")
        if ledger.detector not in (None, self._identity):
            self.notify(
                f"Earlier lines are of another detector ({ledger.detector}); they stay, and new"
                f" images are judged by this one ({self._identity})."
            )

    def _rounds(
        self, ledger: Ledger, courier: Courier | None, once: bool
    ) -> Generator[AnomalyResult, None, None]:
        wanted: set[str] | None = None
        skipping = self.new_only
        while not self.stopping:
            began = time.monotonic()
            found = self._look()
            if once and self.folder in found.closed:
                why = found.closed[self.folder]
                raise UsageError(f"{self.folder} cannot be opened: {why}.")
            if skipping and self.folder not in found.closed:
                ledger.skip(found.files if ledger.is_first_start else None)
                skipping = False
            self._update(found, ledger, began)
            self._tell_oddities(found, began, 0.0 if once else RESTLESS)
            cost = time.monotonic() - began
            if wanted is None:
                wanted = {path for path in found.files if path in self._arrivals}
            for path, stamp in self._arrivals.ready(time.monotonic()):
                if self.stopping:
                    return
                if once and path not in wanted:
                    continue
                result = self._judged(path, stamp, ledger)
                if result is not None:
                    if courier is not None:
                        courier.deliver_to(ledger.end)
                    yield result
            if once and not self._left(wanted, time.monotonic()):
                return
            # a large folder on a slow share is looked at less often
            self._rest(max(self.interval, 4 * cost))

    def _look(self) -> Look:
        found = look(self.folder, os.path.realpath(self.output))
        for folder, why in found.closed.items():
            if folder not in self._closed:
                self.notify(f"{folder} cannot be opened ({why}); it is tried until it can.")
        for folder in self._closed:
            if folder not in found.closed and os.path.isdir(folder):
                self.notify(f"{folder} is there again.")
        self._closed = found.closed
        return found

    def _update(self, found: Look, ledger: Ledger, now: float) -> None:
        done: dict[str, Stamp] = {}
        new: dict[str, Stamp] = {}
        for path, stamp in found.files.items():
            known = self._done.get(path) == stamp or (
                not self._arrivals.knows(path, stamp) and ledger.is_done(path, stamp)
            )
            (done if known else new)[path] = stamp
        self._done = done  # of what is in the folder now; the ledger knows all
        self._arrivals.update(new, now)

    def _tell_oddities(self, found: Look, now: float, after: float) -> None:
        """What is never judged must not go unseen: names that stay temporary, files that never
        rest."""
        self._temporary = {path: self._temporary.get(path, now) for path in found.temporary}
        stuck = {path for path, first in self._temporary.items() if now - first >= after}
        for path in sorted(stuck - self._told)[:3]:
            self.notify(
                f"{path} has a temporary name and is passed over; rename it to have it judged."
            )
        restless = set(self._arrivals.restless(now, RESTLESS))
        for path in sorted(restless - self._told):
            self.notify(
                f"{path} has been changing for a minute without a rest of"
                f" {self._arrivals.settle:g} seconds (--settle), so it cannot be judged."
            )
        self._told = restless | stuck

    def _judged(self, path: str, stamp: Stamp, ledger: Ledger) -> AnomalyResult | None:
        """The result of a complete picture, after its line is written; None where it must wait."""
        if not self._is_still(path, stamp):
            return None
        picture: Image.Image | None = None
        try:
            result = self.detector.predict(path, keep_pictures=self.heatmaps)
            if not isinstance(result, AnomalyResult):  # gone, and its name looked like a pattern
                return None
            if self.heatmaps:
                picture = result.shown()
            if stamp_of(path) not in (stamp, None):
                return None  # it was written to while it was read
        except (ImageError, OSError, MemoryError) as error:
            late = self._arrivals.undecodable(path, time.monotonic())
            if not late or not self._is_still(path, stamp):
                return None
            result = AnomalyResult.failed(path, _sentence(error, path))
        self.line = self._write(result, stamp, picture)
        ledger.add(self.line)
        self._arrivals.remove(path)
        self._done[path] = stamp
        return result

    def _is_still(self, path: str, stamp: Stamp) -> bool:
        current = stamp_of(path)
        if current is None and os.path.isdir(self.folder):
            self.notify(f"{path} vanished before it was judged.")
        return current == stamp

    def _write(
        self, result: AnomalyResult, stamp: Stamp, picture: "Image.Image | None"
    ) -> dict[str, Any]:
        """Draws the heat map into a folder for each day, as weeks would fill one with millions."""
        name = file_name(result.image, f" {stamp[0]} {stamp[1]}")
        files = write_files(self.output, result, f"{_day(stamp)}/{name}", picture, self.maps)
        return make_record(
            result,
            {
                **files,
                "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                "stamp": list(stamp),
                "detector": self._identity,
            },
        )

    def _left(self, wanted: set[str], now: float) -> bool:
        """Whether some of the wanted files are to be waited for."""
        endless = self._arrivals.restless(now, self._arrivals.patience)
        for path in wanted.intersection(endless):
            self.notify(f"{path} is still being written; it is left for the next time.")
            wanted.discard(path)
        return any(path in self._arrivals for path in wanted)

    def _rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _NAP))


def watch(
    detector: "HyperFSAD | ProductDetector",
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str] = "out",
    *,
    once: bool = False,
    **options: Any,
) -> Generator[AnomalyResult, None, None]:
    """The results of new pictures in a folder, one by one; `options` are those of `Watcher`."""
    return Watcher(detector, folder, output, **options).run(once)


def _sentence(error: ImageError | OSError | MemoryError, path: str) -> str:
    if isinstance(error, ImageError):
        return str(error)
    memory = isinstance(error, MemoryError)
    return f"{path} cannot be read: {'it does not fit into memory' if memory else reason(error)}."


def _day(stamp: Stamp) -> str:
    """The day of a picture's file: the same however often it is judged."""
    try:
        return datetime.fromtimestamp(stamp[1] // 10**9, timezone.utc).strftime("%Y-%m-%d")
    except (OSError, OverflowError, ValueError):  # a camera without a clock
        return "undated"
