"""A detector in a process of its own, loaded once; it takes chunks of images and writes parts."""

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import HyperfsadError, ImageError, first_line, reason
from ..images.loading import LoadedImage, batched, read_image
from ..images.reading import Behind
from ..report.exports import Record, make_record
from ..report.folder import file_name, files_of
from ..report.journal import stamp_of
from ..results.result import AnomalyResult
from .parts import STAMP, files_named, part_file, part_name, plain_name, read_part
from .places import Place, contents, is_local, loaded_files
from .totals import Totals

if TYPE_CHECKING:
    from ..detector.cascade import CascadeDetector
    from ..detector.hyperfsad import HyperFSAD
    from ..detector.products import ProductDetector
    from ..export.exported import ExportedDetector

FETCHED = 8
"""Images that are fetched side by side from elsewhere: an object store answers late, but many."""


@dataclass(frozen=True)
class Job:
    """What every worker is told."""

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
    """Backbone, device, engine and batch size."""


class Inspector:
    """Called with tables of one row, a chunk each; answers with one row on what was done.

    What stops the whole run is answered too, in one sentence: Ray would try it again.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self._notes: list[str] = []
        self._refusal: str | None = None
        if os.path.isdir(job.folder):
            os.chdir(job.folder)
        self._scratch = tempfile.TemporaryDirectory(prefix="hyperfsad-")
        try:
            self._place = Place(job.output)
            self._detector = _loaded(job, self._scratch.name, self._notes)
            self._detector.min_area = job.min_area
            options = f"{job.min_area:g} {job.heatmaps:d}{job.maps:d}"
            self._run = f"{self._detector.identity()} {options}"
        except HyperfsadError as error:
            self._refusal = str(error).replace(self._scratch.name + os.sep, "")

    def __call__(self, batch: Any) -> Any:
        """What Ray calls."""
        import pyarrow as pa

        return pa.table({"answer": [json.dumps(self.answer(row)) for row in batch.to_pylist()]})

    def answer(self, row: dict[str, Any]) -> dict[str, Any]:
        """What was done with a chunk, or why nothing can be done."""
        answer: dict[str, Any] = {"key": row["key"], "failed": row["failed"], "fatal": None}
        answer["notes"] = list(row["notes"])
        names = list(map(os.fsdecode, row["images"]))
        if self._refusal is not None:
            return answer | {"fatal": self._refusal}
        try:
            if names:
                answer |= self._inspected(row["key"], names, row["stamps"])
        except HyperfsadError as error:
            answer["fatal"] = str(error)
        except OSError as error:
            answer["fatal"] = f"{error.filename or self.job.output}: {reason(error)}."
        answer["notes"] += self._notes
        self._notes.clear()
        return answer

    def _inspected(
        self, key: str, names: Sequence[str], stamps: Sequence[str | None]
    ) -> dict[str, Any]:
        """Inspects the images of a chunk that are not done, and writes its part."""
        known = [_stamp(name, stamp) for name, stamp in zip(names, stamps, strict=True)]
        run, earlier = read_part(self._place, key)
        records: dict[str, Record] = {}
        for name, stamp in zip(names, known, strict=True):
            row = earlier.get(plain_name(name), {STAMP: None, "error": ""})
            if run == self._run and row[STAMP] == stamp and self._is_finished(row):
                records[name] = {field: value for field, value in row.items() if field != STAMP}
        kept = len(records)
        if kept < len(names) or len(earlier) > kept:
            records |= self._scored([name for name in names if name not in records])
            ordered = [records[name] for name in names]
            self._place.write(part_name(key), part_file(ordered, known, self._run))
        files = set().union(*map(files_named, records.values()))
        stale = set().union(*map(files_named, earlier.values())) - files
        totals = Totals.of(records.values(), kept)
        return {"totals": totals.to_dict(), "stale": sorted(stale)}

    def _is_finished(self, row: Record) -> bool:
        """As for a local run that is resumed: what failed is tried again. Files in an object store
        were written before the row was; asking for each would cost more than it tells."""
        if row["error"] is not None:
            return False
        return not self._place.local or all(map(self._place.exists, files_named(row)))

    def _scored(self, names: Sequence[str]) -> dict[str, Record]:
        records: dict[str, Record] = {}
        failed: list[AnomalyResult] = []

        def add(result: AnomalyResult) -> None:
            drawn = self.job.heatmaps and result.error is None
            picture = result.shown() if drawn else None
            written: dict[str, str | None] = {"heatmap": None, "map": None}
            name = file_name(result.image)
            for kind, path, content in files_of(result, name, picture, self.job.maps):
                self._place.write(path, content)
                written[kind] = path
            records[result.image] = make_record(result, written)

        sources = _sources(names, failed)
        with Behind(add) as writer:
            for result in self._detector.predict(sources, keep_pictures=self.job.heatmaps):
                writer.put(result)
        for result in failed:
            add(result)
        return records


def _sources(names: Sequence[str], failed: list[AnomalyResult]) -> Iterator[str | LoadedImage]:
    """Paths of this machine as they are, which a detector reads as in a local run; pictures from
    elsewhere, fetched in time."""
    here = [name for name in names if is_local(name)]
    yield from here
    there: dict[str, list[str]] = {}
    for name in names:
        if not is_local(name):
            there.setdefault(name.split("://")[0], []).append(name)
    for group in (g for of in there.values() for g in batched(of, FETCHED)):
        for name, content in zip(group, _fetched(group), strict=True):
            try:
                yield read_image(_there(content, name), name)
            except ImageError as error:
                failed.append(AnomalyResult.failed(name, str(error)))


def _fetched(names: Sequence[str]) -> list[bytes | Exception]:
    try:
        return list(contents(names))
    except Exception as error:  # no such bucket, no such file system
        return [error] * len(names)


def _there(content: bytes | Exception, name: str) -> bytes:
    if isinstance(content, FileNotFoundError):
        raise ImageError(f"{name} does not exist.")
    if isinstance(content, Exception):
        raise ImageError(f"{name} cannot be read: {first_line(content)}.") from content
    return content


def _stamp(name: str, listed: str | None) -> str | None:
    """What tells whether an image has changed: of a file here its size and time."""
    if not is_local(name):
        return listed
    found = stamp_of(name)
    return None if found is None else f"{found[0]} {found[1]}"


def _loaded(
    job: Job, scratch: str, notes: list[str]
) -> "HyperFSAD | ProductDetector | CascadeDetector | ExportedDetector":
    """The detector, from what the driver has sent or from where it lies."""
    base = os.path.basename(job.detector.rstrip("/")) or "detector"
    target = Path(scratch, base)
    for name, content in (job.files or loaded_files(job.detector)).items():
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
    return load_detector(target, notify=notes.append, **job.machine)
