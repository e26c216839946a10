"""Where an image belongs, among several products; how that is found stands in `routing`."""

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


def route_fields(route: Route | None) -> dict[str, Any]:
    """What results.jsonl says of the product; all null where a detector knows but one."""
    return {
        "product": route and route.product,
        "unknown_product": route and route.unknown,
        "nearest_product": route and route.nearest,
        "product_similarity": route and route.similarity,
        "product_margin": route and route.margin,
    }
