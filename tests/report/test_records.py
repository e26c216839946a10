"""Tables and COCO: what other programs read must say what results.jsonl says."""

import csv
import io
import json
from typing import Any

import pytest

from hyperfsad.report.interchange.coco import coco_json
from hyperfsad.report.records import (
    guarded,
    notices_of,
    regions_csv,
    results_csv,
    severity,
)
from tests.report.samples import sample_record

REGION = {
    "bbox": [1, 2, 30, 40],
    "area": 500.5,
    "score": 0.7,
    "peak": {"x": 10.5, "y": 20.5, "value": 0.7},
    "polygon": [[1.0, 2.0], [31.0, 2.0], [31.0, 42.0]],
    "kind": "unexpected",
}


def record(image: str, **fields: Any) -> dict[str, Any]:
    return sample_record(image, **{"map_threshold": 0.5, **fields})


FAILED = record("bad.png", score=None, size=None, map_threshold=None, error="bad.png is empty.")


def test_columns_keep_their_order() -> None:
    """Programs read the tables by position, too; later fields come last."""
    (header,) = "".join(results_csv([])).splitlines()
    assert header == (
        "image,score,score_map,score_cls,threshold,anomalous,map_threshold,regions,heatmap,map,"
        "error,product,unknown_product,nearest_product,product_similarity,product_margin,p_value,"
        "threshold_from,score_missing,foreign,level,map_peak,map_peak_x,map_peak_y,"
        "defect,defect_score"
    )
    (header,) = "".join(regions_csv([])).splitlines()
    assert header == (
        "image,region,score,x,y,width,height,area,peak_x,peak_y,anomalous,kind,map_threshold,level"
    )


def rows(chunks: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(chunks), newline="")))


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", "'", "＝"])
def test_no_cell_is_a_formula_and_the_name_comes_back(first: str) -> None:
    name = f'{first}HYPERLINK("http://a",1)\r.png'
    made = record(name, score=-0.5, regions=[REGION], error=f"{name} is odd.", product="-1")
    for table in (results_csv([made]), regions_csv([made])):
        (row,) = rows(table)
        assert row["image"] == f"'{name}"
        assert row["image"].removeprefix("'") == name
    (row,) = rows(results_csv([made]))
    assert row["score"] == "-0.5"
    assert row["error"].startswith("'")
    assert row["product"] == "'-1"
    for value in (-0.5, None, True, "a=b", ""):
        assert guarded(value) == value


def test_a_row_for_each_image() -> None:
    records = [record('a,"b".png', regions=[REGION, REGION]), FAILED, record("c.png")]
    table = rows(results_csv(records))
    assert [row["image"] for row in table] == ['a,"b".png', "bad.png", "c.png"]
    assert [row["regions"] for row in table] == ["2", "", "0"]  # not sought is not none
    assert table[1]["error"] == "bad.png is empty."
    missing = record("a.png", score_missing=1.25)
    assert [row["score_missing"] for row in rows(results_csv([missing, FAILED]))] == ["1.25", ""]


def test_a_row_for_each_region() -> None:
    lacking = {**REGION, "kind": "missing"}
    bad = record("a.png", regions=[REGION, lacking], anomalous=True)
    table = rows(regions_csv([bad, FAILED, record("b.png", regions=[REGION], anomalous=False)]))
    assert [row["region"] for row in table] == ["1", "2", "1"]
    numbers = [table[0][name] for name in ("x", "y", "width", "height", "area", "score")]
    assert numbers == ["1", "2", "30", "40", "500.5", "0.7"]
    assert (table[0]["peak_x"], table[0]["peak_y"]) == ("10.5", "20.5")
    assert [row["anomalous"] for row in table] == ["True", "True", "False"]
    assert [row["kind"] for row in table] == ["unexpected", "missing", "unexpected"]
    assert [row["map_threshold"] for row in table] == ["0.5"] * 3


def test_coco_holds_all_that_its_readers_need() -> None:
    records = [
        FAILED,
        record("<ä>.png", regions=[REGION]),
        record("b.png"),
        record("c.png", regions=[REGION], defect="scratch"),
    ]
    coco = json.loads("".join(coco_json(lambda: records)))
    assert {"info", "licenses", "categories", "images", "annotations"} == set(coco)
    images = {image["id"]: image for image in coco["images"]}
    assert [image["file_name"] for image in coco["images"]] == ["<ä>.png", "b.png", "c.png"]
    assert all((image["width"], image["height"]) == (100, 80) for image in images.values())
    categories = {category["id"] for category in coco["categories"]}
    assert len({note["id"] for note in coco["annotations"]}) == 2
    first, second = coco["annotations"]
    assert images[first["image_id"]]["file_name"] == "<ä>.png"
    assert images[second["image_id"]]["file_name"] == "c.png"
    assert first["category_id"] in categories
    assert first["bbox"] == [1, 2, 30, 40]
    assert first["segmentation"] == [[1.0, 2.0, 31.0, 2.0, 31.0, 42.0]]
    assert (first["area"], first["score"], first["iscrowd"]) == (500.5, 0.7, 0)
    assert first["kind"] == "unexpected"
    assert [first["defect"], second["defect"]] == [None, "scratch"]
    empty = json.loads("".join(coco_json(list)))
    assert (empty["images"], empty["annotations"]) == ([], [])


@pytest.mark.parametrize(
    ("verdicts", "foreign", "codes"),
    [
        ([True] * 10, 0, ["all-anomalous"]),
        ([True] * 9, 1, ["foreign-images"]),
        ([True] * 20 + [False], 0, []),
        ([True] * 10 + [None], 3, ["all-anomalous", "foreign-images"]),
        ([], 0, []),
    ],
)
def test_a_doubtful_run_is_reported(
    verdicts: list[bool | None], foreign: int, codes: list[str]
) -> None:
    scored = [record("a.png", anomalous=verdict, foreign=False) for verdict in verdicts]
    for one in scored[:foreign]:
        one["foreign"] = True
    notices = list(notices_of(scored))
    assert [notice.code for notice in notices] == codes
    assert all(notice.facts["images"] in (10, foreign) for notice in notices)


def test_the_worst_reaches_furthest() -> None:
    ordered = [
        record("beyond a limit of 0", score=0.1, anomalous=True),
        record("worse", score=0.3, level=1.2, anomalous=True),
        record("by its map", score=0.2, level=1.1, anomalous=True),
        record("of another product", score=0.9, level=0.9, anomalous=False),
    ]
    assert sorted(ordered, key=severity) == ordered[::-1]
    assert severity(record("c", score=0.3)) == 0.3
