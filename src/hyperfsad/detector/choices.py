"""What `fit` chooses by itself: whether rotated copies help, and how closely to look."""

import itertools
from dataclasses import dataclass

import numpy as np

from ..arrays import to_numpy
from ..encoders import EncoderSettings
from ..messages import Notice
from ..method.memory import MemoryBank
from ..views import count_tiles

TRIED = 4
"""Normal images from which `fit` makes its choices, before it reads the others."""

ROTATED_COPIES = 8
"""Orientations that `auto` takes for parts that lie at any angle."""

CLEARLY_LESS = 0.85
"""Rotating must bring the distances between normal images down to this part. The default encoder,
eight angles, four good parts, six draws: screws that lie at any angle 0.54 to 0.66; bottle,
bracket_black, cookie and transistor as they lie 0.96 to 1.00."""

SURE = 3
"""Good parts that must lie alike before rotated copies are left out; two may do so by chance."""

MAX_COST = 2.0
"""What an image may cost by default, as a multiple of the plain cost: room for rotated copies."""

ROTATIONS_COST = 1.2
"""The cost of an image with rotated copies: measured with four good parts, 1.1."""

STEPS = 4
"""The side of the encoder's input grows by one over this part of itself."""

LARGEST_GROWTH = 1.5
"""How much larger the encoder's input may become; beyond, tiles see more."""

ATTENTION_SHARE = 0.3
"""The part of the encoder's work that grows with the square of the patches, at the usual size."""

WORTHWHILE = 1.5
"""Pictures this many times larger than the encoder's input are worth a closer look."""


@dataclass(frozen=True)
class RotationChoice:
    """In how many orientations to remember good parts."""

    rotations: int
    notice: Notice | None
    tentative: bool = False
    """Whether rotated copies count only for images that they fit clearly better."""


def choose_rotations(bank: MemoryBank | None) -> RotationChoice:
    """Whether rotated copies help, from the bank of a few normal images in all orientations."""
    if bank is None:
        return RotationChoice(1, None)
    entries = bank.entries[:TRIED]
    if len(entries) < 2:
        return RotationChoice(ROTATED_COPIES, Notice("rotations-one-part"), tentative=True)
    left = left_by_rotating(bank, entries)
    closer = 100 * (1 - left)
    if left <= CLEARLY_LESS:
        notice = Notice("rotations-help", closer=closer, rotations=ROTATED_COPIES)
        return RotationChoice(ROTATED_COPIES, notice)
    if len(entries) < SURE:
        notice = Notice("rotations-two-parts", closer=closer)
        return RotationChoice(ROTATED_COPIES, notice, tentative=True)
    return RotationChoice(1, Notice("rotations-useless", closer=closer))


def upright(bank: MemoryBank) -> MemoryBank:
    """The bank without rotated copies."""
    return bank.without(*(place for places in bank.entries for place in places[1:]))


def left_by_rotating(bank: MemoryBank, entries: list[list[int]] | None = None) -> float:
    """What rotating leaves of the distances between normal images: the mean ratio over all pairs.

    Of each pair the CLS token of one against that of the other at the best angle, over that of the
    other as it is. 1 means that all lie alike, or that no angle is better.
    """
    groups = bank.entries if entries is None else entries
    cls, ratios = to_numpy(bank.cls), []
    for one, other in itertools.permutations(groups, 2):
        alike = np.einsum("ld,kld->kl", cls[one[0]], cls[other])
        distances = np.maximum(1 - alike, 0).mean(axis=1)
        ratios.append(float(distances.min() / max(distances[0], 1e-6)))
    return float(np.mean(ratios))


@dataclass(frozen=True)
class ViewChoice:
    """How closely to look at pictures."""

    resolution: int
    tile: int | None
    """The side of a tile in pixels; None: no tiles."""
    notice: Notice | None


def choose_view(
    size: tuple[int, int], settings: EncoderSettings, max_cost: float | None, *, tiles: bool = True
) -> ViewChoice:
    """The closest look at pictures of a size that the cost allows; None asks for the plain one.

    `tiles` says whether they may be cut into tiles.
    """
    usual = settings.resolution
    facts = {"width": size[0], "height": size[1], "usual": usual}
    if max(size) < WORTHWHILE * usual:
        return ViewChoice(usual, None, None)
    with_tiles = 1 + count_tiles(size, usual, settings.grid)
    if max_cost is not None and tiles and with_tiles <= max_cost:
        notice = Notice("view-tiles", tiles=with_tiles - 1, cost=with_tiles, **facts)
        return ViewChoice(usual, usual, notice)
    step = max(1, settings.grid // STEPS)
    larger = [
        grid * settings.patch
        for grid in range(settings.grid + step, round(LARGEST_GROWTH * settings.grid) + 1, step)
        if grid * settings.patch <= max(size)
        and resolution_cost(grid / settings.grid) <= (max_cost or 0)
    ]
    if larger:
        cost = resolution_cost(larger[-1] / usual)
        notice = Notice("view-larger", resolution=larger[-1], cost=cost, **facts)
        return ViewChoice(larger[-1], None, notice)
    across, down = (max(1, round(length * settings.patch / usual)) for length in size)
    notice = Notice("view-reduced", across=across, down=down, cost=with_tiles, **facts)
    return ViewChoice(usual, None, notice)


def resolution_cost(larger: float) -> float:
    """The cost of an image whose sides are this many times larger, relative to the plain one."""
    patches = larger**2
    return patches * (1 - ATTENTION_SHARE + ATTENTION_SHARE * patches)
