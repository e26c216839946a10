"""The output folder of a run: results, regions, heat maps, maps and the report.

Finished lines go to a journal first; results.jsonl appears when the run is complete. So an
interrupted run loses nothing, never looks complete, and can be resumed. Nothing is kept in memory
but a few words on each image: all files are written in a stream from the journal.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..disk.atomic import atomic_path, explain_os_errors
from ..disk.jsonl import encoded, read_objects
from ..errors import UsageError
from ..images.loading import NormalImage
from ..results.heatmap import draw_heatmap, save_picture
from ..results.result import AnomalyResult
from .exports import coco_json, regions_csv, results_csv
from .journal import Entry, Journal, stamp
from .report.overview import ProductSummary
from .report.page import report_html
from .thumbnails import picture_entry

if TYPE_CHECKING:
    from PIL import Image

JOURNAL = "results.partial.jsonl"
DONE_JOURNAL = ".results.done.jsonl"
"""The journal of a finished run: with it, `--resume` has nothing to do again."""
RESULTS = ("results.jsonl", "results.csv", "regions.csv", "coco.json", "report.html")


Self = TypeVar("Self", bound="OutputFolder")


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
        """`run` names what makes results comparable: a journal of another run is not resumed.

        The report shows the normal images: `support`, or those of each of several `products`.
        """
        self.folder = folder
        self._heatmaps, self._maps = heatmaps, maps
        self._products = tuple(products) or (ProductSummary(tuple(support)),)
        self._journal = Journal(folder / JOURNAL, {"run": run, "heatmaps": heatmaps, "maps": maps})
        self._stale: set[str] = set()

    def open(
        self: Self, *, resume: bool = False, notify: Callable[[str], None] | None = None
    ) -> Self:
        """Makes the folder; with `resume`, takes up what an earlier run has finished."""
        earlier = self._earlier()
        self._refuse_watched()
        self._stale = self._written_files(read_objects(self.folder / "results.jsonl"))
        if earlier is not None:
            entries = read_objects(earlier)
            self._stale |= self._written_files(entry.get("line", {}) for entry in entries)
        unfinished = (self.folder / JOURNAL).exists()
        with explain_os_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._journal.start(earlier if resume else None, self._is_finished)
        if notify and not len(self._journal):
            self._tell_what_is_replaced(unfinished, notify)
        return self

    def _refuse_watched(self) -> None:
        """The results of a watch are the truth about what it has done; they are not replaced."""
        first = next(read_objects(self.folder / "results.jsonl"), {})
        if "stamp" in first:
            raise UsageError(
                f"{self.folder} holds the results of hyperfsad watch; choose another output folder."
            )

    def _earlier(self) -> Path | None:
        for name in (JOURNAL, DONE_JOURNAL):
            if next(read_objects(self.folder / name), None) is not None:
                return self.folder / name
        return None

    def _tell_what_is_replaced(self, unfinished: bool, notify: Callable[[str], None]) -> None:
        if unfinished:
            notify(
                f"{self.folder} holds an unfinished run, which is replaced; with --resume"
                " and the same detector and options it would go on."
            )
        found = [name for name in RESULTS if (self.folder / name).exists()]
        if found:
            notify(f"{self.folder} holds {', '.join(found)} already; they will be replaced.")

    def __enter__(self) -> "OutputFolder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._journal.close()

    def __contains__(self, image: str) -> bool:
        """Whether the image is finished and has not changed since."""
        return image in self._journal and self._journal.stamp(image) == stamp(image)

    def add(self, result: AnomalyResult) -> None:
        """Writes the pictures of one result and notes its line."""
        drawn = self._heatmaps and result.error is None
        picture = result.shown() if drawn else None
        line = written_line(self.folder, result, file_name(result.image), picture, self._maps)
        entry: Entry = {"stamp": stamp(result.image), "line": line}
        if picture is not None:
            entry["picture"] = picture_entry(picture, result.anomaly_map, result.scale)
        self._journal.add(entry)

    def finish(self, images: list[str]) -> list[dict[str, Any]]:
        """Writes the results in the order of the images; returns their lines without regions."""

        def lines() -> Iterator[dict[str, Any]]:
            return (entry["line"] for entry in self._journal.entries(images))

        brief, sought = [], False
        for line in lines():
            sought |= line["map_threshold"] is not None
            brief.append({**line, "regions": len(line["regions"])})
        self._replace(
            "results.jsonl", (json.dumps(line, ensure_ascii=False) + "\n" for line in lines())
        )
        self._replace("results.csv", results_csv(lines()))
        if sought:
            self._replace("regions.csv", regions_csv(lines()))
            self._replace("coco.json", coco_json(lines))
        else:  # of an earlier run, and no longer true
            for name in ("regions.csv", "coco.json"):
                (self.folder / name).unlink(missing_ok=True)
        page = report_html(brief, self._journal.entries, self._products, self.folder)
        self._replace("report.html", page)
        for stale in sorted(self._stale - self._written_files(brief)):
            (self.folder / stale).unlink(missing_ok=True)
        self._journal.close()
        (self.folder / JOURNAL).replace(self.folder / DONE_JOURNAL)
        return brief

    def _is_finished(self, entry: Entry) -> bool:
        line = entry["line"]
        files = self._written_files([line])
        return line["error"] is None and all((self.folder / name).exists() for name in files)

    def _written_files(self, lines: Iterable[dict[str, Any]]) -> set[str]:
        """The files below heatmaps/ and maps/ that lines speak of."""
        names = {line.get(kind) for line in lines for kind in ("heatmap", "map")}
        folders = ("heatmaps", "maps")
        return {n for n in names if isinstance(n, str) and os.path.dirname(n) in folders}

    def _replace(self, name: str, chunks: Iterable[str]) -> None:
        with atomic_path(self.folder / name) as temporary, temporary.open("wb") as file:
            for chunk in chunks:
                file.write(encoded(chunk))


def written_line(
    folder: Path, result: AnomalyResult, name: str, picture: "Image.Image | None", maps: bool
) -> Entry:
    """Writes the files of one result below `folder`; returns its line in results.jsonl.

    The heat map is drawn over `picture`, where there is one.
    """
    line = {**result.to_dict(), "heatmap": None, "map": None}
    line["error"] = line.pop("error")  # last, as in the contract
    if picture is not None:
        line["heatmap"] = f"heatmaps/{name}.jpg"
        save_picture(draw_heatmap(picture, result), folder / line["heatmap"])
    if maps and result.error is None:
        line["map"] = f"maps/{name}.npy"
        with atomic_path(folder / line["map"]) as temporary, temporary.open("wb") as file:
            np.save(file, result.anomaly_map)
    return line


def file_name(image: str, version: str = "") -> str:
    """The image's own name and a hash of its path, so that equal names never collide.

    `version` tells apart what was written under one path at different times; as there may be
    millions of them, the hash is then longer.
    """
    hashed = hashlib.sha256((image + version).encode("utf-8", errors="surrogateescape"))
    digest = hashed.hexdigest()[: 16 if version else 8]
    stem = os.path.splitext(os.path.basename(image))[0]
    clean = "".join(c if c.isalnum() or c in " -_." else "_" for c in stem)
    while len(clean.encode("utf-8", errors="replace")) > 120:
        clean = clean[:-1]
    return f"{clean}-{digest}"
