"""Label Studio: tasks with predictions, the interface that shows them, and tasks it exported."""

from collections.abc import Iterator
from os.path import abspath
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit
from xml.sax.saxutils import quoteattr

from ..pages import write_page
from ..records import Record
from . import places
from .places import Labelled, Outline, ReadRecords

LOCAL_FILES = "/data/local-files/?d="
"""Where Label Studio serves files of its own machine, by their path below its document root."""


def write_label_studio(folder: Path, read: ReadRecords) -> None:
    """Tasks to import, and the labelling interface to begin the project with."""
    write_page(folder / "label-studio.json", places.json_list(map(_task, places.scored(read))))
    write_page(folder / "label-studio.xml", _interface(read))


def _interface(read: ReadRecords) -> Iterator[str]:
    yield '<View>\n<Image name="image" value="$image" zoom="true"/>\n'
    yield '<Choices name="verdict" toName="image">\n'
    yield from (f"<Choice value={quoteattr(name)}/>\n" for name in places.VERDICTS.values())
    yield '</Choices>\n<PolygonLabels name="label" toName="image">\n'
    yield from (f"<Label value={quoteattr(name)}/>\n" for name in places.names_in(read))
    yield "</PolygonLabels>\n</View>\n"


def _task(record: Record) -> dict[str, Any]:
    size, name = record["size"], places.name_of(record)
    shared = {"to_name": "image", "original_width": size[0], "original_height": size[1]}
    found: list[dict[str, Any]] = []
    for number, region in enumerate(record["regions"], start=1):
        value = {"points": places.outline(region, size, 100), "closed": True}
        facts = {"id": f"region{number}", "type": "polygonlabels", "from_name": "label"}
        more = {"score": region["score"], "value": {**value, "polygonlabels": [name]}}
        found.append({**shared, **facts, **more, "image_rotation": 0})
    if record["anomalous"] is not None:
        choice = {"value": {"choices": [places.VERDICTS[record["anomalous"]]]}}
        facts = {"id": "verdict", "type": "choices", "from_name": "verdict"}
        found.append({**shared, **facts, **choice})
    path = quote(Path(abspath(record["image"])).as_posix().lstrip("/"), errors="surrogateescape")
    prediction = {"model_version": "hyperfsad", "score": record["score"], "result": found}
    return {"data": {"image": LOCAL_FILES + path}, "predictions": [prediction]}


def read_label_studio(content: list[dict[str, Any]]) -> Iterator[Labelled]:
    """Tasks that a person has labelled, by the first annotation that was not cancelled; others are
    left out. Of ellipses and brushes the place is not read."""
    for task in content:
        kept = [each for each in task.get("annotations") or [] if not each.get("was_cancelled")]
        if kept:
            parts = sorted(kept[0]["result"], key=lambda part: part["type"] == "choices")
            names = [name for part in parts for name in part["value"].get(part["type"], ())]
            outlines = [_outline(part["value"]) for part in parts if part["type"] != "choices"]
            image = urlsplit(next(each for each in task["data"].values() if isinstance(each, str)))
            local = parse_qs(image.query).get("d")  # below the document root
            yield Labelled.of(f"/{local[0]}" if local else image.path, names, outlines)


def _outline(value: dict[str, Any]) -> Outline | None:
    if "points" in value:
        return places.scaled(value["points"], 100, 100)
    if value.get("rotation") or "width" not in value:
        return None
    corners = places.box(*(value[key] for key in ("x", "y", "width", "height")))
    return places.scaled(corners, 100, 100)
