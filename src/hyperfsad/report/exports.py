"""The records of results.jsonl, and the same for other programs: flat tables and COCO, streamed."""

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..results.result import AnomalyResult
from ..version import __version__

Record: TypeAlias = dict[str, Any]
"""One object of results.jsonl."""

RECORDS_FILE = "results.jsonl"

_ORDERED = (
    *("image", "score", "score_map", "score_cls", "threshold", "anomalous", "map_threshold"),
    *("regions", "heatmap", "map", "error", "product", "unknown_product", "nearest_product"),
    *("product_similarity", "product_margin", "p_value", "threshold_from"),
)
_FIELDS = dict.fromkeys([*_ORDERED, *AnomalyResult.failed("", "").to_dict()])
RESULT_COLUMNS = tuple(name for name in _FIELDS if name != "size")
"""Programs rely on the order of the first ones; fields that results gain later follow them."""
_BOX = ("x", "y", "width", "height")
REGION_COLUMNS = (
    "image",
    "region",
    "score",
    *_BOX,
    "area",
    "peak_x",
    "peak_y",
    "anomalous",
    "kind",
    "map_threshold",
)
"""`anomalous` is the verdict on the image; the score of a region lies above `map_threshold`."""


def make_record(result: AnomalyResult, written: Mapping[str, Any]) -> Record:
    """The record of a result; `written` holds the paths of its files, and what a watch adds."""
    record = {**result.to_dict(), **written}
    record["error"] = record.pop("error")  # last, as in the contract
    return record


FORMULAS = (*"=+-@＝＋－＠", "\t", "\r", "\n", "'")
"""What makes a spreadsheet take the text of a cell for a formula (four are the wide signs of East
Asian keyboards), and the guard itself."""

MANY = 10
"""Images of a run from which on it is odd that none is good."""


def severity(record: Record) -> float:
    """How bad an image is: its score divided by its threshold, since products differ in both.

    One that is anomalous by a region alone comes before all good ones.
    """
    score: float = record["score"]
    threshold: float = record["threshold"] or 0.0
    if threshold <= 0:
        return score
    return max(score / threshold, 1.0) if record["anomalous"] else score / threshold


def all_anomalous(verdicts: Sequence[bool | None]) -> str | None:
    """What to say where nothing is good in a run that is long enough to wonder; None: nothing."""
    return none_good(len(verdicts)) if all(verdicts) else None


def none_good(number: int) -> str | None:
    """What to say where all of so many images are anomalous."""
    if number < MANY:
        return None
    return (
        f"All {number} images are anomalous: is this the right product, light and camera? If"
        " they are good, teach some of them with `hyperfsad extend`."
    )


def look_foreign(records: Iterable[Record]) -> str | None:
    """What to say where images look like another product than the good parts; None: nothing."""
    return foreign_note(sum(bool(record.get("foreign")) for record in records))


def foreign_note(number: int) -> str | None:
    """What to say where so many images look like another product."""
    if not number:
        return None
    some = "1 image looks" if number == 1 else f"{number:,} images look"
    means = "its score means" if number == 1 else "their scores mean"
    return f"{some} like another product than the good parts, so {means} little."


def results_csv(records: Iterable[Record]) -> Iterator[str]:
    """A row for each image, with the number of its regions."""

    def row(record: Record) -> Record:
        # without a map threshold regions were not sought, which is not the same as none found
        count = "" if record["map_threshold"] is None else len(record["regions"])
        # journals of earlier versions lack the later fields
        return {**{name: record.get(name) for name in RESULT_COLUMNS}, "regions": count}

    return csv_table(RESULT_COLUMNS, map(row, records))


def regions_csv(records: Iterable[Record]) -> Iterator[str]:
    """A row for each region, numbered from 1 within its image."""

    def rows() -> Iterator[Record]:
        for record in records:
            for number, region in enumerate(record["regions"], start=1):
                peak = region["peak"] or {"x": None, "y": None}
                yield {
                    **{name: record[name] for name in ("image", "anomalous")},
                    **{name: region[name] for name in ("score", "area")},
                    **dict(zip(_BOX, region["bbox"], strict=True)),
                    **{f"peak_{axis}": peak[axis] for axis in ("x", "y")},
                    "region": number,
                    "kind": region.get("kind"),  # results of earlier versions have none
                    "map_threshold": record["map_threshold"],
                }

    return csv_table(REGION_COLUMNS, rows())


def coco_json(read_records: Callable[[], Iterable[Record]]) -> Iterator[str]:
    """All images that were scored, and their regions as annotations of one category.

    COCO's polygons have no holes, but `area` leaves holes out. `read_records` is called twice.
    """
    head = {
        "info": {"description": "Regions found by hyperfsad", "version": __version__},
        "licenses": [],
        "categories": [{"id": 1, "name": "anomaly", "supercategory": "anomaly"}],
    }
    yield json.dumps(head)[:-1] + ', "images": ['
    yield from _joined(_coco_images(read_records()))
    yield '], "annotations": ['
    yield from _joined(_coco_annotations(read_records()))
    yield "]}\n"


def _coco_images(records: Iterable[Record]) -> Iterator[Record]:
    for number, record in enumerate(records, start=1):
        if record["error"] is None:
            width, height = record["size"]
            yield {"id": number, "file_name": record["image"], "width": width, "height": height}


def _coco_annotations(records: Iterable[Record]) -> Iterator[Record]:
    count = 0
    for number, record in enumerate(records, start=1):
        for region in record["regions"]:
            count += 1
            yield {
                "id": count,
                "image_id": number,
                "category_id": 1,
                "bbox": region["bbox"],
                "segmentation": [[value for point in region["polygon"] for value in point]],
                "area": region["area"],
                "iscrowd": 0,
                "score": region["score"],
                "kind": region.get("kind"),
            }


def _joined(objects: Iterable[Record]) -> Iterator[str]:
    for index, value in enumerate(objects):
        yield ("\n" if index == 0 else ",\n") + json.dumps(value, ensure_ascii=False)


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

    And before text that begins with an apostrophe, so that taking one away gives the text back.
    Numbers stay as they are.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value
