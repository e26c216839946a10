"""Recipes: which encoder, which layers, and how distances become a map and a score.

`paper` is the paper's configuration, exactly; its weights come from the model hub. `paper-offline`
is the paper's algorithm on an encoder that needs no hub, so its figures are not the paper's.
`default` is ours: what measurements on real parts led to (docs/accuracy.md). Nothing in a recipe
depends on the product, and nothing is learnt but from the support.
"""

from dataclasses import dataclass

from ..encoders import SUBSTITUTE, EncoderSpec, find_spec
from ..errors import UsageError

DEFAULT_RECIPE = "default"
PAPER = "paper"
PAPER_OFFLINE = "paper-offline"


@dataclass(frozen=True)
class Recipe:
    """All that a detector needs besides good parts; a user may choose each otherwise."""

    backbone: str
    lookup: str = "sparsemax"
    pooling: str = "max"
    lam: float = 0.5
    sharpness: float = 1.0
    """Similarities are multiplied by it before the lookup; the paper has none."""
    scales: tuple[int, ...] = (1,)
    """Patches along the side of what is compared: 1 the patch, 3 its neighbourhood as well."""
    inner: bool = False
    """Leaves out layers of the last quarter of the depth."""

    def layers(self, spec: EncoderSpec) -> tuple[int, ...]:
        """The layers of an encoder that the recipe uses."""
        inner = tuple(layer for layer in spec.layers if 4 * layer <= 3 * spec.depth)
        return inner if self.inner and inner else spec.layers


RECIPES: dict[str, Recipe] = {
    DEFAULT_RECIPE: Recipe(
        "clip-vitb16", pooling="top-2%", sharpness=64.0, scales=(1, 3), inner=True
    ),
    PAPER: Recipe("dinov3-vitb16"),
    PAPER_OFFLINE: Recipe(SUBSTITUTE),
}


def find_recipe(name: str) -> Recipe:
    """The recipe of a name."""
    if name not in RECIPES:
        raise UsageError(f"The recipe is one of {', '.join(RECIPES)}, not {name!r}.")
    return RECIPES[name]


def recipe_layers(name: str, backbone: str | None = None) -> tuple[str, tuple[int, ...]]:
    """Encoder and layers of a recipe, perhaps with another encoder than its own."""
    recipe = find_recipe(name)
    encoder = backbone or recipe.backbone
    return encoder, recipe.layers(find_spec(encoder))


def stored_recipe(stored: str | None, encoder: str) -> str:
    """The recipe of a detector file by its name today.

    Earlier versions wrote `paper`, or nothing, for the paper's algorithm on any encoder.
    """
    name = stored or PAPER
    return PAPER_OFFLINE if name == PAPER and encoder != RECIPES[PAPER].backbone else name
