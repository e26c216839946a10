"""The report of a run: one HTML page that needs nothing else, the most anomalous images first.

Names of files and products are other people's input. The templates escape them; the script gets
them as JSON in blocks that browsers never run, and sets them as text.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..method.branches import BRANCHES
from ..results.result import BRANCH_FIELDS
from . import pages
from .exports import Record, severity
from .overview import Overview, ProductSummary

MOST_PICTURES = 4000
"""Images with a picture in the page, the most anomalous ones: about 60 MB; others have a link."""
MOST_POINTS = 300
"""Points of the outlines drawn over one image."""
FIELDS = {
    "score": "score",
    "threshold": "threshold",
    "p_value": "good parts this high",
    "product": "product",
    **{field: BRANCHES[name] for name, field in BRANCH_FIELDS.items()},
    "size": "size",
}
"""The fields of a record that the page lists for an image, with their labels."""
MOST_ROWS = 12
"""The table of thresholds starts folded when more products have one."""


def report_html(
    records: Sequence[Record],
    entries: Callable[[list[str]], Iterable[dict[str, Any]]],
    products: Sequence[ProductSummary],
    folder: Path,
) -> Iterator[str]:
    """The page in small chunks, so that memory never holds the pictures of all images.

    `records` are those of results.jsonl, with the number of regions instead of the regions.
    `entries` reads the journal's entries of images, one by one. Links are relative to `folder`.
    """
    failed = [i for i, record in enumerate(records) if record["error"] is not None]
    scored = [i for i, record in enumerate(records) if record["error"] is None]
    scored.sort(key=lambda i: -severity(records[i]))
    shown = entries([records[i]["image"] for i in scored[:MOST_PICTURES]])
    template = pages.environment(__package__).get_template("report.html.j2")
    return template.generate(
        **pages.head(__package__, "report.css", "report.js"),
        overview=Overview([records[i] for i in scored], len(failed), products),
        most_rows=MOST_ROWS,
        fields=list(FIELDS.items()),
        index=(_index_entry(records[i], i, folder) for i in scored + failed),
        pictures=(
            (number, {**entry["picture"], "regions": _outlines(entry["line"])})
            for number, entry in zip(scored, shown, strict=False)
            if "picture" in entry
        ),
    )


def _index_entry(record: Record, index: int, folder: Path) -> Record:
    """What the page's script knows of an image before its picture is needed."""
    entry = {"index": index, "name": record["image"]}
    for name in (*FIELDS, "anomalous", "regions"):
        if record.get(name) is not None:
            entry[name] = record[name]
    if record.get("map_threshold") is None:  # regions were not sought, which is not "none found"
        entry.pop("regions", None)
    if record.get("nearest_product") is not None:
        entry |= {"product": record["nearest_product"], "unknown": record["unknown_product"]}
    elif record.get("foreign"):
        entry["unknown"] = True
    if record["error"] is not None:
        entry["error"] = record["error"]
    if record["heatmap"]:
        entry["heatmap"] = quote(record["heatmap"], errors="replace")
    if link := _link(record["image"], folder):
        entry["original"] = link
    return entry


def _link(image: str, folder: Path) -> str | None:
    """A link from the page to the image itself; whatever its name, the link is a path."""
    if not os.path.isfile(image):
        return None
    try:
        path = os.path.relpath(os.path.abspath(image), os.path.abspath(folder))
    except ValueError:  # on another drive
        return Path(image).absolute().as_uri()
    return quote(os.fsencode(path.replace(os.sep, "/")))


def _outlines(record: Record) -> list[Record]:
    """The regions that are drawn: as many as MOST_POINTS allow, the highest score first."""
    shown: list[Record] = []
    points = 0
    for region in record["regions"]:
        points += len(region["polygon"])
        if shown and points > MOST_POINTS:
            break
        places = [[round(x, 1), round(y, 1)] for x, y in region["polygon"]]
        brief = {"score": round(region["score"], 4), "area": round(region["area"])}
        brief |= {"missing": True} if region.get("kind") == "missing" else {}
        shown.append({**brief, "bbox": region["bbox"], "polygon": places})
    return shown
