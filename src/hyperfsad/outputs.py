"""The output folder of a run: results.jsonl, results.csv, heat maps, maps and the report.

Finished lines go to a journal first; results.jsonl appears when the run is complete. So an
interrupted run loses nothing, never looks complete, and can be resumed.
"""

import csv
import hashlib
import io
import json
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from .files import atomic_path, explain_os_errors
from .render import save_picture
from .report import report_html
from .results import AnomalyResult

JOURNAL = "results.partial.jsonl"
DONE_JOURNAL = ".results.done.jsonl"
"""The journal of a finished run: with it, `--resume` has nothing to do again."""
RESULTS = ("results.jsonl", "results.csv", "report.html")
COLUMNS = (
    *("image", "score", "score_map", "score_cls", "threshold", "anomalous", "regions"),
    *("heatmap", "map", "error"),
)


Self = TypeVar("Self", bound="OutputFolder")


class OutputFolder:
    """Takes results one by one, and closes the run with `finish()`."""

    def __init__(
        self, folder: Path, *, run: str, heatmaps: bool = True, maps: bool = False
    ) -> None:
        """`run` names what makes results comparable: a journal of another run is not resumed."""
        self.folder = folder
        self._heatmaps, self._maps = heatmaps, maps
        self._header = {"run": run, "heatmaps": heatmaps, "maps": maps}
        self._journal: FileIO | None = None
        self._lines: dict[str, dict[str, Any]] = {}
        self._stale: set[str] = set()

    def open(
        self: Self, *, resume: bool = False, notify: Callable[[str], None] | None = None
    ) -> Self:
        """Makes the folder; with `resume`, takes up what an earlier run has finished."""
        path = self.folder / JOURNAL
        earlier = _read_lines(path) or _read_lines(self.folder / DONE_JOURNAL)
        kept = self._finished_before(earlier) if resume else {}
        self._stale = self._written_files(
            [*_read_lines(self.folder / "results.jsonl"), *(e.get("line", {}) for e in earlier)]
        )
        if notify and not kept:
            self._tell_what_is_replaced(notify)
        with explain_os_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._journal = path.open("wb", buffering=0)  # each line is there at once
        self._write(self._header)
        for entry in kept.values():
            self._keep(entry)
        return self

    def _tell_what_is_replaced(self, notify: Callable[[str], None]) -> None:
        if (self.folder / JOURNAL).exists():
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
        if self._journal is not None:
            self._journal.close()

    def __contains__(self, image: str) -> bool:
        """Whether the image is finished and has not changed since."""
        entry = self._lines.get(image)
        return entry is not None and entry["stamp"] == _stamp(image)

    def add(self, result: AnomalyResult) -> None:
        """Writes the pictures of one result and notes its line."""
        line = {**result.to_dict(), "heatmap": None, "map": None}
        line["error"] = line.pop("error")  # last, as in the contract
        if result.error is None:
            name = _file_name(result.image)
            if self._heatmaps:
                line["heatmap"] = f"heatmaps/{name}.jpg"
                save_picture(result.plot(), self.folder / line["heatmap"])
            if self._maps:
                line["map"] = f"maps/{name}.npy"
                with (
                    atomic_path(self.folder / line["map"]) as temporary,
                    temporary.open("wb") as file,
                ):
                    np.save(file, result.anomaly_map)
        self._keep({"stamp": _stamp(result.image), "line": line})

    def finish(self, images: list[str]) -> list[dict[str, Any]]:
        """Writes the results in the order of the images, and returns them."""
        lines = [self._lines[image]["line"] for image in images]
        jsonl = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        self._replace("results.jsonl", jsonl)
        self._replace("results.csv", _csv(lines))
        self._replace("report.html", report_html(lines))
        for stale in sorted(self._stale - self._written_files(lines)):
            (self.folder / stale).unlink(missing_ok=True)
        if self._journal is not None:
            self._journal.close()
        (self.folder / JOURNAL).replace(self.folder / DONE_JOURNAL)
        return lines

    def _keep(self, entry: dict[str, Any]) -> None:
        self._lines[entry["line"]["image"]] = entry
        self._write(entry)

    def _write(self, entry: dict[str, Any]) -> None:
        assert self._journal is not None
        with explain_os_errors(self.folder / JOURNAL):
            self._journal.write(_encoded(json.dumps(entry, ensure_ascii=False) + "\n"))

    def _finished_before(self, earlier: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        header, *entries = earlier or [{}]
        if header != self._header:
            return {}
        return {
            entry["line"]["image"]: entry
            for entry in entries
            if entry["line"]["error"] is None
            and all((self.folder / name).exists() for name in self._written_files([entry["line"]]))
        }

    def _written_files(self, lines: list[dict[str, Any]]) -> set[str]:
        """The files below heatmaps/ and maps/ that lines speak of."""
        names = {line.get(kind) for line in lines for kind in ("heatmap", "map")}
        folders = ("heatmaps", "maps")
        return {n for n in names if isinstance(n, str) and os.path.dirname(n) in folders}

    def _replace(self, name: str, text: str) -> None:
        with atomic_path(self.folder / name) as temporary:
            temporary.write_bytes(_encoded(text))


def _encoded(text: str) -> bytes:
    """UTF-8; what of a file's name is no Unicode gets the escape that JSON has for it."""
    return text.encode("utf-8", errors="backslashreplace")


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file; a last line that was cut off is passed over."""
    lines = []
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    for row in text.splitlines():
        try:
            value = json.loads(row)
        except ValueError:
            continue
        if isinstance(value, dict):
            lines.append(value)
    return lines


def _csv(lines: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    for line in lines:
        # without a threshold there is no region to count, which is not the same as none
        regions = "" if line["threshold"] is None else len(line["regions"])
        table.writerow({**line, "regions": regions})
    return text.getvalue()


def _file_name(image: str) -> str:
    """The image's own name and a hash of its path, so that equal names never collide."""
    digest = hashlib.sha256(image.encode("utf-8", errors="surrogateescape")).hexdigest()[:8]
    stem = os.path.splitext(os.path.basename(image))[0]
    clean = "".join(c if c.isalnum() or c in " -_." else "_" for c in stem)
    while len(clean.encode("utf-8", errors="replace")) > 120:
        clean = clean[:-1]
    return f"{clean}-{digest}"


def _stamp(image: str) -> list[int] | None:
    try:
        status = os.stat(image)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]
