"""How many orientations of a normal image to remember: as told, or found from the support alone."""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image

from .encoders.encoder import Tokens
from .errors import UsageError
from .images import ImageSource
from .memory import MemoryBank

if TYPE_CHECKING:
    from .detector import HyperFSAD

AUTO = "auto"

MOST_ROTATIONS = 72
"""Every 5 degrees; memory and time grow with the number."""

AUTO_ROTATIONS = 16
"""What `auto` takes for parts that lie at any angle."""

LOOKED_AT = 4
"""Normal images that `auto` looks at; each is encoded in all orientations before it is known
whether that helps."""

CLEARLY_LESS = 0.8
"""Turning must bring the scores of normal images against each other down to this part."""


def check_rotations(rotations: int | str) -> None:
    """Refuses what is no number of orientations."""
    number = isinstance(rotations, int) and not isinstance(rotations, bool)
    if rotations == AUTO or (number and 1 <= int(rotations) <= MOST_ROTATIONS):
        return
    raise UsageError(
        f"The number of rotations is 1 to {MOST_ROTATIONS}, or {AUTO}, not {rotations!r}."
    )


def first_few(sources: Iterator[ImageSource]) -> list[ImageSource]:
    """The images that `auto` looks at; a source may use its buffer again, so they are copied."""
    found: list[ImageSource] = []
    for source in islice(sources, LOOKED_AT):
        own = isinstance(source, np.ndarray | Image.Image)
        found.append(source.copy() if own else source)  # type: ignore[union-attr]
    return found


@dataclass(frozen=True)
class Choice:
    """What `auto` decided."""

    rotations: int
    reason: str
    """One sentence."""
    banks: list[MemoryBank]
    """The images that were looked at, in so many views."""


def choose_rotations(detector: "HyperFSAD", looked_at: list[MemoryBank]) -> Choice:
    """Whether to remember all orientations, from the banks of a few normal images in several."""
    bank = MemoryBank.joined(looked_at) if looked_at else None
    if bank is None or len(bank.views) < 2:
        reason = (
            "One good part cannot tell whether parts lie at any angle; it is remembered as it is."
        )
        return Choice(1, reason, [] if bank is None else [as_they_are(bank)])
    left = left_by_turning(detector, bank)
    found = f"Turning the good parts leaves {100 * left:.0f} % of their differences"
    if left > CLEARLY_LESS:
        return Choice(1, f"{found}: they stay as they are.", [as_they_are(bank)])
    reason = f"{found}: each is remembered in {AUTO_ROTATIONS} orientations."
    return Choice(AUTO_ROTATIONS, reason, [bank])


def as_they_are(bank: MemoryBank) -> MemoryBank:
    """The bank without turned views."""
    return bank.without(*(place for places in bank.views for place in places[1:]))


def left_by_turning(detector: "HyperFSAD", bank: MemoryBank) -> float:
    """What turning leaves of the scores of normal images against each other: their mean ratio.

    1 means that turned views explain nothing that the images themselves do not.
    """
    views = bank.views
    turned_views = [place for places in views for place in places[1:]]
    ratios = []
    for places in views:
        first = places[0]
        image = Tokens(torch.stack(bank.patches_of(first))[None], bank.cls[first][None])
        turned = _score(detector, bank.without(*places), image)
        as_it_is = _score(detector, bank.without(*places, *turned_views), image)
        ratios.append(turned / max(as_it_is, 1e-6))
    return float(np.mean(ratios))


def _score(detector: "HyperFSAD", bank: MemoryBank, image: Tokens) -> float:
    probe = copy(detector)
    probe.scales = detector.scales[:1]  # the score is that of the finest
    return probe.remember(bank).score_tokens(image)[0].score
