"""Regions: where a map lies above its threshold, as contours and boxes in the image's own pixels.

Between the centres of the patches the map is the bilinear surface that pictures show; beyond the
outermost centres it stays level. Contours are traced by contourpy on 14 × 14 points of that surface
for each patch, so time and memory follow from the number of patches, whatever the image's size.
"""

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from contourpy import FillType, contour_generator
from numpy.typing import NDArray

from ..images.geometry import PatchGrid

Floats: TypeAlias = NDArray[np.float64]
Point: TypeAlias = tuple[float, float]
Polygon: TypeAlias = tuple[Point, ...]

MAX_REGIONS = 256
"""Regions kept of one image, those with the highest scores: a map of pure noise has thousands."""

STEPS, MAX_POINTS = 14, 1 << 21
"""Points of the surface from one patch centre to the next, fewer where that makes too many."""

GAP = 5e-4
"""The surface stays this part of its largest height away from the threshold at every point, so that
contours never touch there."""

STRAIGHT = 0.01
"""A bend of this part of a patch is worth a corner of its own."""

PIXEL = 1.0
"""No region is smaller, neither to the sides nor in area."""

UNEXPECTED, MISSING = "unexpected", "missing"


@dataclass(frozen=True)
class Peak:
    """Where a map is highest, in the image's own pixels, and how high."""

    x: float
    y: float
    value: float


@dataclass(frozen=True)
class Region:
    """A defect's place: a connected area of the map above its threshold."""

    bbox: tuple[int, int, int, int]
    """x, y, width and height in the image's own pixels."""
    area: float
    """In pixels, without holes; at least 1, as a defect is no smaller than what shows it."""
    score: float
    """The highest value of the map in it."""
    peak: Peak | None = None
    polygon: Polygon = field(repr=False, default=())
    """The outer contour: x and y of each corner, simple, closed from the last to the first."""
    kind: str = UNEXPECTED
    """`unexpected`: something that good parts do not show; `missing`: something that they do."""

    def to_dict(self) -> dict[str, Any]:
        """The fields of a region in results.jsonl."""
        return {
            "bbox": list(self.bbox),
            "area": self.area,
            "score": self.score,
            "peak": None if self.peak is None else asdict(self.peak),
            "polygon": [list(point) for point in self.polygon],
            "kind": self.kind,
        }


def find_regions(
    anomaly_map: NDArray[np.float32],
    size: tuple[int, int],
    threshold: float,
    min_area: float = 0.0,
    missing: NDArray[np.float32] | None = None,
) -> tuple[Region, ...]:
    """The connected areas of the map above the threshold, the highest score first.

    `size` is the image's width and height, `min_area` counts its pixels. The score of a region is
    the highest value of the map in it. `missing` is what missing pieces added to the map: where
    that is more than the rest of the peak lies above the threshold, the region is one of them.
    """
    heights = anomaly_map.astype(np.float64) - threshold
    heights[~np.isfinite(heights)] = -1.0
    if not (heights > 0).any():
        return ()
    grid = PatchGrid.of(anomaly_map, size)
    unit = np.array([size[0] / grid.columns, size[1] / grid.rows])
    found = []
    for rings in _areas_above(heights):
        area = max(round(abs(sum(map(_area, rings))) * float(unit.prod()), 3), PIXEL)
        if area >= min_area:
            row, column = _highest(heights, rings)
            found.append((-heights[row, column], (row, column), area, rings[0]))
    found.sort(key=lambda one: one[:2])
    regions = []
    for _, (row, column), area, outline in found[:MAX_REGIONS]:
        value = float(anomaly_map[row, column])
        x, y = grid.centre(row, column)
        polygon = _polygon(outline, unit, (x, y), size)
        added = 0.0 if missing is None else float(missing[row, column])
        kind = MISSING if added > max(value - added - threshold, 0) else UNEXPECTED
        box = _box(polygon, size)
        # dropping nearly straight corners may have moved the outline inwards by a hair
        area = min(area, float(box[2] * box[3]))
        regions.append(Region(box, area, value, Peak(x, y, value), polygon, kind))
    return tuple(regions)


def _areas_above(heights: Floats) -> list[list[Floats]]:
    """The rings of each connected area above 0, its outline first, then its holes, in patches."""
    steps = max(1, min(STEPS, int((MAX_POINTS / heights.size) ** 0.5)))
    x, surface = _refined(heights.T, steps)
    y, surface = _refined(surface.T, steps)
    least = GAP * np.abs(surface).max()
    surface = np.where(surface > 0, np.maximum(surface, least), np.minimum(surface, -least))
    contours = contour_generator(x, y, surface, fill_type=FillType.OuterOffset)
    filled: Any = contours.filled(0.0, np.inf)
    return [
        [points[one : other - 1] for one, other in pairwise(starts)]
        for points, starts in zip(*filled, strict=True)
    ]


def _refined(heights: Floats, steps: int) -> tuple[Floats, Floats]:
    """Places along the rows, with points between them, and the heights there."""
    count = len(heights)
    inner = np.arange((count - 1) * steps + 1) / steps
    places = np.concatenate([[0.0], inner + 0.5, [float(count)]])
    at = np.concatenate([inner[:1], inner, inner[-1:]])
    below = np.minimum(at.astype(np.intp), max(count - 2, 0))
    share = (at - below)[:, None]
    above = np.minimum(below + 1, count - 1)
    return places, (1 - share) * heights[below] + share * heights[above]


def _highest(heights: Floats, rings: list[Floats]) -> tuple[int, int]:
    """Row and column of the highest patch whose centre lies in an area, the first of equals."""
    left, top = np.floor(rings[0].min(axis=0)).astype(int).tolist()
    right, bottom = np.ceil(rings[0].max(axis=0)).astype(int).tolist()
    part = heights[top:bottom, left:right]
    places = [divmod(int(at), part.shape[1]) for at in (-part).argsort(axis=None, kind="stable")]
    inside = (at for at in places if _contains(rings, left + at[1] + 0.5, top + at[0] + 0.5))
    row, column = next(inside, places[0])
    return top + row, left + column


def _contains(rings: list[Floats], x: float, y: float) -> bool:
    """Whether a point lies inside: an odd number of sides are to its right."""
    sides = 0
    for ring in rings:
        (x0, y0), (x1, y1) = ring.T, np.roll(ring, -1, axis=0).T
        crossed = (y0 <= y) != (y1 <= y)
        at = x0[crossed] + (y - y0[crossed]) * (x1 - x0)[crossed] / (y1 - y0)[crossed]
        sides += int((x < at).sum())
    return sides % 2 == 1


def _area(ring: Floats) -> float:
    """The area of a ring; outlines and holes run in opposite directions."""
    return float(_cross(ring, np.roll(ring, -1, axis=0)).sum()) / 2


def _cross(one: Floats, two: Floats) -> Floats:
    product: Floats = one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]
    return product


def _polygon(outline: Floats, unit: Floats, peak: Point, size: tuple[int, int]) -> Polygon:
    """An outline in pixels, or the pixel of its peak where it is smaller than that to all sides.

    In a tiny image several patches share a pixel, and a contour hugs a peak that is barely above
    the threshold, too small to see or count.
    """
    points = np.round(_without_straight(outline) * unit, 6)  # with less, thin places would touch
    if (np.ptp(points, axis=0) >= PIXEL).any():
        return tuple((float(x), float(y)) for x, y in points)
    left, top = (float(min(int(at), side - 1)) for at, side in zip(peak, size, strict=True))
    return ((left, top), (left, top + 1), (left + 1, top + 1), (left + 1, top))


def _without_straight(points: Floats) -> Floats:
    """A closed contour without points that lie nearly on the line between their neighbours.

    Of two adjacent points only one goes at a time: without it the other may be a bend.
    """
    parity = idle = 0
    while len(points) > 4 and idle < 2:
        before, after = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
        chord = np.hypot(*(before + after).T)
        straight = np.abs(_cross(before, after)) < STRAIGHT * chord
        drop = straight & ((before * after).sum(axis=1) >= 0)
        drop &= np.arange(len(points)) % 2 == parity
        drop[0] &= not drop[-1]
        idle = 0 if drop.any() else idle + 1
        points = points[~drop]
        parity = 1 - parity
    return points


def _box(polygon: Polygon, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The smallest box of whole pixels around a polygon."""
    points = np.array(polygon)
    low = np.minimum(np.floor(points.min(axis=0)), np.array(size) - 1)
    high = np.maximum(np.ceil(points.max(axis=0)), low + 1)
    (x, y), (width, height) = low, high - low
    return int(x), int(y), int(width), int(height)
