"""The report of a run: one HTML page that needs nothing else, the most anomalous images first.

Names of files and products are other people's input. The templates escape them; the script gets
them as JSON in blocks that browsers never run, and sets them as text.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
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
MAX_OPEN_ROWS = 12
"""The table of thresholds starts folded when more products have one."""
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
    return {
        "counts": _counts(scored, failed),
        "sentences": list(_sentences(scored)),
        "histograms": list(_histograms(scored)),
        "products": products,
        "max_open_rows": MAX_OPEN_ROWS,
        "support": support,
        "support_title": f"Learnt from {total:,} good part{'' if total == 1 else 's'}{several}",
        "max_support": max(2, MAX_SUPPORT // max(len(support), 1)),
    }


def _counts(scored: list[Record], failed: int) -> list[tuple[str, int, str]]:
    """Name, number and CSS class of each count."""
    verdicts = [record["anomalous"] for record in scored]
    counts = [("images", len(scored) + failed, "")]
    if verdicts.count(None) < len(verdicts):
        counts.append(("anomalous", verdicts.count(True), "bad"))
        counts.append(("good", verdicts.count(False), "good"))
    strange = {"unknown_product": "fit no product", "foreign": "like another product"}
    for name, number in (
        ("failed", failed),
        *((label, sum(bool(record[f]) for record in scored)) for f, label in strange.items()),
    ):
        if number:
            counts.append((name, number, "failed"))
    return counts


def _sentences(scored: list[Record]) -> Iterator[str]:
    several = any(record["nearest_product"] is not None for record in scored)
    scale = f"All maps {'of a product ' if several else ''}share one colour scale."
    judged = [record for record in scored if record["anomalous"] is not None]
    if judged:
        yield f"{_rule(judged)} {scale}"
    elif scored:
        yield f"There is no threshold, so no verdict: compare the scores. {scale}"
    else:
        yield "No image was scored."
    yield from notices_of(scored)
    unknown = [record["anomalous"] for record in scored if record["unknown_product"]]
    if unknown:
        yield _about_unknown_products(unknown)
    if any(record["anomalous"] and record["regions"] == 0 for record in _with_map(judged)):
        yield "An anomalous image without a region has no place that stands out enough by itself."


def _with_map(judged: list[Record]) -> list[Record]:
    """Images whose map had a threshold, so that regions were sought."""
    return [record for record in judged if record["map_threshold"] is not None]


def _rule(judged: list[Record]) -> str:
    """Which images are called anomalous, in one sentence."""
    thresholds = {record["threshold"] for record in judged}
    levels = {record["map_threshold"] for record in _with_map(judged)}
    if len(thresholds) > 1:
        rule = "its score lies above the threshold of its product"
        place = "a place above the product's threshold of the map"
    else:
        rule = f"its score lies above {min(thresholds):.3f}"
        one = len(levels) == 1
        place = f"a place above {min(levels):.3f}" if one else "a place that stands out"
    if levels:
        rule += f", or its map has a region, {place}"
    origins = {record["threshold_from"] for record in judged if record["threshold_from"]}
    both = "both thresholds: " if levels else ""
    origin = f" ({both}{origins.pop()})" if len(origins) == 1 else ""
    return f"An image is called anomalous if {rule}{origin}."


def _about_unknown_products(verdicts: list[bool | None]) -> str:
    """The counts contain these images twice, so the page says so."""
    kinds = [(verdicts.count(True), "anomalous"), (verdicts.count(False), "good")]
    if len(verdicts) == 1:
        counted = "".join(f", and counted as {kind} too" for number, kind in kinds if number)
        lead, tail = "The image that fits no product is", "its score means little."
    else:
        found = " and ".join(f"{number:,} as {kind}" for number, kind in kinds if number)
        counted = f", and counted there too, {found}" if found else ""
        lead = f"The {len(verdicts):,} images that fit no product are"
        tail = "their scores mean little."
    return f"{lead} judged by the nearest one{counted}; {tail}"


def _histograms(scored: list[Record]) -> Iterator[tuple[str, Histogram]]:
    """One of all images (named ""), then one of each product, which the page's script shows."""
    if not scored:
        return
    products: dict[str, list[Record]] = {}
    for record in scored:
        if record["product"] is not None:
            products.setdefault(record["product"], []).append(record)
    several = len(products) > 1
    thresholds = {name: own[0]["threshold"] for name, own in sorted(products.items())}
    if several or len({record["threshold"] for record in scored}) > 1:
        yield "", score_histogram(_verdicts(scored), thresholds)
    else:
        yield "", score_histogram(_verdicts(scored), {"threshold": scored[0]["threshold"]})
    for name, threshold in thresholds.items() if several else ():
        yield name, score_histogram(_verdicts(products[name]), {"threshold": threshold})


def _verdicts(records: list[Record]) -> list[tuple[float, bool | None]]:
    return [(record["score"], record["anomalous"]) for record in records]
