"""How closely to look at parts, from the size of their pictures and what an image may cost."""

from dataclasses import dataclass

from ..encoders import EncoderSettings
from ..views import count_tiles

BUDGET = 2.0
"""What an image may cost by default, as a multiple of the plain cost: room for turned copies."""

TURNING = 1.2
"""The cost of an image with turned copies: measured with four good parts, 1.1."""

STEPS = 4
"""The side of the encoder's input grows by one over this part of itself."""

MOST_LARGER = 1.5
"""How much larger the encoder's input may become; beyond, tiles see more."""

ATTENTION = 0.3
"""The part of the encoder's work that grows with the square of the patches, at the usual size."""

MIN_PRUNED_ROWS = 1.5
"""Pictures this many times larger than the encoder's input are worth a closer look."""


@dataclass(frozen=True)
class Look:
    """What was chosen."""

    resolution: int
    tile: int | None
    """The side of a tile in pixels; None: no tiles."""
    reason: str | None
    """One sentence; None where there is nothing to say."""


def look_closer(
    size: tuple[int, int], settings: EncoderSettings, budget: float | None, *, tiles: bool = True
) -> Look:
    """The closest look at pictures of a size that the budget allows; None asks for the plain one.

    `tiles` says whether they may be cut into tiles.
    """
    usual = settings.resolution
    across, down = (max(1, round(length * settings.patch / usual)) for length in size)
    pixels = f"Pictures of {size[0]}×{size[1]} pixels"
    if max(size) < MIN_PRUNED_ROWS * usual:
        return Look(usual, None, None)
    cut = 1 + count_tiles(size, usual, settings.grid)
    if budget is not None and tiles and cut <= budget:
        reason = f"{pixels} are cut into {cut - 1} tiles, about {cut} times the plain cost"
        return Look(usual, usual, f"{reason} (--tiles no looks at them as a whole).")
    step = max(1, settings.grid // STEPS)
    larger = [
        grid * settings.patch
        for grid in range(settings.grid + step, round(MOST_LARGER * settings.grid) + 1, step)
        if grid * settings.patch <= max(size) and cost(grid / settings.grid) <= (budget or 0)
    ]
    if larger:
        times = cost(larger[-1] / usual)
        reason = f"{pixels} are looked at with {larger[-1]} instead of {usual} pixels a side"
        return Look(
            larger[-1],
            None,
            f"{reason}, about {times:.1f} times the plain cost (--resolution {usual} leaves it).",
        )
    return Look(
        usual,
        None,
        f"{pixels} are reduced to {usual}×{usual}; one patch covers {across}×{down} of their"
        f" pixels. To find smaller defects, use --budget {cut}: it cuts them into tiles.",
    )


def cost(larger: float) -> float:
    """The cost of an image whose sides are so many times larger, over the plain one."""
    patches = larger**2
    return patches * (1 - ATTENTION + ATTENTION * patches)
