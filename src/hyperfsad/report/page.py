"""The report of a run: one HTML page that needs nothing else, the most anomalous images first.

Names of files and products are other people's input. The templates escape them; the script gets
them as JSON in blocks that browsers never run, and sets them as text.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..decisions.thresholds import level_of
from ..errors import HyperfsadError
from ..images.loading import NormalImage, load_image
from ..method.scoring import BRANCHES
from ..results.heatmap import mark_lines, thumbnail
from ..results.result import BRANCH_FIELDS
from ..wording import percent
from . import pages
from .pages import Histogram, level_histogram, score_histogram
from .records import Record, mark_of, notices_of, severity

MAX_PICTURES = 4000
"""Images with a picture in the page, the most anomalous ones: about 60 MB; others have a link."""
MAX_OUTLINE_POINTS = 300
"""Points of the outlines drawn over one image."""
LISTED_FIELDS = {
    "product": "product",
    "defect": "defect",
    "defect_score": "likeness to an example",
    "p_value": "good parts this high",
    "score": "score",
    "threshold": "threshold",
    "map_peak": "peak of the map",
    "map_threshold": "threshold of the map",
    **{field: BRANCHES[name] for name, field in BRANCH_FIELDS.items()},
    "size": "size",
}
"""The fields of a record that the page lists for an image under details, with their labels."""
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
            (number, {**entry["picture"], **_drawn(entry["record"])})
            for number, entry in zip(scored, shown, strict=False)
            if "picture" in entry
        ),
    )


def _index_entry(record: Record, index: int, folder: Path) -> Record:
    """What the page's script knows of an image before its picture is needed."""
    entry = {"index": index, "name": record["image"]}
    for name in (*LISTED_FIELDS, "level", "anomalous", "regions", "error"):
        if record[name] is not None:
            entry[name] = record[name]
    if record["level"] is not None:
        entry["reach"] = percent(record["level"])
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


def _drawn(record: Record) -> Record:
    """What is drawn over the picture: regions, or the strongest place of an anomalous image."""
    mark = mark_of(record)
    lines = [] if mark is None else mark_lines(mark, record["size"])
    return {
        "regions": _outlines(record),
        "mark": [[[round(x, 1), round(y, 1)] for x, y in line] for line in lines],
    }


def _outlines(record: Record) -> list[Record]:
    """The regions that are drawn: as many as MAX_OUTLINE_POINTS allow, the highest score first."""
    shown: list[Record] = []
    points = 0
    for region in record["regions"]:
        points += len(region["polygon"])
        if shown and points > MAX_OUTLINE_POINTS:
            break
        polygon = [[round(x, 1), round(y, 1)] for x, y in region["polygon"]]
        level = level_of(region["score"], record["map_threshold"])
        brief = {"reach": percent(level), "area": round(region["area"])}
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
    if decided:
        yield f"{_rule(decided)} {scale}"
    elif scored:
        yield f"There is no threshold, so no verdict: compare the scores. {scale}"
    else:
        yield "No image was scored."
    if named := Counter(record["defect"] for record in scored if record["defect"] is not None):
        yield f"Defects: {', '.join(f'{name} ({n})' for name, n in named.most_common())}."
    yield from map(str, notices_of(scored))
    if unknown:
        yield (
            "An image that fits no product gets the verdict of the nearest one and counts there,"
            " too; its score means little."
        )
    if any(mark_of(record) for record in scored):
        yield "A ring marks the strongest place of an anomalous image without a region."


def _rule(decided: list[Record]) -> str:
    """Which images are called anomalous, in one sentence."""
    origins = {record["threshold_from"] for record in decided if record["threshold_from"]}
    origin = f" ({origins.pop()})" if len(origins) == 1 else ""
    several = len({record["threshold"] for record in decided}) > 1
    limit = "the limit of its product" if several else "the limit"
    return f"An image is called anomalous if it reaches beyond {limit}{origin}."


def _histograms(scored: list[Record]) -> Iterator[tuple[str, Histogram]]:
    """One of all images (named ""), then one of each product, which the page's script shows."""
    products: dict[str, list[Record]] = {}
    for record in scored:
        if record["product"] is not None:
            products.setdefault(record["product"], []).append(record)
    groups = sorted(products.items()) if len(products) > 1 else []
    for name, records in [("", scored), *groups]:
        if verdicts := [(r["level"], r["anomalous"]) for r in records if r["level"] is not None]:
            yield name, level_histogram(verdicts)
        elif records:
            yield name, score_histogram([(record["score"], None) for record in records])
