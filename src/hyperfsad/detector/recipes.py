"""Recipes: which encoder, which layers, and how distances become a map and a score.

`paper` is the paper's configuration, exactly; its weights come from the model hub. `paper-offline`
is the paper's algorithm on an encoder that needs no hub, so its figures are not the paper's.
`default` is ours: what measurements on real parts led to (docs/accuracy.md).
Nothing in a recipe depends on the product, and nothing is learnt but from the support.
"""

from dataclasses import dataclass

from ..decisions.thresholds import Lone
from ..encoders import SUBSTITUTE, EncoderSettings, EncoderSpec, find_spec
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
    smooth: bool = False
    """Whether the map is averaged with its neighbours; the score of the map never is."""
    quarters: tuple[int, ...] = (1, 2, 3, 4)
    """Which of the encoder's four layers are used."""
    last_norm: bool = False
    """Whether the encoder's last block, if it is used, passes the final norm."""
    missing: float = 0.0
    """The weight of missing pieces in the score, with many good parts; the paper has none."""
    rotations: int | str = 1
    """Orientations in which good parts are remembered; auto finds out how many."""
    lone: Lone = (0.94, 1.78)
    """The thresholds of score and map for one good part, over how unlike its own places are."""
    foreign: float = 0.5
    """How far its CLS tokens may be from those of the good parts before an image looks like another
    product, over their distance to empty pictures."""

    def layers(self, spec: EncoderSpec) -> tuple[int, ...]:
        """The layers of an encoder that the recipe uses."""
        return tuple(
            layer for quarter, layer in enumerate(spec.layers, start=1) if quarter in self.quarters
        )

    def settings(self, backbone: str | None = None, size: int | None = None) -> EncoderSettings:
        """How the recipe's encoder, or another, computes tokens."""
        spec = find_spec(self.backbone if backbone is None else backbone)
        return spec.settings(self.layers(spec), size, last_norm=self.last_norm)


RECIPES: dict[str, Recipe] = {
    DEFAULT_RECIPE: Recipe(
        "dinov2-vits14",
        pooling="top-0.5%",
        lam=1.0,
        sharpness=64.0,
        smooth=True,
        quarters=(1, 3, 4),
        last_norm=True,
        missing=0.15,
        rotations="auto",
        lone=(1.58, 1.43),
        foreign=0.55,
    ),
    PAPER: Recipe("dinov3-vitb16"),
    PAPER_OFFLINE: Recipe(SUBSTITUTE),
}


def find_recipe(name: str) -> Recipe:
    """The recipe of a name."""
    if name not in RECIPES:
        raise UsageError(f"The recipe is one of {', '.join(RECIPES)}, not {name!r}.")
    return RECIPES[name]


def stored_recipe(stored: str | None, encoder: str) -> str:
    """The recipe of a detector file by its name today.

    `paper`, or nothing, also stands for the paper's algorithm on any encoder.
    """
    name = stored or PAPER
    if name == PAPER and encoder != RECIPES[PAPER].backbone:
        return PAPER_OFFLINE
    return name
