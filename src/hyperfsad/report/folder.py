"""The output folder of a run: results, regions, heat maps, maps and the report.

Finished records go to a journal first; results.jsonl appears when the run is complete. So an
interrupted run loses nothing, never looks complete, and can be resumed. Memory only holds a few
words on each image: all files are streamed from the journal.
"""

import io
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..disk.files import (
    FileStamp,
    append_object,
    atomic_path,
    explain_os_errors,
    folder_lock,
    read_objects,
    stamp_of,
    write_file,
)
from ..errors import UsageError
from ..images.loading import picture_file
from ..messages import Notice, Notify, log
from ..results.heatmap import map_overlay, thumbnail
from ..results.result import AnomalyResult
from .interchange import FORMAT_FILES, FORMATS, check_format
from .interchange.coco import coco_json
from .interchange.yolo import clear_yolo
from .page import ProductSummary, report_html
from .pages import write_page
from .parquet import check_parquet, write_parquet
from .records import RECORDS_FILE, Record, file_name, make_record, regions_csv, results_csv

if TYPE_CHECKING:
    from PIL import Image

JOURNAL = "results.partial.jsonl"
DONE_JOURNAL = ".results.done.jsonl"
"""The journal of a finished run: because of it, resuming finds nothing left to do."""
PARQUET = "results.parquet"
TABLES = ("results.csv", "regions.csv", "coco.json", PARQUET)
RESULT_FILES = (RECORDS_FILE, *TABLES, *FORMAT_FILES, "report.html")

Entry: TypeAlias = dict[str, Any]
"""The stamp of an image's file, its record, and its small pictures."""
WriteFile: TypeAlias = Callable[[str, memoryview], None]
"""Takes a path in the output folder and the content."""


class OutputFolder:
    """Takes results one by one, and closes the run with `finish()`."""

    def __init__(
        self,
        folder: Path,
        *,
        run: str,
        heatmaps: bool = True,
        maps: bool = False,
        parquet: bool = False,
        formats: Collection[str] = (),
        products: Sequence[ProductSummary] = (),
    ) -> None:
        """`run` identifies the detector and the options; a journal of another run is not resumed.

        The report shows the normal images and the threshold of each of the `products`.
        """
        self.folder = folder
        if parquet:
            check_parquet()
        for name in formats:
            check_format(name)
        self._heatmaps, self._maps, self._parquet = heatmaps, maps, parquet
        self._formats, self._products = formats, products
        self._journal = Journal(folder / JOURNAL, {"run": run, "heatmaps": heatmaps, "maps": maps})
        self._stale: set[str] = set()
        self._lock = folder_lock(folder)

    def open(
        self, *, resume: bool = False, wait: bool = False, notify: Notify = log
    ) -> "OutputFolder":
        """Makes the folder, and keeps other processes out of it until the end.

        With `resume`, keeps what an earlier run has finished; with `wait`, lets another process
        finish that writes there.
        """
        with explain_os_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._lock.acquire(wait=wait, notify=notify)
        try:
            self._start(resume, notify)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, resume: bool, notify: Notify) -> None:
        journals = (self.folder / JOURNAL, self.folder / DONE_JOURNAL)
        earlier = next((path for path in journals if any(read_objects(path))), None)
        results = self.folder / RECORDS_FILE
        if "stamp" in next(read_objects(results), {}):
            # they say which images are done, so they are never replaced
            raise UsageError("output-of-watch", folder=self.folder)
        self._stale = written_files(read_objects(results))
        if earlier is not None:
            entries = read_objects(earlier)
            self._stale |= written_files(entry.get("record", {}) for entry in entries)
        unfinished = (self.folder / JOURNAL).exists()
        self._journal.start(earlier if resume else None, self._is_finished)
        replaced = [name for name in RESULT_FILES if (self.folder / name).exists()]
        if unfinished and not len(self._journal):
            notify(Notice("unfinished-run-replaced", folder=self.folder))
        if replaced and not len(self._journal):
            notify(Notice("results-replaced", folder=self.folder, files=", ".join(replaced)))

    def __enter__(self) -> "OutputFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()
        self._lock.release()

    def __contains__(self, image: str) -> bool:
        """Whether the image is finished and has not changed since."""
        return image in self._journal

    def add(self, result: AnomalyResult) -> None:
        """Writes the pictures of one result and notes its record."""
        drawn = self._heatmaps and result.error is None
        picture = result.shown() if drawn else None
        name = file_name(result.image)
        written = write_files(result, name, picture, self._maps, into_folder(self.folder))
        entry: Entry = {"stamp": stamp_of(result.image), "record": make_record(result, written)}
        if picture is not None:
            overlay = map_overlay(result.anomaly_map, result.scale)
            entry["picture"] = {"jpeg": thumbnail(picture), "map": overlay}
        self._journal.add(entry)

    def finish(self, images: list[str]) -> list[Record]:
        """Writes the results in the order of the images.

        Returns their records, with the number of regions instead of the regions.
        """

        def records() -> Iterator[Record]:
            return (entry["record"] for entry in self._journal.entries(images))

        brief = [{**record, "regions": len(record["regions"])} for record in records()]
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records())
        write_page(self.folder / RECORDS_FILE, lines)
        write_page(self.folder / "results.csv", results_csv(records()))
        stale = self._stale - written_files(brief)
        sought = any(record["map_threshold"] is not None for record in brief)
        formats = self._formats if sought else ()
        if sought:
            write_page(self.folder / "regions.csv", regions_csv(records()))
            write_page(self.folder / "coco.json", coco_json(records))
        else:
            stale |= {"regions.csv", "coco.json"}
        stale |= set(FORMAT_FILES)
        if "yolo" not in formats:
            clear_yolo(self.folder)
        for name in formats:
            write, files = FORMATS[name]
            write(self.folder, records)
            stale -= set(files)
        if self._parquet:
            write_parquet(self.folder / PARQUET, records())
        else:
            stale.add(PARQUET)
        page = report_html(brief, self._journal.entries, self._products, self.folder)
        write_page(self.folder / "report.html", page)
        for name in stale:  # files of an earlier run that this one did not write
            (self.folder / name).unlink(missing_ok=True)
        self._journal.close()
        (self.folder / JOURNAL).replace(self.folder / DONE_JOURNAL)
        return brief

    def _is_finished(self, entry: Entry) -> bool:
        record = entry["record"]
        files = written_files([record])
        return record["error"] is None and all((self.folder / name).exists() for name in files)


class Journal:
    """A JSON Lines file: a header that identifies the run, then an entry for each image.

    Memory only holds where each entry lies.
    """

    def __init__(self, path: Path, header: Entry) -> None:
        self.path = path
        self._header = header
        self._file: io.FileIO | None = None
        self._end = 0
        self._places: dict[str, tuple[int, FileStamp | None]] = {}
        """For each image: where its entry begins in the file, and the stamp in it."""

    def start(self, earlier: Path | None, keep: Callable[[Entry], bool]) -> None:
        """Starts a new file with those entries of an earlier journal of the same run to keep."""
        with atomic_path(self.path) as temporary:
            self._file = temporary.open("wb", buffering=0)
            try:
                self._write(self._header)
                entries = read_objects(earlier) if earlier is not None else iter(())
                if next(entries, None) == self._header:
                    for entry in filter(keep, entries):
                        self.add(entry)
            finally:
                self._file.close()
        with explain_os_errors(self.path):
            self._file = self.path.open("ab", buffering=0)  # an entry is on disk at once

    def add(self, entry: Entry) -> None:
        """Notes that an image is finished."""
        start = self._end
        self._write(entry)
        stamp = entry["stamp"] and tuple(entry["stamp"])
        self._places[entry["record"]["image"]] = (start, stamp)

    def __contains__(self, image: str) -> bool:
        """Whether the image is finished and its file has not changed since."""
        return image in self._places and self._places[image][1] == stamp_of(image)

    def __len__(self) -> int:
        return len(self._places)

    def entries(self, images: list[str]) -> Iterator[Entry]:
        """The entries of finished images, read one by one."""
        with explain_os_errors(self.path), self.path.open("rb") as file:
            for image in images:
                file.seek(self._places[image][0])
                yield json.loads(file.readline())

    def close(self) -> None:
        """Nothing more will be written."""
        if self._file is not None:
            self._file.close()

    def _write(self, entry: Entry) -> None:
        assert self._file is not None
        with explain_os_errors(self.path):
            self._end += append_object(self._file, entry)


def into_folder(folder: Path) -> WriteFile:
    """Writes files below a folder."""
    return lambda path, content: write_file(folder / path, content, parents=True)


def write_files(
    result: AnomalyResult,
    name: str,
    picture: "Image.Image | None",
    maps: bool,
    write: WriteFile,
) -> dict[str, str | None]:
    """Writes the heat map, over `picture` where there is one, and the map; returns their paths."""
    written: dict[str, str | None] = {"heatmap": None, "map": None}
    if picture is not None:
        written["heatmap"] = path = f"heatmaps/{name}.jpg"
        write(path, picture_file(result.heat_map().draw(picture), path))
    if maps and result.error is None:
        content = io.BytesIO()
        np.save(content, result.anomaly_map)
        written["map"] = path = f"maps/{name}.npy"
        write(path, content.getbuffer())
    return written


def written_files(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """The files below heatmaps/ and maps/ that the records name."""
    names = {record.get(kind) for record in records for kind in ("heatmap", "map")}
    folders = ("heatmaps", "maps")
    return {name for name in names if isinstance(name, str) and os.path.dirname(name) in folders}
