"""`watch --adapt`: the detector learns from the pictures that it has inspected.

It always learns from the detector that was given and the newest pictures at a milestone; the name
of the file that keeps the result says both. So the records and these files are all there is to
know: killed at any moment, the next start finds the result or makes the same again.
"""

from collections import deque
from copy import copy
from pathlib import Path

from ..detector.detector import HyperFSAD
from ..disk.files import stamp_of
from ..errors import HyperfsadError, UsageError
from ..messages import Notice, Notify, log
from ..report.records import Record

MILESTONES = (12, 24, 48)
"""Inspected parts after which the detector learns."""


class LineLearner:
    """Counts inspected parts, and adapts the detector to the newest at each milestone."""

    def __init__(self, detector: object, folder: Path, notify: Notify = log) -> None:
        """`folder` keeps the adapted detectors."""
        if not isinstance(detector, HyperFSAD):
            raise UsageError("watch-adapt-one")
        detector.check("adapt")
        self._given = self._used = detector
        self._folder, self._notify = folder, notify
        self._identity = detector.identity()[:12]
        self._newest: deque[Record] = deque(maxlen=MILESTONES[-1])
        self._seen = self._asked = 0
        self.parts = 0
        """Inspected parts that the detector in use is adapted to."""

    def saw(self, record: Record) -> None:
        """Counts an inspected part, unless it failed or looks like another product."""
        if record.get("error") is None and not record.get("foreign"):
            self._newest.append(record)
            self._seen += 1

    def resume(self) -> HyperFSAD | None:
        """What an earlier run has made of the detector that was given."""
        known = [parts for parts in MILESTONES if self._file(parts).is_file()]
        if not known:
            return None
        self.parts = self._asked = known[-1]
        path, given = self._file(self.parts), self._given
        names = ("backbone", "device", "engine", "precision", "batch_size")
        machine = {name: getattr(given.settings, name) for name in names}
        found = HyperFSAD.load(path, notify=given.notify, **machine)
        found.use_encoder(given.encoder_)
        found.min_area, found.progress = given.min_area, given.progress
        self._used = found
        self._notify(Notice("watch-adapted-before", parts=self.parts, path=path))
        return found

    def learn(self) -> HyperFSAD | None:
        """The detector adapted to the newest parts, saved, at a new milestone."""
        reached = max((parts for parts in MILESTONES if parts <= self._seen), default=0)
        if reached <= self._asked:
            return None
        self._asked = reached
        newest = list(self._newest)[-reached:]
        there = [one for one in newest if list(stamp_of(one["image"]) or ()) == one["stamp"]]
        images, path = [one["image"] for one in there], self._file(reached)
        try:
            if len(there) < MILESTONES[0]:
                raise UsageError("watch-adapt-gone", there=len(there), parts=reached)
            found = copy(self._given).adapt(images)
        except HyperfsadError as error:
            self._notify(Notice("watch-not-adapted", cause=error))
            return None
        found.save(path)
        used, self._used, self.parts = self._used, found, reached
        again = zip(found.predict_many(images), there, strict=True)
        changed = sum(new.anomalous is not old["anomalous"] for new, old in again)
        before, after = ((one.threshold_, one.map_threshold_) for one in (used, found))
        facts = {"parts": len(there), "before": before, "after": after, "changed": changed}
        self._notify(Notice("watch-adapted", **facts, path=path))
        return found

    def _file(self, parts: int) -> Path:
        return self._folder / f"adapted-{self._identity}-{parts}.hfsad"
