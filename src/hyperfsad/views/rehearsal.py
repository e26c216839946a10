"""Good parts that nobody has to bring: how the normal images score when they are changed a little,
and when each is left out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..decisions.thresholds import (
    Calibration,
    Rehearsal,
    Showing,
    check_rate,
    from_good_parts,
    from_support,
)
from ..encoders.prepared import prepared_picture
from ..encoders.tokens import Tokens
from ..errors import ImageError
from ..images.loading import LoadedImage, NormalImage, load_image
from ..images.perturbation import changed_copies
from ..images.reading import Images, distinct_images
from ..method.matcher import against_itself
from ..method.memory import MemoryBank
from ..method.scoring import Pooling

if TYPE_CHECKING:
    from ..detector.base import FewShotDetector
    from ..detector.hyperfsad import HyperFSAD
    from ..method.scoring import TokenScore

IMAGES = 6
"""Normal images that are asked; each costs the time of five more."""
TIMES = 4
"""How often a part of them is left out; a memory bank is made each time."""
ALL_AT_ONCE = 16
"""With more normal images than this, those that are asked are left out together."""
MOST = 64
"""Normal images that they are compared with at most; copies of hundreds would fill the memory."""

_UNLIKE = Pooling.parse("top-2%")


@dataclass(frozen=True)
class _Asked:
    """One normal image in the rehearsal."""

    views: list[int]
    """Its places in the memory bank."""
    itself: Tokens
    copies: Tokens
    """Of its changed copies."""


def calibrated_on_support(
    detector: "HyperFSAD", in_hand: Mapping[str, LoadedImage], rate: float
) -> Calibration | None:
    """Lines from the normal images alone; None where not one of them can be read again.

    `in_hand` are those that came as pictures instead of files, by their hash.
    """
    check_rate(rate)
    bank = detector.memory_
    if bank.tiles:
        from .tile_rehearsal import rehearse_tiles

        shown = rehearse_tiles(detector, lambda image: _again(image, in_hand))
        return None if shown is None else from_support(shown, rate)
    asked = [
        found
        for views in detector.follow(bank.views[:IMAGES], "threshold")
        if (found := _ask(detector, views, in_hand)) is not None
    ]
    return from_support(_rehearse(detector, asked), rate) if asked else None


def calibrated_on_good_parts(
    detector: "FewShotDetector", images: Images, rate: float
) -> Calibration:
    """Lines from good parts that were not learnt; a learnt one is left out with a warning."""
    check_rate(rate)
    known = {image.sha256: image.name for image in detector.memory_.images}
    whole = detector.needs_pictures
    found = distinct_images(
        images,
        lambda image: prepared_picture(
            image, detector.settings, seen=detector.seen, keep_whole=whole
        ),
        detector.skipped_,
        known,
        kind="A good part",
        count=detector.read_ahead,
    )
    shown: list[TokenScore] = []
    for _, image in found:
        shown += detector.look([image])
        del image  # a large picture goes before the next is read
    return from_good_parts([s.score for s in shown], [_peak(s) for s in shown], rate)


def _ask(
    detector: "HyperFSAD", views: list[int], in_hand: Mapping[str, LoadedImage]
) -> _Asked | None:
    bank = detector.memory_
    picture = _again(bank.images[views[0]], in_hand)
    if picture is None:
        return None
    itself = Tokens(torch.stack(bank.patches_of(views[0]))[None], bank.cls[views[:1]])
    copies = [detector.encoder_.encode([detector.seen(copy)]) for copy in changed_copies(picture)]
    return _Asked(
        views,
        itself,
        Tokens(torch.cat([c.patches for c in copies]), torch.cat([c.cls for c in copies])),
    )


def _again(image: NormalImage, in_hand: Mapping[str, LoadedImage]) -> LoadedImage | None:
    """The picture of a normal image, unless its file is gone or shows something else by now."""
    if image.sha256 in in_hand:
        return in_hand[image.sha256]
    try:
        picture = load_image(image.name)
    except ImageError:
        return None
    return picture if picture.sha256() == image.sha256 else None


def _rehearse(detector: "HyperFSAD", asked: Sequence[_Asked]) -> Rehearsal:
    views = detector.memory_.views
    total = min(len(views), MOST)
    passed_over = [place for of_image in views[MOST:] for place in of_image]
    changed = [detector.score_tokens(image.copies) for image in asked]
    held_out: list[list[TokenScore]] = []
    largest = 0
    for group in _groups(asked, total) if total > 1 else ():
        left = [place for image in group for place in image.views]
        others = detector.leaving_out([*left, *passed_over])
        for image in group:
            held_out.append(
                [*others.score_tokens(image.itself), *others.score_tokens(image.copies)]
            )
        largest = max(largest, len(group))
    return Rehearsal(
        Showing(_worst_scores(changed), _worst_scores(held_out)),
        Showing(_worst_peaks(changed), _worst_peaks(held_out)),
        tuple(_unlike(detector, image.views[0]) for image in asked),
        total,
        total - largest,
    )


def _groups(asked: Sequence[_Asked], total: int) -> Iterator[Sequence[_Asked]]:
    """Who is left out together; somebody always stays."""
    times = 1 if total > ALL_AT_ONCE else min(len(asked), TIMES)
    for first in range(times):
        yield asked[first::times]


def _unlike(detector: "HyperFSAD", place: int) -> float:
    bank = detector.memory_
    alone = MemoryBank(bank.patches_of(place), bank.cls[place : place + 1], (bank.images[place],))
    return float(_UNLIKE(against_itself(alone, detector.comparison)[0]))


def _worst_scores(shown: "list[list[TokenScore]]") -> tuple[float, ...]:
    return tuple(max(score.score for score in of_image) for of_image in shown)


def _worst_peaks(shown: "list[list[TokenScore]]") -> tuple[float, ...]:
    return tuple(max(map(_peak, of_image)) for of_image in shown)


def _peak(score: "TokenScore") -> float:
    return float(score.anomaly_map.max())
