"""One record for each image: results.jsonl, and flat tables for other programs."""

import csv
import hashlib
import io
import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from ..messages import Notice
from ..results.result import AnomalyResult

Record: TypeAlias = dict[str, Any]
"""One object of results.jsonl."""

RECORDS_FILE = "results.jsonl"

_FIRST_COLUMNS = (
    *("image", "score", "score_map", "score_cls", "threshold", "anomalous", "map_threshold"),
    *("regions", "heatmap", "map", "error", "product", "unknown_product", "nearest_product"),
    *("product_similarity", "product_margin", "p_value", "threshold_from"),
)
_ALL_COLUMNS = dict.fromkeys([*_FIRST_COLUMNS, *AnomalyResult.failed("", "").to_dict()])
RESULT_COLUMNS = tuple(name for name in _ALL_COLUMNS if name != "size")
"""Programs rely on the order of the first ones; further fields of a result follow them."""
_OF_IMAGE = ("image", "anomalous", "map_threshold", "level")
_BBOX_COLUMNS = ("x", "y", "width", "height")
REGION_COLUMNS = (
    *("image", "region", "score", *_BBOX_COLUMNS, "area", "peak_x", "peak_y"),
    *("anomalous", "kind", "map_threshold", "level"),
)
"""`anomalous` and `level` are those of the image; the score of a region lies above
`map_threshold`."""

_FORMULA_STARTS = (*"=+-@＝＋－＠", "\t", "\r", "\n", "'")
"""What makes a spreadsheet take the text of a cell for a formula (four are the wide signs of East
Asian keyboards), and the guard itself."""

SUSPICIOUS_RUN = 10
"""From this many images on it is suspicious if none is good."""

SHOWN_IMAGES = 10
"""Images that are kept by name: the most anomalous, and those that failed."""


def make_record(result: AnomalyResult, written: Mapping[str, Any]) -> Record:
    """The record of a result; `written` holds the paths of its files, and what a watch adds."""
    record = {**result.to_dict(), **written}
    record["error"] = record.pop("error")  # last, as in the contract
    return record


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


def severity(record: Record) -> float:
    """How bad an image is: its level, otherwise its score; beyond a limit of 0, worst of all."""
    if record["level"] is None:
        return math.inf if record["anomalous"] else float(record["score"])
    return float(record["level"])


def mark_of(record: Record) -> tuple[float, float] | None:
    """x and y of the strongest place where an image is anomalous without a region."""
    if not record["anomalous"] or record["regions"]:
        return None
    return record["map_peak_x"], record["map_peak_y"]


@dataclass
class Totals:
    """Counts, the most anomalous records without their regions, and some errors."""

    images: int = 0
    done_before: int = 0
    scored: int = 0
    decided: int = 0
    anomalous: int = 0
    failed: int = 0
    foreign: int = 0
    unknown_product: int = 0
    worst: list[Record] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[Record], done_before: int = 0) -> "Totals":
        """Those of some records."""
        found = cls(done_before=done_before)
        for record in records:
            found.images += 1
            if record["error"] is not None:
                found.failed += 1
                found.errors.append(record["error"])
                continue
            found.scored += 1
            found.decided += record["anomalous"] is not None
            found.anomalous += record["anomalous"] is True
            found.foreign += record["foreign"] is True
            found.unknown_product += record["unknown_product"] is True
            found.worst.append({**record, "regions": None})
        return cls().add(found)

    def to_dict(self) -> dict[str, Any]:
        """All of it; the records without what they do not hold here."""
        worst = [{name: one[name] for name in one if name != "regions"} for one in self.worst]
        return {**vars(self), "worst": worst}

    def add(self, other: "Totals") -> "Totals":
        """Adds the totals of other images."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        self.worst = sorted(self.worst, key=severity, reverse=True)[:SHOWN_IMAGES]
        self.errors = self.errors[:SHOWN_IMAGES]
        return self


def run_notices(decided: int, anomalous: int, foreign: int) -> Iterator[Notice]:
    """Doubts about a run: every image is anomalous, or images look like another product."""
    if decided == anomalous >= SUSPICIOUS_RUN:
        yield Notice("all-anomalous", images=decided)
    if foreign:
        yield Notice("foreign-images", images=foreign)


def notices_of(records: Iterable[Record]) -> Iterator[Notice]:
    """The same for the records of scored images."""
    scored = list(records)
    verdicts = [record["anomalous"] for record in scored if record["anomalous"] is not None]
    return run_notices(len(verdicts), sum(verdicts), sum(bool(r["foreign"]) for r in scored))


def table_row(record: Record) -> Record:
    """A record as a row of a table: with the number of its regions."""
    # without a map threshold regions were not sought, which is not the same as none found
    count = None if record["map_threshold"] is None else len(record["regions"])
    return {**{name: record[name] for name in RESULT_COLUMNS}, "regions": count}


def results_csv(records: Iterable[Record]) -> Iterator[str]:
    """A row for each image."""
    return csv_table(RESULT_COLUMNS, map(table_row, records))


def regions_csv(records: Iterable[Record]) -> Iterator[str]:
    """A row for each region, numbered from 1 within its image."""

    def rows() -> Iterator[Record]:
        for record in records:
            for number, region in enumerate(record["regions"], start=1):
                peak = region["peak"] or {"x": None, "y": None}
                yield {
                    **{name: record[name] for name in _OF_IMAGE},
                    **{name: region[name] for name in ("score", "area", "kind")},
                    **dict(zip(_BBOX_COLUMNS, region["bbox"], strict=True)),
                    **{f"peak_{axis}": peak[axis] for axis in ("x", "y")},
                    "region": number,
                }

    return csv_table(REGION_COLUMNS, rows())


def csv_table(columns: Sequence[str], rows: Iterable[Record]) -> Iterator[str]:
    """A CSV file row by row, the names of the columns first; what would be a formula is guarded."""
    text = io.StringIO()
    # with "\n" alone, Python before 3.13 leaves "\r" unquoted, and readers then see two rows
    table = csv.DictWriter(text, columns, lineterminator="\r\n")
    for row in itertools.chain([dict(zip(columns, columns, strict=True))], rows):
        table.writerow({name: guarded(value) for name, value in row.items()})
        yield text.getvalue().removesuffix("\r\n") + "\n"
        text.seek(0)
        text.truncate()


def guarded(value: Any) -> Any:
    """A cell that no spreadsheet runs: an apostrophe comes before text that begins like a formula.

    And before text that begins with an apostrophe, so that removing one gives the text back.
    Numbers stay as they are.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
