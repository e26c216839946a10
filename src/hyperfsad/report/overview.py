"""The top of the report: what was found, by which thresholds, and the good parts behind them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..errors import HyperfsadError
from ..images.loading import NormalImage, load_image
from ..results.heatmap import thumbnail
from .exports import Record, all_anomalous, look_foreign
from .pages.histogram import Histogram, score_histogram

MOST_SUPPORT = 24
"""Good parts that are shown; each of several products shows at least two."""

NO_REGION = "An anomalous image without a region has no place that stands out enough by itself."


@dataclass(frozen=True)
class ProductSummary:
    """What the report says about one product of the detector."""

    images: tuple[NormalImage, ...]
    name: str | None = None
    """None where the detector knows one product only and has no name for it."""
    threshold: float | None = None
    threshold_from: str | None = None

    @cached_property
    def distinct(self) -> list[NormalImage]:
        """Each good part once, although the memory may hold it in several orientations."""
        return list({image.sha256: image for image in self.images}.values())

    def thumbnails(self, most: int) -> Iterator[tuple[str, str | None]]:
        """Names and pictures of the first good parts; None where the file is gone or changed."""
        for image in self.distinct[:most]:
            try:
                picture = load_image(image.name)
            except HyperfsadError:
                yield image.name, None
                continue
            same = picture.sha256() == image.sha256
            yield image.name, thumbnail(picture.rgb()) if same else None


class Overview:
    """What the template shows; `scored` are the records of the images that could be read."""

    def __init__(
        self, scored: list[Record], failed: int, products: Sequence[ProductSummary]
    ) -> None:
        self.products = products
        self.counts = _counts(scored, failed)
        self.sentences = list(_sentences(scored))
        self.histograms = list(_histograms(scored))
        self.support = [product for product in products if product.distinct]
        self.most_support = max(2, MOST_SUPPORT // max(len(self.support), 1))

    @property
    def support_title(self) -> str:
        """How many good parts the detector has learnt from."""
        total = sum(len(product.distinct) for product in self.support)
        parts = f"{total:,} good part{'' if total == 1 else 's'}"
        of = f" of {len(self.support):,} products" if len(self.support) > 1 else ""
        return f"Learnt from {parts}{of}"


def _counts(scored: list[Record], failed: int) -> list[tuple[str, int, str]]:
    """Name, number and CSS class of each count."""
    verdicts = [record["anomalous"] for record in scored]
    counts = [("images", len(scored) + failed, "")]
    if verdicts.count(None) < len(verdicts):
        counts.append(("anomalous", verdicts.count(True), "bad"))
        counts.append(("good", verdicts.count(False), "good"))
    if failed:
        counts.append(("failed", failed, "failed"))
    if unknown := sum(bool(record.get("unknown_product")) for record in scored):
        counts.append(("fit no product", unknown, "failed"))
    if foreign := sum(bool(record.get("foreign")) for record in scored):
        counts.append(("like another product", foreign, "failed"))
    return counts


def _sentences(scored: list[Record]) -> Iterator[str]:
    several = any(record.get("nearest_product") is not None for record in scored)
    scale = f"All maps {'of a product ' if several else ''}share one colour scale."
    judged = [record for record in scored if record["anomalous"] is not None]
    if judged:
        yield f"{_rule(judged)} {scale}"
    elif scored:
        yield f"There is no threshold, so no verdict: compare the scores. {scale}"
    else:
        yield "No image was scored."
    if note := all_anomalous([record["anomalous"] for record in judged]):
        yield note.replace("`", "")
    unknown = [record["anomalous"] for record in scored if record.get("unknown_product")]
    if unknown:
        yield _about_unknown_products(unknown)
    if note := look_foreign(scored):
        yield note
    if any(record["anomalous"] and record.get("regions") == 0 for record in _with_map(judged)):
        yield NO_REGION


def _with_map(judged: list[Record]) -> list[Record]:
    """Images whose map had a threshold, so that regions were sought."""
    return [record for record in judged if record.get("map_threshold") is not None]


def _rule(judged: list[Record]) -> str:
    """Which images are called anomalous, in one sentence."""
    regions = _with_map(judged)
    # detectors that an earlier version calibrated judge by the score alone
    regions = [] if any(not one["anomalous"] and one.get("regions") for one in regions) else regions
    thresholds = {record["threshold"] for record in judged}
    levels = {record["map_threshold"] for record in regions}
    if len(thresholds) > 1:
        of_map = ", or its map has a region, a place above the product's threshold of the map"
        rule = f"its score lies above the threshold of its product{of_map if regions else ''}"
    else:
        place = (
            f"a place above {min(levels):.3f}" if len(levels) == 1 else "a place that stands out"
        )
        of_map = f", or its map has a region, {place}"
        rule = f"its score lies above {min(thresholds):.3f}{of_map if regions else ''}"
    origins = {record["threshold_from"] for record in judged if record.get("threshold_from")}
    both = "both thresholds: " if regions else ""
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
        if record.get("product") is not None:
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
