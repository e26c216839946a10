"""CVAT: the format "CVAT for images 1.1", one XML file."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from ..pages import write_page
from . import places
from .places import Labelled, Outline, ReadRecords

_SCORE = (
    "<attribute><name>score</name><mutable>False</mutable><input_type>text</input_type>"
    "<default_value></default_value><values></values></attribute>"
)


def write_cvat(folder: Path, read: ReadRecords) -> None:
    """Annotations to upload to a task of the same images; the verdict is a tag."""
    write_page(folder / "cvat.xml", _xml(read))


def _xml(read: ReadRecords) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n<version>1.1</version>\n'
    yield "<meta><task><labels>\n"
    labels = [(name, "polygon", _SCORE) for name in places.names_in(read)]
    for name, kind, more in [*labels, *((name, "tag", "") for name in places.VERDICTS.values())]:
        text = f"<name>{escape(name)}</name><type>{kind}</type><attributes>{more}</attributes>"
        yield f"<label>{text}</label>\n"
    yield "</labels></task></meta>\n"
    above = _folder({os.path.dirname(os.path.abspath(r["image"])) for r in places.scored(read)})
    for number, record in enumerate(places.scored(read)):
        file = Path(os.path.relpath(record["image"], above) if above else record["image"])
        width, height = record["size"]
        yield f'<image id="{number}" name={quoteattr(places.printable(file.as_posix()))}'
        yield f' width="{width}" height="{height}">\n'
        for region in record["regions"]:
            corners = ";".join(f"{x},{y}" for x, y in places.outline(region, (1, 1)))
            yield f'<polygon label={quoteattr(places.name_of(record))} source="auto"'
            yield f' occluded="0" points="{corners}" z_order="0">'
            yield f'<attribute name="score">{region["score"]:.6g}</attribute></polygon>\n'
        if record["anomalous"] is not None:
            yield f'<tag label="{places.VERDICTS[record["anomalous"]]}" source="auto"></tag>\n'
        yield "</image>\n"
    yield "</annotations>\n"


def _folder(folders: set[str]) -> str:
    """The folder above all images: a task names them below it. "" where they share none."""
    try:
        return os.path.commonpath(folders) if folders else ""
    except ValueError:  # of several drives
        return ""


def read_cvat(path: Path) -> Iterator[Labelled]:
    """Images with polygons, boxes and tags; one without any is good. Of other shapes the place is
    not read."""
    for image in ElementTree.parse(path).getroot().iter("image"):
        size = float(image.attrib["width"]), float(image.attrib["height"])
        parts = sorted((each for each in image if "label" in each.attrib), key=_is_tag)
        outlines = [_outline(part.tag, part.attrib, size) for part in parts if not _is_tag(part)]
        yield Labelled.of(image.attrib["name"], (part.attrib["label"] for part in parts), outlines)


def _is_tag(part: "ElementTree.Element[str]") -> bool:
    return part.tag == "tag"


def _outline(kind: str, facts: dict[str, Any], size: tuple[float, float]) -> Outline | None:
    if kind == "polygon":
        corners = [point.split(",") for point in facts["points"].split(";")]
        return places.scaled([(float(x), float(y)) for x, y in corners], *size)
    if kind != "box" or float(facts.get("rotation", 0)):
        return None
    left, top, right, bottom = (float(facts[key]) for key in ("xtl", "ytl", "xbr", "ybr"))
    return places.scaled(((left, top), (right, top), (right, bottom), (left, bottom)), *size)
