"""The main job, from images to a folder of results: read ahead, encode, score, decide, write.

`inspect` is all of it. `predict` and `predict_many` are its first part, for every detector that can
prepare an image and judge a few of them, exported ones too; `Levels` decides,
`BackgroundWriter` writes. One bad image never stops a run: it gets a result with an error, and the
others go on.
"""

import math
import os
import queue
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ..decisions.defects import TaughtDefects
from ..decisions.regions import Region, find_regions
from ..decisions.thresholds import Calibration
from ..errors import HyperfsadError, ImageError, NotFiniteError, UsageError
from ..images import reading
from ..images.loading import (
    ChannelOrder,
    FileContent,
    ImageSource,
    LoadedImage,
    NamedFile,
    batched,
    kept,
)
from ..images.reading import Images, check_one_image, find_images, lies_in, single_images
from ..messages import Notice, Notify, debug, log
from ..method.scoring import TokenScore
from ..report.folder import OutputFolder
from ..report.page import ProductSummary
from ..report.records import Record
from ..results.result import AnomalyResult, Explainer
from .protocols import Inspecting

Item = TypeVar("Item")
WRITE_BEHIND = 2
"""Items that wait to be written: a picture of 12 million pixels takes 48 MB."""


class Named(Protocol):
    """An image that is prepared for an encoder."""

    @property
    def name(self) -> str:
        """What errors call it."""


Prepared = TypeVar("Prepared", bound=Named)


class Steps(Protocol[Prepared]):
    """What a detector does with images, step by step."""

    @property
    def batch(self) -> int:
        """Images that are judged at once."""

    @property
    def read_ahead(self) -> int:
        """Images that are prepared before they are needed."""

    def prepare(self, source: ImageSource | LoadedImage, keep_picture: bool) -> Prepared:
        """Reads an image and prepares it for the encoder; may run in another thread."""

    def judge(self, images: Sequence[Prepared]) -> list[AnomalyResult]:
        """Encodes, scores and decides: the results of a few images, as one batch."""


def inspect(
    detector: Inspecting,
    images: Images,
    out: str | os.PathLike[str] = "out",
    *,
    heatmaps: bool = True,
    maps: bool = False,
    parquet: bool = False,
    formats: Collection[str] = (),
    resume: bool = False,
    wait: bool = False,
    notify: Notify = log,
    progress: Callable[[Iterable[Any], str, int], Iterable[Any]] = lambda items, *_: items,
) -> list[Record]:
    """Inspects images and writes the folder of results; returns their records.

    `images` is a folder, a glob or paths. `heatmaps`, `maps` and `parquet` say which pictures,
    arrays and tables for other programs are written, and `formats` for which: cvat, fiftyone,
    label-studio, yolo (COCO is always written). `resume` keeps what an interrupted run has
    finished, `wait` waits for another process that writes to the same folder.
    """
    folder = Path(out)
    paths = _paths(images, folder)
    output = OutputFolder(
        folder,
        run=f"{detector.identity()} {detector.min_area:g}",
        heatmaps=heatmaps,
        maps=maps,
        parquet=parquet,
        formats=formats,
        products=[
            ProductSummary(one.support_, name, one.threshold_, one.threshold_from_)
            for name, one in detector.products_.items()
        ],
    )
    with output.open(resume=resume, wait=wait, notify=notify):
        todo = [path for path in paths if path not in output]
        if len(todo) < len(paths):
            notify(Notice("images-done-before", count=len(paths) - len(todo)))
        results = detector.predict_many(todo, keep_pictures=heatmaps)
        try:
            with BackgroundWriter(output.add) as writer:
                for result in progress(results, "detecting", len(todo)):
                    writer.put(result)
        except (KeyboardInterrupt, HyperfsadError, OSError):
            done = sum(path in output for path in paths)
            notify(Notice("inspection-stopped", done=done, total=len(paths)))
            raise
        return output.finish(paths)


def _paths(images: Images, out: Path) -> list[str]:
    """The paths of images; pictures that an earlier run wrote to the folder are none of them."""
    if isinstance(images, str | os.PathLike):
        return outside(find_images([images]).paths, out)
    found = []
    for image in single_images(images):
        if not isinstance(image, str | os.PathLike):
            raise UsageError("inspect-needs-paths")
        found.append(os.fspath(image))
    return found


def outside(paths: Iterable[str], out: Path) -> list[str]:
    """The images that do not lie in the folder of results."""
    found = [path for path in paths if not lies_in(path, out)]
    if not found:
        raise UsageError("all-images-in-output", folder=out)
    return found


def predict(
    steps: Steps[Any], source: ImageSource | LoadedImage, channels: ChannelOrder, keep_picture: bool
) -> AnomalyResult:
    """The result of one image; see `HyperFSAD.predict`."""
    check_one_image(source)
    image = steps.prepare(kept(source, channels), keep_picture)
    try:
        found = steps.judge([image])[0]
        debug(f"{found.image}: {found.verdict}")
        return found
    except NotFiniteError as error:
        raise not_judged(image.name, error) from error


def predict_many(
    steps: Steps[Any], images: Images, channels: ChannelOrder, keep_pictures: bool
) -> Iterator[AnomalyResult]:
    """Lazily the results of many images; see `HyperFSAD.predict_many`."""
    return predict_each(steps, single_images(images, channels), keep_pictures)


def predict_each(
    steps: Steps[Any], sources: Iterable[ImageSource | LoadedImage], keep_pictures: bool = False
) -> Iterator[AnomalyResult]:
    """The results of many images, in their order; a thread of its own prepares them."""

    def prepare(source: ImageSource | LoadedImage) -> Any:
        try:
            return steps.prepare(source, keep_pictures)
        except ImageError as error:
            if isinstance(source, LoadedImage | NamedFile | FileContent):
                name = source.name
            else:
                name = os.fspath(source) if isinstance(source, str | os.PathLike) else "image"
            return AnomalyResult.failed(name, str(error))

    batch = steps.batch
    with closing(reading.read_ahead(prepare, sources, max(steps.read_ahead, batch))) as images:
        for several in batched(images, batch):
            readable = [image for image in several if not isinstance(image, AnomalyResult)]
            results = iter(_judged(steps, readable))
            found = [each if isinstance(each, AnomalyResult) else next(results) for each in several]
            several.clear()  # pictures go before others are read
            readable.clear()
            for result in found:
                debug(f"{result.image}: {result.verdict}")
                yield result


def _judged(steps: Steps[Prepared], images: Sequence[Prepared]) -> list[AnomalyResult]:
    """A result for each; NaN or infinity is the error of its image alone."""
    if not images:
        return []
    try:
        return steps.judge(images)
    except NotFiniteError as error:
        if len(images) > 1:
            return [result for one in images for result in _judged(steps, [one])]
        return [AnomalyResult.failed(images[0].name, str(not_judged(images[0].name, error)))]


def not_judged(name: str, error: NotFiniteError) -> NotFiniteError:
    """The error of an image, which had no name where it was found."""
    return NotFiniteError("result-not-finite", name=name, cause=error)


@dataclass(frozen=True)
class Levels:
    """What scores and maps are held against."""

    threshold: float | None
    map_threshold: float | None
    """Above it a place of the map counts as a defect; without it results have no regions."""
    threshold_from: str | None
    """How the threshold came about, in a few words."""
    calibration: Calibration | None
    foreign: float | None
    """Beyond this distance of CLS tokens an image looks like another product."""
    scale: tuple[float, float]
    """The colour scale of pictures of maps."""
    min_area: float = 0.0
    """Regions of fewer pixels of the image are left out."""
    defects: TaughtDefects | None = None
    """By which the defect of an anomalous image is named."""

    def __post_init__(self) -> None:
        """Refuses thresholds that were set to what nothing lies above."""
        for level in (self.threshold, self.map_threshold):
            if level is not None and not math.isfinite(level):
                raise UsageError("threshold-not-finite", given=level)

    def result(
        self,
        name: str,
        size: tuple[int, int],
        source: ImageSource | None,
        picture: LoadedImage | None,
        scored: TokenScore,
        detector: "weakref.ref[Explainer] | None" = None,
    ) -> AnomalyResult:
        """What is said of an image, given its scores."""
        regions: tuple[Region, ...] = ()
        if self.map_threshold is not None:
            regions = find_regions(
                scored.anomaly_map, size, self.map_threshold, self.min_area, scored.missing
            )
        calibration, foreign = self.calibration, self.foreign
        found = AnomalyResult(
            name,
            scored.branches,
            scored.anomaly_map,
            size,
            self.scale,
            source,
            self.threshold,
            regions,
            picture=picture,
            map_threshold=self.map_threshold,
            threshold_from=self.threshold_from,
            p_value=calibration.p_value(scored.score, scored.peak) if calibration else None,
            foreign=None if foreign is None else scored.branches.values["cls"] > foreign,
            inside=scored.inside,
            detector=detector,
        )
        if not found.anomalous or self.defects is None or not self.defects.examples:
            return found
        named = self.defects.name(scored.signature)
        return replace(found, defect=named.defect, defect_score=named.likeness)


class BackgroundWriter(Generic[Item]):
    """Does `work` on items in a thread of its own, in their order, while the caller goes on.

    Leaving the `with` block waits until all is done, also after an interruption. An error of the
    work is raised by the next `put` or on leaving; items after it are skipped.
    """

    def __init__(self, work: Callable[[Item], None], count: int = WRITE_BEHIND) -> None:
        self._work = work
        self._waiting: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(count)
        self._error: BaseException | None = None
        self._hurry = False
        self._thread = threading.Thread(target=self._run, name="hyperfsad-writer", daemon=True)

    def put(self, item: Item) -> None:
        """Hands an item over; waits while too many are waiting already."""
        self._room.acquire()
        if self._error is not None:
            raise self._error
        self._waiting.put(item)

    def __enter__(self) -> "BackgroundWriter[Item]":
        self._thread.start()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._waiting.put(None)
        try:
            self._thread.join()
        except KeyboardInterrupt:  # the second: only what is half written is finished
            self._hurry = True
            self._thread.join()
            raise
        if self._error is not None and self._error is not error:
            raise self._error

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            self._room.release()
            if self._error is None and not self._hurry:
                try:
                    self._work(item)
                except BaseException as error:
                    self._error = error
