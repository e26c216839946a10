"""COCO: one JSON file of images and annotations."""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ...version import __version__
from .places import ANOMALY, Labelled, ReadRecords, box, json_list, scaled


def coco_json(read_records: ReadRecords) -> Iterator[str]:
    """All images that were scored, and their regions as annotations of one category.

    COCO's polygons have no holes, but `area` leaves holes out. `read_records` is called twice.
    """
    head = {
        "info": {"description": "Regions found by hyperfsad", "version": __version__},
        "licenses": [],
        "categories": [{"id": 1, "name": ANOMALY, "supercategory": ANOMALY}],
    }
    images = (
        {
            "id": number,
            "file_name": record["image"],
            "width": record["size"][0],
            "height": record["size"][1],
        }
        for number, record in enumerate(read_records(), start=1)
        if record["error"] is None
    )
    regions = (
        (number, record["defect"], region)
        for number, record in enumerate(read_records(), start=1)
        for region in record["regions"]
    )
    annotations = (
        {
            "id": number,
            "image_id": image,
            "category_id": 1,
            "bbox": region["bbox"],
            "segmentation": [list(itertools.chain(*region["polygon"]))],
            "area": region["area"],
            "iscrowd": 0,
            "score": region["score"],
            "kind": region["kind"],
            "defect": defect,
        }
        for number, (image, defect, region) in enumerate(regions, start=1)
    )
    yield json.dumps(head)[:-1]
    for name, objects in (("images", images), ("annotations", annotations)):
        yield f', "{name}": '
        yield from json_list(objects)
    yield "}\n"


def read_coco(content: dict[str, Any]) -> Iterator[Labelled]:
    """Images with their annotations; one without any is good. Of run-length masks the place is not
    read."""
    names = {each["id"]: each["name"] for each in content["categories"]}
    found = defaultdict(list)
    for note in content["annotations"]:
        found[note["image_id"]].append(note)
    for image in content["images"]:
        notes, outlines, size = found[image["id"]], [], (image["width"], image["height"])
        for note in notes:
            drawn = note.get("segmentation") or [itertools.chain(*box(*note["bbox"]))]
            flat = [list(each) for each in drawn] if isinstance(drawn, list) else [[]]
            outlines += [scaled(zip(each[::2], each[1::2], strict=True), *size) for each in flat]
        called = [note.get("defect") or names[note["category_id"]] for note in notes]
        yield Labelled.of(image["file_name"], called, outlines)
