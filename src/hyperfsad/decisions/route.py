"""Where an image belongs, among several products; how that is found stands in `routing`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
