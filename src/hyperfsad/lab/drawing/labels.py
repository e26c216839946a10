"""Names beside the bubbles of a chart, placed greedily so that nothing covers anything."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Box: TypeAlias = tuple[float, float, float, float]
"""Left, bottom, right, top."""
Spot: TypeAlias = tuple[float, float]

# The right reads best, then the left, above and below, then the corners.
_ANGLES = (0, 180, 90, 270, 45, 135, 315, 225, 22, 338, 158, 202, 67, 113, 247, 293)
_GAPS = (2.0, 6.0, 12.0, 20.0, 30.0, 42.0, 56.0, 72.0)
_LEADER_FROM = 4.0
"""From this distance on, a leader ties the name to its bubble."""
_CLEARANCE = 1.5
_STEPS = 24

# A leader that crosses something costs one.
_UNREADABLE, _HIDDEN = 10_000, 100


@dataclass(frozen=True)
class Disc:
    """A bubble."""

    x: float
    y: float
    radius: float

    def distance(self, spot: Spot) -> float:
        """From its middle."""
        return math.hypot(spot[0] - self.x, spot[1] - self.y)

    def nearest(self, box: Box) -> Spot:
        """The point of the box next to its middle."""
        return _clamp(self.x, box[0], box[2]), _clamp(self.y, box[1], box[3])


@dataclass(frozen=True)
class Label:
    """Where a name goes, and the leader from there to its bubble, if it needs one."""

    box: Box
    leader: tuple[Spot, Spot] | None = None

    @property
    def middle(self) -> Spot:
        left, bottom, right, top = self.box
        return (left + right) / 2, (bottom + top) / 2

    @property
    def spots(self) -> list[Spot]:
        """Points along the leader."""
        if self.leader is None:
            return []
        (x, y), (to_x, to_y) = self.leader
        shares = [step / _STEPS for step in range(_STEPS + 1)]
        return [(x + share * (to_x - x), y + share * (to_y - y)) for share in shares]


def place_labels(
    discs: Sequence[Disc], sizes: Sequence[tuple[float, float]], bounds: Box
) -> list[Label]:
    """A label of the given width and height for each disc, in the order of the discs.

    The most crowded disc comes first; each label goes to the nearest free place, and where none
    is free, to the one that harms least.
    """
    placed: dict[int, Label] = {}

    def crowding(index: int) -> float:
        here = discs[index].x, discs[index].y
        return sum(math.exp(-disc.distance(here) / 50) for disc in discs)

    for index in sorted(range(len(discs)), key=crowding, reverse=True):
        others = [disc for other, disc in enumerate(discs) if other != index]
        rivals = list(placed.values())
        least = math.inf
        for label in _candidates(discs[index], sizes[index]):
            harm = _harm(label, discs[index], others, rivals, bounds)
            if harm < least:
                least, placed[index] = harm, label
            if harm == 0:
                break
    return [placed[index] for index in range(len(discs))]


def _candidates(disc: Disc, size: tuple[float, float]) -> Iterator[Label]:
    """Places around the disc, the nearest first."""
    half_width, half_height = size[0] / 2, size[1] / 2
    for gap in _GAPS:
        for angle in _ANGLES:
            dx, dy = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            reach = disc.radius + gap
            # The nearest corner or side of the label, not its middle, lies at the reach.
            x = disc.x + reach * dx + half_width * _clamp(2 * dx, -1, 1)
            y = disc.y + reach * dy + half_height * _clamp(2 * dy, -1, 1)
            box = x - half_width, y - half_height, x + half_width, y + half_height
            yield Label(box, _leader(box, disc))


def _leader(box: Box, disc: Disc) -> tuple[Spot, Spot] | None:
    """The shortest leader between a label and its disc; None where they are close."""
    start = disc.nearest(box)
    length = disc.distance(start)
    if length < disc.radius + _LEADER_FROM:
        return None
    share = disc.radius / length
    return start, (disc.x + share * (start[0] - disc.x), disc.y + share * (start[1] - disc.y))


def _harm(
    label: Label, own: Disc, others: Sequence[Disc], rivals: Sequence[Label], bounds: Box
) -> int:
    """What the label and its leader would cover; a name that cannot be read is the worst."""
    left, bottom, right, top = box = label.box
    inside = bounds[0] <= left and bounds[1] <= bottom and right <= bounds[2] and top <= bounds[3]
    harm = 0 if inside else _UNREADABLE
    for disc in (own, *others):
        harm += _HIDDEN * (disc.distance(disc.nearest(box)) < disc.radius + _CLEARANCE)
    for disc in others:
        harm += any(disc.distance(spot) < disc.radius for spot in label.spots)
    for rival in rivals:
        harm += _UNREADABLE * _overlap(box, rival.box)
        harm += any(_overlap(spot * 2, rival.box) for spot in label.spots)
        harm += any(_overlap(spot * 2, box) for spot in rival.spots)
    return harm


def _overlap(a: Box, b: Box) -> bool:
    return all(
        a[low] < b[high] + _CLEARANCE and b[low] < a[high] + _CLEARANCE
        for low, high in ((0, 2), (1, 3))
    )


def _clamp(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))
