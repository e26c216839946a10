"""How many orientations of a normal image to remember: as told, or found from the support alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

import numpy as np
from PIL import Image

from ..errors import UsageError
from ..images.loading import ImageSource, LoadedImage
from ..images.reading import Images, single_images
from ..messages import Notify
from ..method.memory import MemoryBank
from ..method.scoring import cls_similarities

AUTO = "auto"

MOST_ROTATIONS = 72
"""Every 5 degrees; memory and time grow with the number."""

AUTO_ROTATIONS = 8
"""What `auto` takes for parts that lie at any angle."""

TRIED = 4
"""Normal images that `auto` tries; each is encoded in all orientations before it is known
whether that helps."""

CLEARLY_LESS = 0.85
"""Turning must bring the distances between normal images down to this part. The default encoder,
eight angles, four good parts, six draws: screws that lie at any angle 0.54 to 0.66; bottle,
bracket_black, cookie and transistor as they lie 0.96 to 1.00."""


SURE = 3
"""Good parts that must lie alike before turned copies are left out; two may do so by chance."""


def check_rotations(rotations: int | str) -> None:
    """Refuses what is no number of orientations."""
    number = isinstance(rotations, int) and not isinstance(rotations, bool)
    if rotations == AUTO or (number and 1 <= int(rotations) <= MOST_ROTATIONS):
        return
    raise UsageError(
        f"The number of rotations is 1 to {MOST_ROTATIONS}, or {AUTO}, not {rotations!r}."
    )


Read: TypeAlias = Callable[[Images, int], list[MemoryBank]]
"""Reads images that were not read yet, each in so many orientations."""


def read_in_orientations(
    images: Images, read: Read, notify: Notify
) -> "tuple[Choice, list[MemoryBank]]":
    """How many orientations the first few images ask for, and the banks of all in so many."""
    sources = single_images(images)
    first = first_few(sources)
    choice = choose_rotations(read(first, AUTO_ROTATIONS))
    if choice.banks:  # otherwise there is more to say than that nothing was turned
        notify(choice.reason)
    return choice, [*choice.banks, *read(sources, choice.rotations)]


def first_few(
    sources: Iterator[ImageSource | LoadedImage],
) -> list[ImageSource | LoadedImage]:
    """The images that `auto` tries; a source may use its buffer again, so they are copied."""
    found: list[ImageSource | LoadedImage] = []
    for source in islice(sources, TRIED):
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
    """The images that were tried, in so many orientations."""
    tentative: bool = False
    """Whether turned copies count only for images that they fit clearly better."""


def chosen_again(bank: MemoryBank, notify: Notify) -> Choice:
    """What a bank of which every image has all orientations asks for, by its first few images."""
    places = [place for group in bank.entries[TRIED:] for place in group]
    choice = choose_rotations([bank.without(*places)])
    notify(choice.reason)
    banks = [bank if choice.rotations > 1 else as_they_are(bank)]
    return replace(choice, banks=banks)


def choose_rotations(tried: list[MemoryBank]) -> Choice:
    """Whether to remember all orientations, from the banks of a few normal images in several."""
    bank = MemoryBank.joined(tried) if tried else None
    if bank is None:
        return Choice(1, "There is no good part to turn.", [])
    if len(bank.entries) < 2:
        reason = (
            "One good part cannot tell whether parts lie at any angle: its turned copies count only"
            " for images that they fit clearly better (--rotations 1 leaves them out)."
        )
        return Choice(AUTO_ROTATIONS, reason, [bank], tentative=True)
    left = left_by_turning(bank)
    share = f"(turned, they are {100 * (1 - left):.0f} % closer)"
    if left > CLEARLY_LESS and len(bank.entries) < SURE:
        reason = (
            f"The good parts lie alike {share}, but two are few: turned copies count only for"
            " images that they fit clearly better (--rotations 1 leaves them out)."
        )
        return Choice(AUTO_ROTATIONS, reason, [bank], tentative=True)
    if left > CLEARLY_LESS:
        reason = f"The good parts lie alike {share}: they are remembered as they lie."
        return Choice(1, reason, [as_they_are(bank)])
    reason = (
        f"The good parts lie at different angles {share}: each is remembered in"
        f" {AUTO_ROTATIONS} orientations (--rotations 1 leaves them as they lie)."
    )
    return Choice(AUTO_ROTATIONS, reason, [bank])


def as_they_are(bank: MemoryBank) -> MemoryBank:
    """The bank without turned copies."""
    return bank.without(*(place for places in bank.entries for place in places[1:]))


def left_by_turning(bank: MemoryBank) -> float:
    """What turning leaves of the distances between normal images: the mean ratio over all pairs.

    Of each pair the CLS token of one against that of the other at the best angle, over that of the
    other as it is. 1 means that all lie alike, or that no angle is better.
    """
    entries = bank.entries
    ratios = []
    for one in entries:
        for other in entries:
            if one is not other:
                alike = cls_similarities(bank.cls[one[0]], bank.cls[other])
                distances = (1 - alike).clamp(min=0).mean(dim=1)
                ratios.append(float(distances.min() / distances[0].clamp(min=1e-6)))
    return float(np.mean(ratios))
