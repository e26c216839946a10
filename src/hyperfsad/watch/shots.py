"""Inspecting what a camera shows: each shot gets a picture, a record, and a verdict in time."""

import hashlib
import io
import os
import time
from collections.abc import Generator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from ..connect.camera import Camera, Shot
from ..connect.config import ConnectSettings
from ..connect.deadlines import Latencies
from ..connect.session import Session
from ..connect.setup_checks import SetupChecks
from ..connect.sinks.webhook import refuse_without_threshold
from ..connect.sources import Frame, Pixels, Source
from ..connect.sources.video import VideoFile
from ..connect.state import Reason
from ..connect.triggers import Software, Trigger
from ..disk.files import FileStamp, stamp_of, write_file
from ..errors import ImageError, UsageError
from ..images.loading import save_picture
from ..messages import Notice, Notify, log
from ..report.folder import into_folder, write_files
from ..report.records import file_name, make_record
from ..results.result import AnomalyResult
from .ledger import Ledger

NAP = 0.1
"""Seconds until `stop` is noticed."""


class ShotDetector(Protocol):
    """What a camera's watcher needs of a detector."""

    def predict(self, image: Pixels, *, keep_pictures: bool = False) -> AnomalyResult: ...

    @property
    def threshold_(self) -> float | None: ...

    def identity(self) -> str: ...


class CameraWatcher:
    """Judges the shots of a camera or a video, and keeps the picture of each."""

    def __init__(
        self,
        detector: ShotDetector,
        source: Source,
        trigger: Trigger,
        output: str | os.PathLike[str] = "out",
        *,
        deadline: float | None = None,
        heatmaps: bool = True,
        maps: bool = False,
        connect: ConnectSettings | None = None,
        wait: bool = False,
        notify: Notify = log,
    ) -> None:
        """`deadline` are the seconds from trigger to verdict; what takes longer has none."""
        if isinstance(trigger, Software):
            raise UsageError("trigger-needs-station")
        if detector.threshold_ is None:
            refuse_without_threshold(connect.sinks if connect is not None else ())
        self.detector, self.source, self.output = detector, source, Path(output).absolute()
        self.heatmaps, self.maps, self.wait = heatmaps, maps, wait
        self.notify, self._connect = notify, connect
        self.latencies = Latencies(deadline)
        self.camera = Camera(source, trigger, wanted=self._is_new, notify=notify)
        self.stopping = False
        self._checks = SetupChecks()
        self._ledger: Ledger
        self._session: Session
        self._video: FileStamp | None = None
        if isinstance(source, VideoFile):
            self._video = stamp_of(source.path)

    def stop(self) -> None:
        """Ends `run` after the current shot; safe in signal handlers and threads."""
        self.stopping = True

    def run(self) -> Generator[AnomalyResult, None, None]:
        """Yields each result after its record is on the disk; ends where a video ends."""
        with Ledger(self.output, self.notify, wait=self.wait) as self._ledger:
            facts = {"folder": self.source.name, "results": self._ledger.path}
            self.notify(Notice("watch-started", done=self._ledger.count, **facts))
            # missing weights fail now, and the first shot need not wait for what is slow once
            self.detector.predict(np.zeros((64, 64, 3), np.uint8))
            self._session = Session(self._connect, self._ledger.path, self._health, self.notify)
            yield from self._session.during(self._shots())

    def _health(self) -> Reason | None:
        return "fault" if self.camera.state == "away" else None

    def _shots(self) -> Generator[AnomalyResult, None, None]:
        self.camera.start()
        try:
            while not self.stopping and not self.camera.over:
                if (shot := self.camera.next(NAP)) is not None:
                    yield self._inspect(shot)
                    self._check(shot)
        finally:
            self.camera.stop()

    def _inspect(self, shot: Shot) -> AnomalyResult:
        """The result of a shot, after its record is written."""
        image, stamp = self._place(shot.frame)
        if self.latencies.is_over(shot.age):  # it is late already: the next one need not be
            result = AnomalyResult.failed(image, str(self._late(shot.age)))
        else:
            try:
                found = self.detector.predict(shot.pixels, keep_pictures=self.heatmaps)
                result = replace(found, image=image)
            except ImageError as error:
                result = AnomalyResult.failed(image, str(error))
        content = io.BytesIO()
        Image.fromarray(shot.pixels).save(content, "PNG", compress_level=1)  # the line waits
        write_file(Path(image), content.getbuffer(), parents=True)
        name = f"{os.path.basename(os.path.dirname(image))}/{file_name(image)}"
        picture = result.shown() if self.heatmaps and result.error is None else None
        files = write_files(result, name, picture, self.maps, into_folder(self.output))
        took = shot.age
        late = self.latencies.add(took)
        if late and result.error is None:
            result = replace(result, error=str(self._late(took)))
        own = {
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "stamp": list(stamp),
            "detector": self.detector.identity()[:12],
            "late": late,
            "milliseconds": round(1000 * took, 1),
        }
        record = make_record(result, {**files, **own})
        self._ledger.add(record)
        self._session.judged(record, time.monotonic() - took)
        if result.anomalous is False:
            self._checks.learn(shot.pixels)
        return result

    def _late(self, took: float) -> Notice:
        return Notice(
            "verdict-late", took=1000 * took, deadline=1000 * (self.latencies.deadline or 0)
        )

    def _check(self, shot: Shot) -> None:
        """Says what is wrong with the camera's place, light or focus, with a picture of it."""
        for finding in self._checks.look(shot.pixels):
            path = self.output / "setup" / f"{finding.notice.code}.jpg"
            save_picture(Image.fromarray(finding.pixels), path, parents=True)
            self.notify(Notice("camera-finding", finding=finding.notice, path=path))

    def _place(self, frame: Frame) -> tuple[str, FileStamp]:
        """Where the picture of a frame goes, and what tells it from all others."""
        frames = self.output / "frames"
        if isinstance(self.source, VideoFile) and self._video is not None:
            same = hashlib.sha256(f"{self.source.path} {self._video}".encode()).hexdigest()[:8]
            return str(
                frames / f"{self.source.path.stem}-{same}" / f"{frame.number:06}.png"
            ), self._video
        moment = datetime.fromtimestamp(frame.taken / 1e9, timezone.utc)
        name = moment.strftime("%H-%M-%S.%f.png")
        return str(frames / moment.strftime("%Y-%m-%d") / name), (frame.number, frame.taken)

    def _is_new(self, frame: Frame) -> bool:
        return not self._ledger.is_done(*self._place(frame))
