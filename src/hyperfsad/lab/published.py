"""What others published: the figures that the paper prints, and how large the data sets are.

`published.json` holds every results table of the paper, one row of figures a line, as printed.
`sizes.json` holds the test images of every category of the six data sets, with the source of each;
every bad image has a mask. Published rows compete only with whole data sets.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, TypeAlias

from .datasets import Category
from .tables import Cell

SIX_SETS = ("mvtec", "visa", "mpdd", "btad", "resc", "brats")
"""The paper's data sets, in the order of its tables."""

Counts: TypeAlias = Mapping[str, int]
"""`normal`, `good`, `bad` and `masks` of a category; records carry them."""

Extent: TypeAlias = Mapping[str, Counts]
"""The counts of each category of a data set that was measured."""


@dataclass(frozen=True)
class PublishedRow:
    """What the paper prints of one method at one number of shots on one data set."""

    method: str
    venue: str | None
    backbone: str | None
    """As the paper spells it; outside the efficiency table only Hyper-FSAD's own rows have one."""
    shots: int
    dataset: str | None
    """None where the row stands for no single one: efficiency, averages."""
    variant: str | None
    """The setting under study, spelt as this package spells it: `top-1%`, `3,6,9,12`, `448`."""
    metrics: dict[str, Cell] = field(hash=False)
    """Printed numbers: metrics in percent, `ms` per image, `GB` of GPU memory; deviations are over
    five runs, where the paper gives them."""


def published(kind: str, **where: str | int | None) -> list[PublishedRow]:
    """The rows of one kind (`main`, `lookup`, `layers`, …) whose fields are as given.

    >>> published("main", method="ReMP-AD", shots=1, dataset="mvtec")[0].metrics["I-AUROC"].mean
    94.7
    """
    rows = _published_tables()[kind]
    return [row for row in rows if all(getattr(row, key) == where[key] for key in where)]


def six_set_mean(rows: Sequence[PublishedRow], metric: str) -> float | None:
    """A metric of one method at one number of shots, averaged over the six data sets."""
    by_set = {row.dataset: row.metrics.get(metric) for row in rows}
    cell = average([by_set.get(name) for name in SIX_SETS])
    return None if cell is None else cell.mean


def average(cells: Sequence[Cell | None]) -> Cell | None:
    """The mean of all; None where one is missing: a mean over fewer would look like a better
    method."""
    means = [cell.mean for cell in cells if cell]
    return Cell(sum(means) / len(means)) if len(means) == len(cells) else None


def count_images(category: Category) -> dict[str, int]:
    """What a category holds: normal images, good and bad test images, masks."""
    bad = sum(image.anomalous for image in category.test)
    return {
        "normal": len(category.normal),
        "good": len(category.test) - bad,
        "bad": bad,
        "masks": sum(image.mask is not None for image in category.test),
    }


def is_whole(dataset: str, found: Extent) -> bool:
    """Whether this is all of a data set whose size is known."""
    return dataset in sizes() and missing_part(dataset, found) is None


def missing_part(dataset: str, found: Extent, category: str | None = None) -> str | None:
    """What of a data set, or of one of its categories, is missing: "subset: 42 of 83 images".

    None where nothing is, and where its true size is not known.
    """
    known: Extent = sizes().get(dataset, {"categories": {}})["categories"]
    if category is not None:
        known = {name: counts for name, counts in known.items() if name == category}
    if not known:
        return None
    foreign = [name for name in found if name not in known]
    if foreign:
        return f"not the known set: it has no category {', '.join(foreign)}"
    if not all(found.values()):
        return "subset: its images were not counted"
    here, all_ = (sum(of["good"] + of["bad"] for of in each.values()) for each in (found, known))
    if len(found) < len(known):
        return f"subset: {len(found)} of {len(known)} categories, {here:,} of {all_:,} images"
    if any(found[name][kind] > known[name][kind] for name in found for kind in ("good", "bad")):
        return f"not the known set: {here:,} other images instead of {all_:,}"
    if here < all_:
        return f"subset: {here:,} of {all_:,} images"
    masks, bad = sum(of["masks"] for of in found.values()), sum(of["bad"] for of in known.values())
    return None if masks == bad else f"subset: {masks:,} of {bad:,} masks"


def _read_json(name: str) -> dict[str, Any]:
    file = resources.files("hyperfsad.lab") / name
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


@functools.cache
def sizes() -> dict[str, Any]:
    """By data set: who published it (`source`), and the test images of its `categories`."""
    return _read_json("sizes.json")


@functools.cache
def _published_tables() -> dict[str, tuple[PublishedRow, ...]]:
    tables = _read_json("published.json")
    del tables["source"]
    for row in (row for rows in tables.values() for row in rows):
        row["metrics"] = {name: Cell(**value) for name, value in row["metrics"].items()}
    return {kind: tuple(PublishedRow(**row) for row in rows) for kind, rows in tables.items()}
