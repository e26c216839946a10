"""One thread owns the encoder and the detectors; all others wait in one bounded line.

Images that wait for the same detector are judged together, whoever sent them. Who goes away while
waiting leaves the line: a cancelled future is passed over.
"""

import contextlib
import copy
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ..detector.detector import HyperFSAD
from ..encoders import REGISTRY, EncoderSettings, find_spec
from ..encoders.encoder import Encoder
from ..encoders.runtime import engine_in, named_engine, precision_in, precision_of
from ..encoders.weights import cached_folder
from ..errors import UsageError
from ..images.loading import LoadedImage
from ..results.result import AnomalyResult
from .faults import BusyError

Found = TypeVar("Found")

TOGETHER = 32
"""Images that are taken from the line at once; more would let others wait too long."""
CACHED = 8
"""Detectors in memory; a memory bank of four parts takes some 20 MB."""


class Loadable(Protocol):
    """An image in the line."""

    def load(self) -> LoadedImage:
        """The picture; large ones are decoded only when it is their turn."""
        ...


@dataclass(frozen=True, eq=False)
class _Job:
    """Either an image for a detector, or other work."""

    future: "Future[Any]"
    detector: Path | None = None
    image: Loadable | None = None
    work: "Callable[[Detectors], Any] | None" = None


class Detectors:
    """The detectors that the thread has in memory, by their files; none is ever changed in place.

    A detector file is named by its hash, so a product that has changed has another file.
    """

    def __init__(self, make: Callable[[], HyperFSAD], machine: dict[str, Any]) -> None:
        """`make` gives a detector that has learnt nothing; `machine` is how files are loaded."""
        self._make, self._machine = make, machine
        self._plain: HyperFSAD | None = None
        self._known: OrderedDict[Path, HyperFSAD] = OrderedDict()
        self._encoders: list[tuple[EncoderSettings, Encoder]] = []

    @property
    def plain(self) -> HyperFSAD:
        """What new products are made of; its encoder is loaded."""
        if self._plain is None:
            plain = self._make()
            self._share(plain)
            self._plain = plain
        return self._plain

    def new(self) -> HyperFSAD:
        """A detector that has learnt nothing."""
        return self.plain.unfitted()

    def get(self, path: Path) -> HyperFSAD:
        """The detector of a file."""
        if path in self._known:
            self._known.move_to_end(path)
            return self._known[path]
        found = self.load(path)
        self.put(path, found)
        return found

    def put(self, path: Path, detector: HyperFSAD) -> None:
        """Keeps a detector whose file was just written; drops the one that was used longest ago."""
        self._known[path] = detector
        while len(self._known) > CACHED:
            self._known.popitem(last=False)

    def changeable(self, path: Path) -> HyperFSAD:
        """A copy to change."""
        return copy.deepcopy(self.get(path))

    def load(self, path: Path) -> HyperFSAD:
        """Reads a detector file through its checks.

        The place of an encoder that a file names is never looked at: a file may come from a
        stranger. It is one that this machine has, or the station's own.
        """
        from ..detector.file import open_file

        opened = open_file(path)
        encoder = opened.first["encoder"]
        name, own = encoder["name"], self.plain.encoding_.name
        made, here = precision_in(encoder["fingerprint"]), self._precision()
        if made != here:  # one encoder serves all, and a graph of 8 bits is a stranger's
            raise UsageError(
                f"The detector computes in {made}, and this station in {here}; fit it with"
                f" --engine {engine_in(here)}."
            )
        if name in REGISTRY:
            if name != own and cached_folder(find_spec(name)) is None:
                raise UsageError(
                    f"The detector needs the encoder {name}, which this station does not have;"
                    f" bring it with `hyperfsad encoders fetch {name}`."
                )
            found = HyperFSAD.load(opened, **self._machine)
        elif own in REGISTRY:
            raise UsageError(
                "The detector was made with an encoder of another machine's folder, and this"
                f" station works with {own}; fit it with {own}."
            )
        else:
            found = HyperFSAD.load(opened, **{**self._machine, "backbone": own})
        self._share(found)
        return found

    def _precision(self) -> str:
        return precision_of(named_engine(self._machine.get("engine", "auto")))

    def _share(self, detector: HyperFSAD) -> None:
        """One encoder for all detectors of the same settings."""
        for settings, encoder in self._encoders:
            if settings == detector.encoding_ and not encoder.is_broken:
                detector.use_encoder(encoder)
                return
        self._encoders.append((detector.encoding_, detector.encoder_))


@dataclass
class Figures:
    """What the engine has done, for the metrics."""

    judged: int = 0
    batches: int = 0
    seconds: float = field(default=0.5)
    """For an image, the recent ones counting most."""


class Engine:
    """The line and its thread."""

    def __init__(
        self, make: Callable[[], HyperFSAD], machine: dict[str, Any], *, max_queue: int = 64
    ) -> None:
        self.max_queue = max_queue
        self.figures = Figures()
        self.problem: str | None = None
        """Why the encoder could not be loaded, if so."""
        self.ready = False
        self._detectors = Detectors(make, machine)
        self._line: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._ending = False
        self._reserved = 0
        self._thread = threading.Thread(target=self._run, name="hyperfsad-engine", daemon=True)

    def start(self) -> "Engine":
        """Loads the encoder, then works."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ends after all that is waiting is done."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join()

    @property
    def waiting(self) -> int:
        """How many stand in the line."""
        with self._changed:
            return self._occupied()

    def check_room(self, count: int = 1) -> None:
        """Refuses when so many more have no place; asked before anything is uploaded."""
        with self._changed:
            self._require_room(count)

    @contextlib.contextmanager
    def reserved(self, count: int) -> "Iterator[Places]":
        """Places for so many images, before they are decoded: what may wait bounds the memory."""
        with self._changed:
            self._require_room(count)
            self._reserved += count
        places = Places(self, count)
        try:
            yield places
        finally:
            with self._changed:
                self._reserved -= places.count

    def take(self, places: "Places", jobs: "Sequence[_Job]") -> None:
        """Puts images on the places that were reserved for them."""
        with self._changed:
            self._reserved -= places.count
            places.count = 0
            self._enter(jobs)

    def call(self, work: Callable[[Detectors], Found]) -> "Future[Found]":
        """A place in the line for other work with detectors."""
        job = _Job(Future(), work=work)
        self._add([job])
        return job.future

    def _add(self, jobs: Sequence[_Job]) -> None:
        with self._changed:
            self._require_room(len(jobs))
            self._enter(jobs)

    def _enter(self, jobs: Sequence[_Job]) -> None:
        if self._ending:
            raise BusyError("The station is stopping; ask again when it is back.", 5)
        self._line.extend(jobs)
        self._changed.notify()

    def _occupied(self) -> int:
        return sum(not job.future.cancelled() for job in self._line)

    def _require_room(self, count: int) -> None:
        taken = self._occupied() + self._reserved
        if taken + count > self.max_queue:
            seconds = max(1, math.ceil(self.figures.seconds * taken))
            raise BusyError(
                f"{taken} of {self.max_queue} places in the line are taken; ask again in"
                f" {seconds} s.",
                seconds,
            )

    def _run(self) -> None:
        try:
            self._detectors.plain  # noqa: B018 (missing weights are told before the first image)
        except Exception as error:
            self.problem = str(error)
        self.ready = True
        while jobs := self._next():
            if jobs[0].work is not None:
                _fulfil(jobs[0].future, lambda: jobs[0].work(self._detectors))  # type: ignore[misc]
            else:
                self._judge(jobs)

    def _next(self) -> list[_Job]:
        """Other work, or all images that wait for the detector of the first; nothing at the end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._line or self._ending)
                if not self._line:
                    return []
                first = self._line[0].detector
                together = [job for job in self._line if job.detector == first][:TOGETHER]
                taken = together if first is not None else together[:1]
                self._line = deque(job for job in self._line if job not in taken)
                jobs = [job for job in taken if job.future.set_running_or_notify_cancel()]
                if jobs:
                    return jobs

    def _judge(self, jobs: list[_Job]) -> None:
        """Answers each as soon as its result is there."""
        began = time.monotonic()
        left = list(jobs)
        try:
            assert jobs[0].detector is not None
            detector = self._detectors.get(jobs[0].detector)
            sources = (job.image.load() for job in jobs if job.image is not None)
            for result in detector.predict(sources, keep_pictures=True):
                left.pop(0).future.set_result(result)
        except BaseException as error:
            if len(jobs) > 1 and left:
                for job in left:  # one bad picture must not spoil the others
                    self._judge([job])
            else:
                for job in left:
                    job.future.set_exception(error)
        figures = self.figures
        figures.judged += len(jobs)
        figures.batches += 1
        figures.seconds += 0.2 * ((time.monotonic() - began) / len(jobs) - figures.seconds)


class Places:
    """Places in the line that nobody else gets."""

    def __init__(self, engine: Engine, count: int) -> None:
        self._engine, self.count = engine, count

    def inspect(self, detector: Path, images: Sequence[Loadable]) -> "list[Future[AnomalyResult]]":
        """Lets images wait for a detector; places without an image are given back."""
        jobs = [_Job(Future(), detector, image) for image in images]
        self._engine.take(self, jobs)
        return [job.future for job in jobs]


def _fulfil(future: "Future[Any]", work: Callable[[], Any]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
