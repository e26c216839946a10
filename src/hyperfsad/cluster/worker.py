"""A detector in a process of its own, loaded once; it takes chunks of images and writes parts."""

import os
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..detector.pipeline import BackgroundWriter
from ..disk.files import stamp_of
from ..errors import HyperfsadError, ImageError, first_line, reason
from ..images.loading import LoadedImage, batched, read_image
from ..report.folder import write_files
from ..report.parquet import as_unicode
from ..report.records import Record, Totals, file_name, make_record
from ..results.result import AnomalyResult
from .output import STAMP, part_content, part_name, read_part
from .sources import Chunk, ImageRef
from .storage import StorageFolder, fetch_files, is_local, read_files

if TYPE_CHECKING:
    from ..detector.protocols import Inspecting

FETCHED_TOGETHER = 8
"""Images that are fetched side by side from elsewhere: an object store answers late, but many."""


@dataclass(frozen=True)
class InspectionJob:
    """What every worker needs to know."""

    output: str
    detector: str
    """The name of the detector's file or folder, for sentences."""
    files: dict[str, bytes] = field(repr=False)
    """The content of the detector's files; none: it is fetched from `detector`."""
    folder: str = "."
    """What relative paths begin at."""
    heatmaps: bool = True
    maps: bool = False
    min_area: float = 0.0
    threads: int = 1
    machine: dict[str, Any] = field(default_factory=dict)
    """Backbone, device, engine, precision and batch size."""


@dataclass(frozen=True)
class ChunkAnswer:
    """What a worker did with a chunk, or why the whole run must stop."""

    chunk: Chunk
    notes: tuple[str, ...] = ()
    totals: Totals | None = None
    error: HyperfsadError | None = None


class Inspector:
    """Called with tables of one row, a chunk each; answers with one row on what was done.

    What stops the whole run is an answer too: Ray would try it again.
    """

    def __init__(self, job: InspectionJob) -> None:
        self.job = job
        self._notes: list[str] = []
        self._refusal: HyperfsadError | None = None
        if os.path.isdir(job.folder):
            os.chdir(job.folder)
        self._scratch = tempfile.TemporaryDirectory(prefix="hyperfsad-")
        try:
            self._output = StorageFolder(job.output)
            self._detector = self._loaded()
            self._detector.min_area = job.min_area
            options = f"{job.min_area:g} {job.heatmaps:d}{job.maps:d}"
            self._run = f"{self._detector.identity()} {options}"
        except HyperfsadError as error:
            facts = {name: self._as_sent(value) for name, value in error.facts.items()}
            self._refusal = type(error)(error.code, **facts)

    def __call__(self, batch: Any) -> Any:
        """What Ray calls."""
        import pyarrow as pa

        chunks = map(pickle.loads, batch.column("chunk").to_pylist())
        return pa.table({"answer": [pickle.dumps(self.answer(chunk)) for chunk in chunks]})

    def answer(self, chunk: Chunk) -> ChunkAnswer:
        """What was done with a chunk, or why nothing can be done."""
        answer = ChunkAnswer(chunk, error=self._refusal)
        try:
            if chunk.images and self._refusal is None:
                answer = replace(answer, totals=self._inspect(chunk))
        except HyperfsadError as error:
            answer = replace(answer, error=error)
        except OSError as error:
            facts = {"address": error.filename or self.job.output, "why": reason(error)}
            answer = replace(answer, error=HyperfsadError("storage-unwritable", **facts))
        notes, self._notes = tuple(self._notes), []
        return replace(answer, notes=notes)

    def _inspect(self, chunk: Chunk) -> Totals:
        """Inspects the images of a chunk that are not done, and writes its part; as in a local run
        that is resumed, what failed is tried again."""
        names, part = [image.name for image in chunk.images], part_name(chunk.key)
        stamps = list(map(_current_stamp, chunk.images))
        run, earlier = read_part(self._output, part)
        records: dict[str, Record] = {}
        for name, stamp in zip(names, stamps, strict=True):
            row = earlier.get(as_unicode(name), {STAMP: None, "error": ""})
            if run == self._run and row[STAMP] == stamp and row["error"] is None:
                records[name] = {field: value for field, value in row.items() if field != STAMP}
        done_before = len(records)
        if done_before < len(names) or len(earlier) > done_before:
            records |= self._scored([name for name in names if name not in records])
            ordered = [records[name] for name in names]
            self._output.write(part, part_content(ordered, stamps, self._run))
        return Totals.of(records.values(), done_before)

    def _scored(self, names: Sequence[str]) -> dict[str, Record]:
        records: dict[str, Record] = {}
        failed: list[AnomalyResult] = []

        def add(result: AnomalyResult) -> None:
            picture = result.shown() if self.job.heatmaps and result.error is None else None
            name = file_name(result.image)
            written = write_files(result, name, picture, self.job.maps, self._output.write)
            records[result.image] = make_record(result, written)

        with BackgroundWriter(add) as writer:
            images = _images(names, failed)
            for result in self._detector.predict_many(images, keep_pictures=self.job.heatmaps):
                writer.put(result)
        for result in failed:
            add(result)
        return records

    def _loaded(self) -> "Inspecting":
        """The detector, from what the driver has sent or from where it lies."""
        job = self.job
        target = Path(self._scratch.name, os.path.basename(job.detector.rstrip("/")) or "detector")
        for name, content in (job.files or read_files(job.detector)).items():
            path = target / name if name else target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if target.is_dir():
            from ..export.exported import ExportedDetector

            batch = job.machine.get("batch_size")
            return ExportedDetector(target, threads=job.threads, batch_size=batch)
        from ..detector.products import load_detector
        from ..encoders.encoder import use_threads

        use_threads(job.threads)
        return load_detector(target, notify=self._notes.append, **job.machine)

    def _as_sent(self, fact: Any) -> Any:
        """A path of the worker's copy of the detector as the driver knows it."""
        path, scratch = str(fact), self._scratch.name + os.sep
        return path.removeprefix(scratch) if path.startswith(scratch) else fact


def _images(names: Sequence[str], failed: list[AnomalyResult]) -> Iterator[str | LoadedImage]:
    """Paths of this machine as they are, which a detector reads as in a local run; pictures from
    elsewhere, fetched in time."""
    remote: dict[str, list[str]] = {}
    for name in names:
        if is_local(name):
            yield name
        else:
            remote.setdefault(name.split("://")[0], []).append(name)
    for group in (g for of in remote.values() for g in batched(of, FETCHED_TOGETHER)):
        for name, content in zip(group, fetch_files(group), strict=True):
            try:
                if isinstance(content, FileNotFoundError):
                    raise ImageError("storage-missing", address=name)
                if isinstance(content, Exception):
                    why = first_line(content)
                    raise ImageError("storage-unreadable", address=name, why=why) from content
                yield read_image(content, name)
            except ImageError as error:
                failed.append(AnomalyResult.failed(name, str(error)))


def _current_stamp(image: ImageRef) -> str | None:
    """What tells whether an image has changed: of a file here its size and time."""
    if not is_local(image.name):
        return image.stamp
    found = stamp_of(image.name)
    return None if found is None else f"{found[0]} {found[1]}"
