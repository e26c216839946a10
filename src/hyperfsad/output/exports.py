"""Results for other programs: flat tables, and regions in the COCO format, each as a stream."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..version import __version__

Line = dict[str, Any]

PRODUCT_COLUMNS = (
    *("product", "unknown_product", "nearest_product", "product_similarity", "product_margin"),
)
"""Later columns: journals of before do not have them."""
RESULT_COLUMNS = (
    *("image", "score", "score_map", "score_cls", "threshold", "anomalous", "map_threshold"),
    *("regions", "heatmap", "map", "error", *PRODUCT_COLUMNS, "p_value", "threshold_from"),
)
REGION_COLUMNS = (
    *("image", "region", "score", "x", "y", "width", "height", "area", "peak_x", "peak_y"),
    "anomalous",
)
"""The last is the verdict on the image."""


def severity(line: Line) -> float:
    """How bad an image is: its score, as a part of its threshold, since products differ in both."""
    score: float = line["score"]
    return score / line["threshold"] if (line["threshold"] or 0) > 0 else score


def results_csv(lines: Iterable[Line]) -> Iterator[str]:
    """A row for each image; of the regions, their number."""

    def row(line: Line) -> Line:
        # without a map threshold there is no region to count, which is not the same as none
        sought = line["map_threshold"] is not None
        fields = {name: line.get(name) for name in RESULT_COLUMNS}
        return {**fields, "regions": len(line["regions"]) if sought else ""}

    return _table(RESULT_COLUMNS, map(row, lines))


def regions_csv(lines: Iterable[Line]) -> Iterator[str]:
    """A row for each region, numbered from 1 within its image."""

    def rows() -> Iterator[Line]:
        for line in lines:
            for number, region in enumerate(line["regions"], start=1):
                box = zip(("x", "y", "width", "height"), region["bbox"], strict=True)
                peak = region["peak"] or {"x": None, "y": None}
                yield {
                    "image": line["image"],
                    "region": number,
                    "score": region["score"],
                    **dict(box),
                    "area": region["area"],
                    "peak_x": peak["x"],
                    "peak_y": peak["y"],
                    "anomalous": line["anomalous"],
                }

    return _table(REGION_COLUMNS, rows())


def coco_json(lines: Callable[[], Iterable[Line]]) -> Iterator[str]:
    """All images that were scored, and their regions as annotations of one category.

    A polygon of COCO has no holes; `area` leaves them out. `lines` is asked twice.
    """
    head = {
        "info": {"description": "Regions found by hyperfsad", "version": __version__},
        "licenses": [],
        "categories": [{"id": 1, "name": "anomaly", "supercategory": "anomaly"}],
    }
    yield json.dumps(head)[:-1] + ', "images": ['
    yield from _joined(_coco_images(lines()))
    yield '], "annotations": ['
    yield from _joined(_coco_annotations(lines()))
    yield "]}\n"


def _coco_images(lines: Iterable[Line]) -> Iterator[Line]:
    for number, line in enumerate(lines, start=1):
        if line["error"] is None:
            width, height = line["size"]
            yield {"id": number, "file_name": line["image"], "width": width, "height": height}


def _coco_annotations(lines: Iterable[Line]) -> Iterator[Line]:
    count = 0
    for number, line in enumerate(lines, start=1):
        for region in line["regions"]:
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


def _joined(values: Iterable[Line]) -> Iterator[str]:
    for index, value in enumerate(values):
        yield ("\n" if index == 0 else ",\n") + json.dumps(value, ensure_ascii=False)


def _table(columns: tuple[str, ...], rows: Iterable[Line]) -> Iterator[str]:
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    for row in rows:
        yield text.getvalue()
        text.seek(0)
        text.truncate()
        table.writerow(row)
    yield text.getvalue()
