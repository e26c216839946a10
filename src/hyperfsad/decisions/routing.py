"""Which product an image shows: the nearest by CLS tokens, or none.

The distance of two images is 1 − the cosine of their CLS tokens, averaged over the layers; that of
an image from a product is the smallest over its good parts. How far is too far follows from good
parts alone: half of the way to the nearest other product, within limits that come from empty
pictures (plain white, grey and black), which show how far apart an encoder puts what has nothing
in common. A lone product with a lone good part has such limits too.
docs/measurements/products.md has the measurements and the rules that did worse.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, like, namespace, to_numpy
from ..method.scoring import cls_similarities

if TYPE_CHECKING:
    from ..images.loading import NormalImage
    from ..method.memory import MemoryBank

HALF = 0.5

NEVER_BELOW = 0.1
"""Part of the mean distance to empty pictures: without it, defects would fit none where two
products look alike. A recipe has an upper limit too: without it, everything would fit where
products have nothing in common."""

SPREAD = 3.0
"""A part may also be this many times as far away as good parts usually are from each other. No
product that was measured needs it, but parts that lie about at any angle would."""

Similarities = NDArray[np.float32]

EQUAL_DISTANCE = 1e-5
"""Equal pictures are this close."""


@dataclass(frozen=True)
class Route:
    """Where an image belongs."""

    nearest: str
    """The product with the most similar good part."""
    similarity: float
    """Cosine of the CLS tokens, averaged over the layers."""
    least: float
    """An image that is less similar does not fit the product."""
    runner_up: str | None = None
    """The second nearest product; None where there is but one."""
    margin: float | None = None
    """How much more similar the image is to the nearest than to the runner-up."""

    @property
    def product(self) -> str | None:
        """The image's product; None where it fits none."""
        return self.nearest if self.similarity >= self.least else None

    @property
    def unknown(self) -> bool:
        """Whether the image fits no product."""
        return self.product is None

    def to_text(self) -> str:
        """For people, as in "product bottle, similarity 0.991"."""
        if self.unknown:
            return (
                f"fits no product; the nearest is {self.nearest}, similarity"
                f" {self.similarity:.3f} where {self.least:.3f} are needed"
            )
        return f"product {self.nearest}, similarity {self.similarity:.3f}"

    def to_dict(self) -> dict[str, Any]:
        """What results.jsonl says of the product."""
        values = (self.product, self.unknown, self.nearest, self.similarity, self.margin)
        return dict(zip(NO_ROUTE, values, strict=True))


NO_ROUTE: Mapping[str, None] = dict.fromkeys(
    ("product", "unknown_product", "nearest_product", "product_similarity", "product_margin")
)
"""What it says where a detector knows one product only."""


class Router:
    """The CLS tokens of all good parts, ready to be compared with those of an image."""

    def __init__(self, products: "Mapping[str, MemoryBank]", least: Mapping[str, float]) -> None:
        self._names = list(products)
        self._least = dict(least)
        self._cls, self._sizes = _stacked(products)

    def route(self, cls: Array) -> Route:
        """The way of one image, (layers, D)."""
        (to_products,) = _nearest(similarities(cls[None], self._cls), self._sizes)
        order = (-to_products).argsort(stable=True)[:2]
        names = [self._names[place] for place in order]
        best, *second = to_products[order].tolist()
        return Route(
            names[0],
            best,
            self._least[names[0]],
            names[1] if second else None,
            best - second[0] if second else None,
        )


def similarities(images: Array, others: Array) -> Similarities:
    """Cosines of CLS tokens, averaged over the layers: (Q, layers, D), (K, layers, D) → (Q, K)."""
    found = to_numpy(cls_similarities(images, like(others, images)))
    return np.asarray(found.mean(axis=-1))


def foreign_distance(bank: "MemoryBank", empty: Array, share: float) -> float:
    """Beyond which distance from the good parts an image looks like another product.

    `empty` are the CLS tokens of empty pictures; the limit is a share of the distance to them.
    """
    usual = median(_apart(bank).values() or [0.0])
    return max(share * (1 - float(similarities(bank.cls, empty).mean())), SPREAD * usual)


def strangers(known: "MemoryBank", extended: "MemoryBank", limit: float) -> "list[NormalImage]":
    """The images that a bank has gained and that lie beyond the limit from those it had before."""
    before = {image.sha256 for image in known.images}
    gained = [views[0] for views in extended.entries]
    gained = [place for place in gained if extended.images[place].sha256 not in before]
    if not gained:
        return []
    apart = 1 - similarities(extended.cls[gained], known.cls).max(axis=1)
    return [
        extended.images[place]
        for place, distance in zip(gained, apart.tolist(), strict=True)
        if distance > limit
    ]


def least_similarities(
    products: "Mapping[str, MemoryBank]", empty: Array, never_above: float
) -> dict[str, float]:
    """For each product, below which similarity an image does not fit it.

    `empty` are the CLS tokens of empty pictures; the limits are shares of the distance to them.
    """
    cls, sizes = _stacked(products)
    across = _nearest(similarities(cls, cls), sizes)
    least = {}
    for place, (name, rows) in enumerate(zip(products, _rows(across, sizes), strict=True)):
        bank = products[name]
        others = [column for column in range(len(products)) if column != place]
        gap = 1 - float(rows[:, others].max()) if others else math.inf
        far = 1 - float(similarities(bank.cls, empty).mean())
        half = min(max(HALF * gap, NEVER_BELOW * far), never_above * far)
        usual = median(_apart(bank).values() or [0.0])
        least[name] = 1 - max(half, SPREAD * usual)
    return least


@dataclass(frozen=True)
class Likeness:
    """A product whose good parts may be taken for another's."""

    product: str
    other: str
    nearer: int
    """How many of its good parts are nearer to the other product than to the rest of its own."""
    count: int
    """Of how many."""


def look_alikes(products: "Mapping[str, MemoryBank]") -> list[Likeness]:
    """Products that good parts alone cannot tell apart.

    A lone good part has no others to be near to; it is compared with how far those of the other
    product are apart, or where there is but one as well, with those of any product.
    """
    apart = {name: _apart(bank) for name, bank in products.items()}
    widest = {name: max(found.values()) for name, found in apart.items() if found}
    anywhere = max(widest.values(), default=0.0)
    cls, sizes = _stacked(products)
    across = 1 - _nearest(similarities(cls, cls), sizes)
    alike = []
    for name, rows in zip(products, _rows(across, sizes), strict=True):
        places = [views[0] for views in products[name].entries]
        for other, distances in zip(products, rows[places].T.tolist(), strict=True):
            level = widest.get(other, anywhere)
            nearer = sum(
                distance <= apart[name].get(place, level) + EQUAL_DISTANCE
                for place, distance in zip(places, distances, strict=True)
            )
            if nearer and other != name:
                alike.append(Likeness(name, other, nearer, len(places)))
    return alike


def _apart(bank: "MemoryBank") -> dict[int, float]:
    """For the place of each good part its distance from the nearest other; empty of a lone one."""
    views = bank.entries
    if len(views) < 2:
        return {}
    found = similarities(bank.cls, bank.cls)
    for own in views:
        for place in own:
            found[place, own] = -1.0
    return {own[0]: 1 - float(found[own[0]].max()) for own in views}


def _stacked(products: "Mapping[str, MemoryBank]") -> tuple[Array, list[int]]:
    """The CLS tokens of all products, and how many each has."""
    tokens = [bank.cls for bank in products.values()]
    return namespace(*tokens).concat(tokens), [len(bank) for bank in products.values()]


def _nearest(found: Similarities, sizes: list[int]) -> Similarities:
    """The largest similarity to each product, (Q, products)."""
    return np.maximum.reduceat(found, [0, *accumulate(sizes[:-1])], axis=1)


def _rows(found: Similarities, sizes: list[int]) -> list[Similarities]:
    """The rows of each product."""
    return np.split(found, list(accumulate(sizes[:-1])))
