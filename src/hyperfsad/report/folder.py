"""The output folder of a run: results, regions, heat maps, maps and the report.

Finished records go to a journal first; results.jsonl appears when the run is complete. So an
interrupted run loses nothing, never looks complete, and can be resumed. Memory only holds a few
words on each image: all files are streamed from the journal.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..disk.files import atomic_path, encoded, explain_os_errors, read_objects, write_file
from ..disk.locks import folder_lock
from ..errors import UsageError
from ..images.loading import NormalImage, picture_file
from ..messages import Notify, silent
from ..results.heatmap import map_overlay, thumbnail
from ..results.result import AnomalyResult
from .exports import Record, coco_json, make_record, regions_csv, results_csv
from .journal import Entry, Journal, stamp_of
from .overview import ProductSummary
from .page import report_html

if TYPE_CHECKING:
    from PIL import Image

JOURNAL = "results.partial.jsonl"
DONE_JOURNAL = ".results.done.jsonl"
"""The journal of a finished run: because of it, `--resume` finds nothing left to do."""
RESULTS = ("results.jsonl", "results.csv", "regions.csv", "coco.json", "report.html")


class OutputFolder:
    """Takes results one by one, and closes the run with `finish()`."""

    def __init__(
        self,
        folder: Path,
        *,
        run: str,
        heatmaps: bool = True,
        maps: bool = False,
        support: Sequence[NormalImage] = (),
        products: Sequence[ProductSummary] = (),
    ) -> None:
        """`run` identifies the detector and the options; a journal of another run is not resumed.

        The report shows the normal images: `support`, or those of each of several `products`.
        """
        self.folder = folder
        self._heatmaps, self._maps = heatmaps, maps
        self._products = tuple(products) or (ProductSummary(tuple(support)),)
        self._journal = Journal(folder / JOURNAL, {"run": run, "heatmaps": heatmaps, "maps": maps})
        self._stale: set[str] = set()
        self._lock = folder_lock(folder)

    def open(
        self, *, resume: bool = False, wait: bool = False, notify: Notify = silent
    ) -> "OutputFolder":
        """Makes the folder, and keeps other processes out of it until the end.

        With `resume`, keeps what an earlier run has finished; with `wait`, lets another process
        finish that writes there.
        """
        with explain_os_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        if not self._lock.acquire(wait=wait, notify=notify):
            notify(
                f"{self.folder} lies on a file system without locks;"
                " make sure that no other process writes there."
            )
        try:
            self._start(resume, notify)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, resume: bool, notify: Notify) -> None:
        journals = (self.folder / JOURNAL, self.folder / DONE_JOURNAL)
        earlier = next((path for path in journals if any(read_objects(path))), None)
        if "stamp" in next(read_objects(self.folder / "results.jsonl"), {}):
            # they say which images are done, so they are never replaced
            raise UsageError(
                f"{self.folder} holds the results of hyperfsad watch; choose another output folder."
            )
        self._stale = _written_files(read_objects(self.folder / "results.jsonl"))
        if earlier is not None:
            entries = read_objects(earlier)
            self._stale |= _written_files(entry.get("line", {}) for entry in entries)
        unfinished = (self.folder / JOURNAL).exists()
        self._journal.start(earlier if resume else None, self._is_finished)
        replaced = [name for name in RESULTS if (self.folder / name).exists()]
        if unfinished and not len(self._journal):
            notify(
                f"{self.folder} holds an unfinished run, which is replaced; --resume would continue"
                " it, with the same detector and options."
            )
        if replaced and not len(self._journal):
            notify(f"{self.folder} holds {', '.join(replaced)} already; they will be replaced.")

    def __enter__(self) -> "OutputFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()
        self._lock.release()

    def __contains__(self, image: str) -> bool:
        """Whether the image is finished and has not changed since."""
        return image in self._journal and self._journal.stamp(image) == stamp_of(image)

    def add(self, result: AnomalyResult) -> None:
        """Writes the pictures of one result and notes its record."""
        drawn = self._heatmaps and result.error is None
        picture = result.shown() if drawn else None
        written = write_files(self.folder, result, file_name(result.image), picture, self._maps)
        # the key "line" lets journals of earlier versions be resumed; see Entry
        entry: Entry = {"stamp": stamp_of(result.image), "line": make_record(result, written)}
        if picture is not None:
            overlay = map_overlay(result.anomaly_map, result.scale)
            entry["picture"] = {"jpeg": thumbnail(picture), "map": overlay}
        self._journal.add(entry)

    def finish(self, images: list[str]) -> list[Record]:
        """Writes the results in the order of the images.

        Returns their records, with the number of regions instead of the regions.
        """

        def records() -> Iterator[Record]:
            return (entry["line"] for entry in self._journal.entries(images))

        brief = [{**record, "regions": len(record["regions"])} for record in records()]
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records())
        self._replace("results.jsonl", lines)
        self._replace("results.csv", results_csv(records()))
        stale = self._stale - _written_files(brief)
        if any(record["map_threshold"] is not None for record in brief):
            self._replace("regions.csv", regions_csv(records()))
            self._replace("coco.json", coco_json(records))
        else:
            stale |= {"regions.csv", "coco.json"}
        page = report_html(brief, self._journal.entries, self._products, self.folder)
        self._replace("report.html", page)
        for name in stale:  # what an earlier run has left is no longer true
            (self.folder / name).unlink(missing_ok=True)
        self._journal.close()
        (self.folder / JOURNAL).replace(self.folder / DONE_JOURNAL)
        return brief

    def _is_finished(self, entry: Entry) -> bool:
        record = entry["line"]
        files = _written_files([record])
        return record["error"] is None and all((self.folder / name).exists() for name in files)

    def _replace(self, name: str, chunks: Iterable[str]) -> None:
        with atomic_path(self.folder / name) as temporary, temporary.open("wb") as file:
            for chunk in chunks:
                file.write(encoded(chunk))


def write_files(
    folder: Path, result: AnomalyResult, name: str, picture: "Image.Image | None", maps: bool
) -> dict[str, str | None]:
    """Writes the heat map, over `picture` where there is one, and the map; returns their paths."""
    written: dict[str, str | None] = {"heatmap": None, "map": None}
    for kind, path, content in files_of(result, name, picture, maps):
        write_file(folder / path, content, parents=True)
        written[kind] = path
    return written


def files_of(
    result: AnomalyResult, name: str, picture: "Image.Image | None", maps: bool
) -> Iterator[tuple[str, str, memoryview]]:
    """The files of a result: what the record calls each, its path in the folder, its content."""
    if picture is not None:
        path = f"heatmaps/{name}.jpg"
        yield "heatmap", path, picture_file(result.heat_map().draw(picture), path)
    if maps and result.error is None:
        content = io.BytesIO()
        np.save(content, result.anomaly_map)
        yield "map", f"maps/{name}.npy", content.getbuffer()


def _written_files(records: Iterable[Record]) -> set[str]:
    """The files below heatmaps/ and maps/ that the records name."""
    names = {record.get(kind) for record in records for kind in ("heatmap", "map")}
    folders = ("heatmaps", "maps")
    return {name for name in names if isinstance(name, str) and os.path.dirname(name) in folders}


def file_name(image: str, version: str = "") -> str:
    """The image's own name and a hash of its path, so that equal names never collide.

    `version` distinguishes pictures that had the same path at different times. There may be
    millions of them, so the hash is then longer.
    """
    hashed = hashlib.sha256((image + version).encode("utf-8", errors="surrogateescape"))
    digest = hashed.hexdigest()[: 16 if version else 8]
    stem = os.path.splitext(os.path.basename(image))[0]
    clean = "".join(c if c.isalnum() or c in " -_." else "_" for c in stem)
    while len(clean.encode("utf-8", errors="replace")) > 120:
        clean = clean[:-1]
    return f"{clean}-{digest}"
