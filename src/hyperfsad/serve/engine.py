"""One thread owns the encoder and the detectors; all work waits for it in one bounded queue.

Images that wait for the same detector are inspected together, no matter where they come from. A
client that disconnects while waiting leaves the queue: a cancelled future is passed over.
"""

import contextlib
import copy
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ..detector.detector import HyperFSAD
from ..detector.file import open_file
from ..detector.settings import Settings
from ..encoders import REGISTRY, EncoderSettings, find_spec
from ..encoders.encoder import Encoder
from ..encoders.runtime import cached_folder
from ..errors import HyperfsadError, UsageError
from ..results.result import AnomalyResult
from .monitoring import LOG
from .pictures import Picture
from .refusals import BusyError, station_text

Found = TypeVar("Found")
Enter: TypeAlias = "Callable[[Path, Sequence[Picture]], list[Future[AnomalyResult]]]"

MAX_BATCH = 32
"""Images that are taken from the queue at once; more would let others wait too long."""
MAX_DETECTORS = 8
"""In memory; a memory bank of four parts takes some 20 MB."""


class Detectors:
    """Detectors by their files; none is ever changed in place.

    A detector file is named by its hash, so a product that has changed has another file.
    """

    def __init__(self, settings: Settings) -> None:
        """`settings` are those of new products; its choices of the machine hold for all."""
        self._settings = settings
        self._loaded: OrderedDict[Path, HyperFSAD] = OrderedDict()
        self._encoders: list[tuple[EncoderSettings, Encoder]] = []

    @cached_property
    def unfitted(self) -> HyperFSAD:
        """What new products are made of; its encoder is loaded."""
        return self._with_encoder(HyperFSAD.of(self._settings))

    def get(self, path: Path) -> HyperFSAD:
        """The detector of a file; the one that was used longest ago makes room for it."""
        if path not in self._loaded:
            self._loaded[path] = self.load(path)
        self._loaded.move_to_end(path)
        while len(self._loaded) > MAX_DETECTORS:
            self._loaded.popitem(last=False)
        return self._loaded[path]

    def of(self, settings: Settings) -> HyperFSAD:
        """A new one that has learnt nothing yet."""
        return self._with_encoder(HyperFSAD.of(settings))

    def copy(self, path: Path) -> HyperFSAD:
        return copy.deepcopy(self.get(path))

    def load(self, path: Path) -> HyperFSAD:
        """Reads a detector file through its checks.

        The place of an encoder that a file names is never opened: a file may come from a
        stranger. The encoder is one that this machine has, or the station's own.
        """
        opened = open_file(path)
        encoder = opened.first["encoder"]
        name, own = encoder["name"], self.unfitted.encoding_.name
        choices = ("device", "engine", "precision", "batch_size")
        machine = {choice: getattr(self._settings, choice) for choice in choices}
        if name not in REGISTRY:
            if own in REGISTRY:
                raise UsageError("detector-encoder-folder", encoder=own)
            machine["backbone"] = own
        elif name != own and cached_folder(find_spec(name)) is None:
            raise UsageError("detector-encoder-missing", encoder=name)
        return self._with_encoder(HyperFSAD.load(opened, **machine))

    def _with_encoder(self, detector: HyperFSAD) -> HyperFSAD:
        """One encoder for all detectors of the same settings."""
        for settings, encoder in self._encoders:
            if settings == detector.encoding_ and not encoder.is_broken:
                detector.use_encoder(encoder)
                return detector
        self._encoders.append((detector.encoding_, detector.encoder_))
        return detector


@dataclass(frozen=True, eq=False)
class _Job:
    """Either an image for a detector, or other work."""

    future: "Future[Any]"
    detector: Path | None = None
    image: Picture | None = None
    work: "Callable[[Detectors], Any] | None" = None


class StationEngine:
    """The queue and its thread."""

    def __init__(self, settings: Settings, *, max_queue: int = 64) -> None:
        self.max_queue = max_queue
        self.problem: str | None = None
        """Why the encoder could not be loaded, if so."""
        self.ready = False
        self.batches = 0
        self._seconds = 0.5  # for an image, the recent ones counting most
        self._detectors = Detectors(settings)
        self._queue: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._reserved = 0
        self._thread = threading.Thread(target=self._run, name="hyperfsad-engine", daemon=True)

    def start(self) -> None:
        """Loads the encoder, then works."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after all that is waiting is done."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    @property
    def waiting(self) -> int:
        with self._changed:
            return sum(not job.future.cancelled() for job in self._queue)

    def check_room(self) -> None:
        """Refuses when the queue is full; asked before anything is uploaded."""
        with self.reserved(1):
            pass

    @contextlib.contextmanager
    def reserved(self, count: int) -> Iterator[Enter]:
        """Places for images before they are decoded: what may wait bounds the memory.

        Yields the function that puts images on these places, and gives back the others.
        """
        left = count
        with self._changed:
            self._require_room(count)
            self._reserved += count

        def enter(detector: Path, images: Sequence[Picture]) -> "list[Future[AnomalyResult]]":
            nonlocal left
            jobs = [_Job(Future(), detector, image) for image in images]
            with self._changed:
                self._reserved, left = self._reserved - left, 0
                self._enter(jobs)
            return [job.future for job in jobs]

        try:
            yield enter
        finally:
            with self._changed:
                self._reserved -= left

    def call(self, work: Callable[[Detectors], Found]) -> "Future[Found]":
        """A place in the queue for other work with detectors."""
        job = _Job(Future(), work=work)
        with self._changed:
            self._require_room(1)
            self._enter([job])
        return job.future

    def _enter(self, jobs: Sequence[_Job]) -> None:
        if self._stopping:
            raise BusyError("station-stopping", retry_after=5)
        self._queue.extend(jobs)
        self._changed.notify()

    def _require_room(self, count: int) -> None:
        taken = self.waiting + self._reserved
        if taken + count > self.max_queue:
            seconds = max(1, math.ceil(self._seconds * taken))
            raise BusyError("queue-full", taken=taken, limit=self.max_queue, retry_after=seconds)

    def _run(self) -> None:
        try:
            self._detectors.unfitted  # noqa: B018 (missing weights show before the first image)
        except Exception as error:
            self.problem = station_text(error) if isinstance(error, HyperfsadError) else str(error)
            LOG.error("the encoder could not be loaded: %s", self.problem)
        self.ready = True
        while jobs := self._next():
            if jobs[0].work is None:
                self._inspect(jobs)
                continue
            try:
                jobs[0].future.set_result(jobs[0].work(self._detectors))
            except BaseException as error:
                jobs[0].future.set_exception(error)

    def _next(self) -> list[_Job]:
        """Other work, or all images that wait for the detector of the first; nothing at the end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._queue or self._stopping)
                if not self._queue:
                    return []
                first = self._queue[0].detector
                same = [job for job in self._queue if job.detector == first]
                taken = same[: 1 if first is None else MAX_BATCH]
                self._queue = deque(job for job in self._queue if job not in taken)
                jobs = [job for job in taken if job.future.set_running_or_notify_cancel()]
                if jobs:
                    return jobs

    def _inspect(self, jobs: list[_Job]) -> None:
        """Answers each as soon as its result is there."""
        began = time.monotonic()
        left = list(jobs)
        try:
            assert jobs[0].detector is not None
            detector = self._detectors.get(jobs[0].detector)
            sources = (job.image.load() for job in jobs if job.image is not None)
            for result in detector.predict_many(sources, keep_pictures=True):
                left.pop(0).future.set_result(result)
        except BaseException as error:
            if len(jobs) > 1:
                for job in left:  # one bad picture must not spoil the others
                    self._inspect([job])
            elif left:
                left[0].future.set_exception(error)
        self.batches += 1
        self._seconds += 0.2 * ((time.monotonic() - began) / len(jobs) - self._seconds)
