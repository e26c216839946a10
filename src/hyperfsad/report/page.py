"""The report of a run: one HTML page that needs nothing else, the most anomalous images first.

Names of files and products are other people's input. The templates escape them; the script gets
them as JSON in blocks that browsers never run, and sets them as text.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import HyperfsadError
from ..images.loading import NormalImage, load_image
from ..method.scoring import BRANCHES
from ..results.heatmap import thumbnail
from ..results.result import BRANCH_FIELDS
from . import pages
from .pages import Histogram, score_histogram
from .records import Record, notices_of, severity

MAX_PICTURES = 4000
"""Images with a picture in the page, the most anomalous ones: about 60 MB; others have a link."""
MAX_OUTLINE_POINTS = 300
"""Points of the outlines drawn over one image."""
LISTED_FIELDS = {
    "score": "score",
    "threshold": "threshold",
    "p_value": "good parts this high",
    "product": "product",
    **{field: BRANCHES[name] for name, field in BRANCH_FIELDS.items()},
    "size": "size",
}
"""The fields of a record that the page lists for an image, with their labels."""
MAX_SUPPORT = 24
"""Good parts that are shown; each of several products shows at least two."""


@dataclass(frozen=True)
class ProductSummary:
    """What the report says about one product of the detector."""

    images: tuple[NormalImage, ...]
    name: str = ""
    """Empty if the detector knows one product only."""
    threshold: float | None = None
    threshold_from: str | None = None

    @cached_property
    def distinct(self) -> list[NormalImage]:
        """Each good part once, although the memory may hold it in several orientations."""
        return list({image.sha256: image for image in self.images}.values())

    def thumbnails(self, limit: int) -> Iterator[tuple[str, str | None]]:
        """Names and pictures of the first good parts; None if the file is gone or changed."""
        for image in self.distinct[:limit]:
            try:
                picture = load_image(image.name)
            except HyperfsadError:
                yield image.name, None
                continue
            same = picture.sha256() == image.sha256
            yield image.name, thumbnail(picture.rgb()) if same else None


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
    shown = entries([records[i]["image"] for i in scored[:MAX_PICTURES]])
    template = pages.environment(__package__).get_template("report.html.j2")
    return template.generate(
        **pages.head(__package__, "report.css", "report.js"),
        overview=make_overview([records[i] for i in scored], len(failed), products),
        fields=list(LISTED_FIELDS.items()),
        index=(_index_entry(records[i], i, folder) for i in scored + failed),
        pictures=(
            (number, {**entry["picture"], "regions": _outlines(entry["record"])})
            for number, entry in zip(scored, shown, strict=False)
            if "picture" in entry
        ),
    )


def _index_entry(record: Record, index: int, folder: Path) -> Record:
    """What the page's script knows of an image before its picture is needed."""
    entry = {"index": index, "name": record["image"]}
    for name in (*LISTED_FIELDS, "anomalous", "regions", "error"):
        if record[name] is not None:
            entry[name] = record[name]
    if record["map_threshold"] is None:  # regions were not sought, which is not "none found"
        entry.pop("regions", None)
    if record["nearest_product"] is not None:
        entry |= {"product": record["nearest_product"], "unknown": record["unknown_product"]}
    elif record["foreign"]:
        entry["unknown"] = True
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
    """The regions that are drawn: as many as MAX_OUTLINE_POINTS allow, the highest score first."""
    shown: list[Record] = []
    points = 0
    for region in record["regions"]:
        points += len(region["polygon"])
        if shown and points > MAX_OUTLINE_POINTS:
            break
        polygon = [[round(x, 1), round(y, 1)] for x, y in region["polygon"]]
        brief = {"score": round(region["score"], 4), "area": round(region["area"])}
        brief |= {"missing": True} if region["kind"] == "missing" else {}
        shown.append({**brief, "bbox": region["bbox"], "polygon": polygon})
    return shown


def make_overview(
    scored: list[Record], failed: int, products: Sequence[ProductSummary]
) -> dict[str, Any]:
    """The top of the page: what was found, by which thresholds, and the good parts behind them.

    `scored` are the records of the images that could be read.
    """
    support = [product for product in products if product.distinct]
    total = sum(len(product.distinct) for product in support)
    several = f" of {len(support):,} products" if len(support) > 1 else ""
    verdicts = [record["anomalous"] for record in scored]
    counts = [("images", len(scored) + failed, "")]
    if verdicts.count(None) < len(verdicts):
        counts += [
            ("anomalous", verdicts.count(True), "bad"),
            ("good", verdicts.count(False), "good"),
        ]
    unknown, foreign = (
        sum(bool(record[name]) for record in scored) for name in ("unknown_product", "foreign")
    )
    doubts = {"failed": failed, "fit no product": unknown, "like another product": foreign}
    counts += [(name, number, "failed") for name, number in doubts.items() if number]
    return {
        "counts": counts,
        "sentences": list(_sentences(scored, unknown)),
        "histograms": list(_histograms(scored)),
        "products": products,
        "support": support,
        "support_title": f"Learnt from {total:,} good part{'' if total == 1 else 's'}{several}",
        "max_support": max(2, MAX_SUPPORT // max(len(support), 1)),
    }


def _sentences(scored: list[Record], unknown: int) -> Iterator[str]:
    several = any(record["nearest_product"] is not None for record in scored)
    scale = f"All maps {'of a product ' if several else ''}share one colour scale."
    decided = [record for record in scored if record["anomalous"] is not None]
    # only where the map had a threshold were regions sought
    with_map = [record for record in decided if record["map_threshold"] is not None]
    if decided:
        yield f"{_rule(decided, {record['map_threshold'] for record in with_map})} {scale}"
    elif scored:
        yield f"There is no threshold, so no verdict: compare the scores. {scale}"
    else:
        yield "No image was scored."
    yield from map(str, notices_of(scored))
    if unknown:
        yield (
            "An image that fits no product gets the verdict of the nearest one and counts there,"
            " too; its score means little."
        )
    if any(record["anomalous"] and record["regions"] == 0 for record in with_map):
        yield "An anomalous image without a region has no place that stands out enough by itself."


def _rule(decided: list[Record], levels: set[float]) -> str:
    """Which images are called anomalous, in one sentence; `levels` are thresholds of maps."""
    thresholds = {record["threshold"] for record in decided}
    if len(thresholds) > 1:
        rule = "its score lies above the threshold of its product"
        place = "a place above the product's threshold of the map"
    else:
        rule = f"its score lies above {min(thresholds):.3f}"
        place = "a place that stands out"
        if len(levels) == 1:
            place = f"a place above {min(levels):.3f}"
    if levels:
        rule += f", or its map has a region, {place}"
    origins = {record["threshold_from"] for record in decided if record["threshold_from"]}
    both = "both thresholds: " if levels else ""
    origin = f" ({both}{origins.pop()})" if len(origins) == 1 else ""
    return f"An image is called anomalous if {rule}{origin}."


def _histograms(scored: list[Record]) -> Iterator[tuple[str, Histogram]]:
    """One of all images (named ""), then one of each product, which the page's script shows."""
    if not scored:
        return
    products: dict[str, list[Record]] = {}
    for record in scored:
        if record["product"] is not None:
            products.setdefault(record["product"], []).append(record)
    thresholds = {name: own[0]["threshold"] for name, own in sorted(products.items())}
    several = len(products) > 1
    one = not several and len({record["threshold"] for record in scored}) == 1
    yield "", _histogram(scored, {"threshold": scored[0]["threshold"]} if one else thresholds)
    for name, threshold in thresholds.items() if several else ():
        yield name, _histogram(products[name], {"threshold": threshold})


def _histogram(records: list[Record], thresholds: Mapping[str, float | None]) -> Histogram:
    verdicts = [(record["score"], record["anomalous"]) for record in records]
    return score_histogram(verdicts, thresholds)
