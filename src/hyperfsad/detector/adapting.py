"""Learning from the line: which unlabelled parts are read, and which are remembered."""

from collections.abc import Collection, Sequence
from statistics import median

from ..arrays import single
from ..decisions.line import MANY_BAD, PLENTY
from ..images.loading import ImageSource, LoadedImage, NormalImage
from ..images.reading import Images, single_images
from ..messages import Notice, Notify
from ..method.memory import MemoryBank
from ..method.missing import neighbour_distance

MOST_PARTS = 48
"""Parts that are read at once: more say the same again."""
MOST_BYTES = 64 << 20
"""What they may take of a detector file."""
NEAR_COPY = 0.05
"""Pictures whose patches differ by less than this part of what neighbouring patches do show one
part twice. On 15 products, pairs of good parts have 0.24 and more; wood, which holds copies, 0.02.
"""


def sample(images: Images) -> list[ImageSource | LoadedImage]:
    """At most so many images as are read, evenly spread over all."""
    every = list(single_images(images))
    step = max(1.0, len(every) / MOST_PARTS)
    return [every[int(step * place)] for place in range(min(len(every), MOST_PARTS))]


def without(banks: Sequence[MemoryBank], images: Collection[NormalImage]) -> list[MemoryBank]:
    """Banks without these images; none that is empty."""
    found, gone = [], {image.sha256 for image in images}
    for bank in banks:
        dropped = [place for place, image in enumerate(bank.images) if image.sha256 in gone]
        if len(dropped) < len(bank):
            found.append(bank.without(*dropped) if dropped else bank)
    return found


def near_copies(bank: MemoryBank, grid: int) -> list[NormalImage]:
    """The pictures that show an earlier part again."""
    middle = len(bank.patches) // 2
    parts = [single(bank.patches_of(part)[middle]) for part in range(len(bank))]
    kept: list[int] = []
    copies = []
    for part, own in enumerate(parts):
        usual = float(neighbour_distance(own, grid).mean())
        apart = (1 - float((own * parts[other]).sum()) / len(own) for other in kept)
        if any(one < NEAR_COPY * usual for one in apart):
            copies.append(bank.images[part])
        else:
            kept.append(part)
    return copies


def room_for(bank: MemoryBank) -> int:
    """How many parts like these a file has room for."""
    size: int = sum(layer.nbytes for layer in bank.patches)
    return max(1, MOST_BYTES * len(bank) // size)


def far_out(scores: Sequence[float], count: int) -> list[int]:
    """The places of the parts that go where `count` have room, given how far they are from the
    support: those farthest from the median, among which bad ones are."""
    middle = median(scores)
    typical = sorted(range(len(scores)), key=lambda place: (abs(scores[place] - middle), place))
    return typical[count:]


def suspects(names: Sequence[str], levels: Sequence[float], notify: Notify) -> list[int]:
    """The places of unlabelled parts that look bad and are not learnt; says which they are, and
    whether the parts can tell at all."""
    bad = sorted(
        (place for place, level in enumerate(levels) if level > 1), key=lambda p: -levels[p]
    )
    if bad:
        parts = [(names[place], levels[place]) for place in bad]
        notify(Notice("line-bad", parts=parts, count=len(levels)))
    if len(bad) > MANY_BAD * len(levels):
        notify(Notice("line-many-bad", count=len(levels), bad=len(bad)))
    if len(levels) < PLENTY:
        notify(Notice("line-preliminary", count=len(levels), missing=PLENTY - len(levels)))
    return bad if len(bad) < len(levels) - 1 else []
