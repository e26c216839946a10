"""The settings that are compared: what a user may choose when a detector is fitted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ...detector.closer import MIN_PRUNED_ROWS, TURNING, cost
from ...detector.hyperfsad import HyperFSAD
from ...detector.orientation import AUTO_ROTATIONS
from ...views import count_tiles

BUDGET = 6.0
"""What an image may cost at most, as a multiple of the plain cost, to be compared."""

LARGER = 1.25
"""How much larger the encoder's input is tried."""


@dataclass(frozen=True)
class Setting:
    """One way to look at parts."""

    name: str
    flags: tuple[str, ...] = ()
    """For the command line of `fit`; none: what it does by itself."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The same for `HyperFSAD`."""
    cost: float = 1.0
    """Of an image, as a multiple of the plain cost; an estimate."""


LeftOut: TypeAlias = tuple[Setting, str]
"""A setting that was not compared, and a sentence that says why."""


def settings_for(
    usual: HyperFSAD, size: tuple[int, int], budget: float = BUDGET
) -> tuple[list[Setting], list[LeftOut]]:
    """What is worth comparing for pictures of a size, and what is not.

    The first setting is what `fit` does by itself. `usual` is a detector that was fitted on the
    good parts, so that it has chosen its view.
    """
    chosen, encoder = usual.rotations_, usual.settings
    turned = chosen > 1
    # What the good parts asked for holds for the others too, and need not be found out again.
    same = {} if usual.tentative_ else {"rotations": chosen}
    plain = TURNING if turned else 1.0
    found = [Setting("as fit chooses", cost=plain)]
    if turned:
        found.append(_turning("as they lie", 1))
    else:
        found.append(_turning("in eight orientations", AUTO_ROTATIONS))
    found.append(Setting("the part alone", ("--roi", "auto"), {"roi": "auto", **same}, plain))
    side = encoder.resolution
    larger = round(LARGER * encoder.grid) * encoder.patch
    flags = ("--resolution", str(larger))
    options = {"resolution": larger, **same}
    closer = Setting(f"at {larger} pixels", flags, options, cost(larger / side))
    tiles = 1 + count_tiles(size, side, encoder.grid)
    flags = ("--tiles", str(side))
    cut = Setting(f"in tiles of {side} pixels", flags, {"tiles": side}, float(tiles))
    pictures = f"pictures of {size[0]}×{size[1]} pixels"
    small: list[LeftOut] = []
    if max(size) > side:
        found.append(closer)
    else:
        small.append((closer, f"The encoder sees all of {pictures} already."))
    if max(size) >= MIN_PRUNED_ROWS * side:
        found.append(cut)
    else:
        small.append((cut, f"It shows little more of {pictures}."))
    costly = [(setting, _why(setting, budget)) for setting in found[1:] if setting.cost > budget]
    return [found[0], *(each for each in found[1:] if each.cost <= budget)], costly + small


def _why(setting: Setting, budget: float) -> str:
    return (
        f"An image takes about {setting.cost:.1f} times the plain time, and --budget allows"
        f" {budget:g} times."
    )


def _turning(name: str, rotations: int) -> Setting:
    times = TURNING if rotations > 1 else 1.0
    return Setting(name, ("--rotations", str(rotations)), {"rotations": rotations}, times)
