"""Results for other programs: flat tables, and regions in the COCO format, each as a stream."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from .. import __version__

Record: TypeAlias = dict[str, Any]
"""One object of results.jsonl."""
BRANCH_FIELDS = ("score_map", "score_cls")
"""The scores of the branches whose sum is the image score."""

PRODUCT_COLUMNS = (
    *("product", "unknown_product", "nearest_product", "product_similarity", "product_margin"),
)
"""Later columns: journals of before do not have them."""
RESULT_COLUMNS = (
    *("image", "score", *BRANCH_FIELDS, "threshold", "anomalous", "map_threshold"),
    *("regions", "heatmap", "map", "error", *PRODUCT_COLUMNS, "p_value", "threshold_from"),
)
REGION_COLUMNS = (
    *("image", "region", "score", "x", "y", "width", "height", "area", "peak_x", "peak_y"),
    "anomalous",
)
"""The last is the verdict on the image."""


def severity(record: Record) -> float:
    """How bad an image is: its score, as a part of its threshold, since products differ in both."""
    score: float = record["score"]
    return score / record["threshold"] if (record["threshold"] or 0) > 0 else score


def results_csv(records: Iterable[Record]) -> Iterator[str]:
    """A row for each image; of the regions, their number."""

    def row(record: Record) -> Record:
        # without a map threshold there is no region to count, which is not the same as none
        sought = record["map_threshold"] is not None
        fields = {name: record.get(name) for name in RESULT_COLUMNS}
        return {**fields, "regions": len(record["regions"]) if sought else ""}

    return _table(RESULT_COLUMNS, map(row, records))


def regions_csv(records: Iterable[Record]) -> Iterator[str]:
    """A row for each region, numbered from 1 within its image."""

    def rows() -> Iterator[Record]:
        for record in records:
            for number, region in enumerate(record["regions"], start=1):
                box = zip(("x", "y", "width", "height"), region["bbox"], strict=True)
                peak = region["peak"] or {"x": None, "y": None}
                yield {
                    "image": record["image"],
                    "region": number,
                    "score": region["score"],
                    **dict(box),
                    "area": region["area"],
                    "peak_x": peak["x"],
                    "peak_y": peak["y"],
                    "anomalous": record["anomalous"],
                }

    return _table(REGION_COLUMNS, rows())


def coco_json(records: Callable[[], Iterable[Record]]) -> Iterator[str]:
    """All images that were scored, and their regions as annotations of one category.

    A polygon of COCO has no holes; `area` leaves them out. `records` is asked twice.
    """
    head = {
        "info": {"description": "Regions found by hyperfsad", "version": __version__},
        "licenses": [],
        "categories": [{"id": 1, "name": "anomaly", "supercategory": "anomaly"}],
    }
    yield json.dumps(head)[:-1] + ', "images": ['
    yield from _joined(_coco_images(records()))
    yield '], "annotations": ['
    yield from _joined(_coco_annotations(records()))
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
            }


def _joined(values: Iterable[Record]) -> Iterator[str]:
    for index, value in enumerate(values):
        yield ("\n" if index == 0 else ",\n") + json.dumps(value, ensure_ascii=False)


def _table(columns: tuple[str, ...], rows: Iterable[Record]) -> Iterator[str]:
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    for row in rows:
        yield text.getvalue()
        text.seek(0)
        text.truncate()
        table.writerow(row)
    yield text.getvalue()
