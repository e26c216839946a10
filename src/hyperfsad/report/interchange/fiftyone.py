"""FiftyOne: a data set in JSON, as `fiftyone.Dataset.from_json` reads it."""

import itertools
import json
from collections.abc import Iterator
from os.path import abspath
from pathlib import Path
from typing import Any

from ..pages import write_page
from ..records import Record
from . import places
from .places import Labelled, ReadRecords

_KINDS = {
    "filepath": "StringField",
    "tags": "ListField(fiftyone.core.fields.StringField)",
    "predictions": "EmbeddedDocumentField(fiftyone.core.labels.Polylines)",
    "verdict": "EmbeddedDocumentField(fiftyone.core.labels.Classification)",
    "score": "FloatField",
    "level": "FloatField",
}
TRUTH = "ground_truth"
"""The field that holds what is right, as FiftyOne itself calls it."""


def write_fiftyone(folder: Path, read: ReadRecords) -> None:
    """Regions as polygons in the field `predictions`, the verdict as a class."""
    samples = places.json_list(map(_sample, places.scored(read)))
    fields = {name: f"fiftyone.core.fields.{kind}" for name, kind in _KINDS.items()}
    head = json.dumps({"name": "hyperfsad", "media_type": "image", "sample_fields": fields})
    start = f'{head[:-1]}, "samples": '
    write_page(folder / "fiftyone.json", itertools.chain([start], samples, "}"))


def _sample(record: Record) -> dict[str, Any]:
    verdict, found = record["anomalous"], []
    for region in record["regions"]:
        shape = {"points": [places.outline(region, record["size"])], "closed": True, "filled": True}
        facts = {"label": places.name_of(record), "confidence": region["score"]}
        found.append({"_cls": "Polyline", **shape, **facts, "kind": region["kind"]})
    label = {"_cls": "Classification", "label": places.VERDICTS.get(verdict)}
    return {
        "filepath": Path(abspath(record["image"])).as_posix(),
        "tags": [],
        "predictions": {"_cls": "Polylines", "polylines": found},
        "verdict": None if verdict is None else label,
        "score": record["score"],
        "level": record["level"],
    }


def read_fiftyone(content: dict[str, Any]) -> Iterator[Labelled]:
    """Samples with polygons, boxes or a class in the field `ground_truth`; others are left out. Of
    masks in boxes the place is not read."""
    for sample in content["samples"]:
        if (truth := sample.get(TRUTH)) is not None:
            lines, boxes = truth.get("polylines", []), truth.get("detections", [])
            outlines = [places.scaled(line, 1, 1) for each in lines for line in each["points"]]
            for each in boxes:
                masked = each.get("mask") or each.get("mask_path")
                outlines.append(() if masked else places.box(*each["bounding_box"]))
            classes = [truth] if "label" in truth else truth.get("classifications", [])
            names = (each["label"] for each in [*lines, *boxes, *classes])
            yield Labelled.of(sample["filepath"], names, outlines)
