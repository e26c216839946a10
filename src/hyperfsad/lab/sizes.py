"""How large the public data sets are: published rows compete only with whole ones.

`sizes.json` holds the test images of every category of the six sets, with the source of each. The
masks are as many as the bad images.
"""

import functools
import json
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, TypeAlias

from .datasets import Category

Counts: TypeAlias = Mapping[str, int]
"""`normal`, `good`, `bad` and `masks` of a category; records carry them."""

Extent: TypeAlias = Mapping[str, Counts]
"""The counts of each category of a data set that was measured."""


def count(category: Category) -> dict[str, int]:
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
    return dataset in _sizes() and cut(dataset, found) is None


def cut(dataset: str, found: Extent) -> str | None:
    """What of a data set is missing, such as "cut: 42 of 83 images".

    None where nothing is, and where nobody knows how large it should be.
    """
    known = _sizes().get(dataset)
    if known is None:
        return None
    foreign = [name for name in found if name not in known]
    if foreign:
        return f"not the known set: it has no category {', '.join(foreign)}"
    if not all(found.values()):
        return "cut: its images were not counted"
    if len(found) < len(known):
        here, all_ = _images(found.values()), _images(known.values())
        return f"cut: {len(found)} of {len(known)} categories, {here:,} of {all_:,} images"
    return _difference(found, known)


def cut_category(dataset: str, name: str, counts: Counts) -> str | None:
    """The same of one category."""
    known = _sizes().get(dataset, {})
    if name not in known:
        return None
    return _difference({name: counts}, {name: known[name]}) if counts else "cut: not counted"


def source_of(dataset: str) -> str | None:
    """Who published a data set; None for one that is not known."""
    table = _tables().get(dataset)
    return None if table is None else str(table["source"])


def _difference(found: Extent, known: Extent) -> str | None:
    here, all_ = _images(found.values()), _images(known.values())
    pairs = [(found[name], known[name]) for name in found]
    if any(ours[kind] > theirs[kind] for ours, theirs in pairs for kind in ("good", "bad")):
        if here == all_:
            return "not the known set: as many images, but others are good"
        return f"not the known set: {here:,} images instead of {all_:,}"
    if here < all_:
        return f"cut: {here:,} of {all_:,} images"
    masks, bad = (sum(of) for of in zip(*((o["masks"], k["bad"]) for o, k in pairs), strict=True))
    return None if masks == bad else f"cut: {masks:,} of {bad:,} masks"


def _images(counts: Iterable[Counts]) -> int:
    return sum(of["good"] + of["bad"] for of in counts)


def _sizes() -> dict[str, Extent]:
    return {name: table["categories"] for name, table in _tables().items()}


@functools.cache
def _tables() -> dict[str, Any]:
    file = resources.files("hyperfsad.lab") / "sizes.json"
    tables: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return tables
