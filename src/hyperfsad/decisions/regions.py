"""Regions: where a map lies above its threshold, as contours and boxes in the image's own pixels.

Between the centres of the patches the map is the bilinear surface that pictures show; beyond the
outermost centres it stays level. On the edges between neighbouring centres such a surface is
linear, so where a contour crosses them is known exactly, and whether two diagonal patches hang
together follows from the saddle between them. So nothing is enlarged: time and memory follow from
the number of patches, whatever the size of the image, and each contour is simple by construction,
since in every cell between four centres its pieces stay apart.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..images.grid import PatchGrid
from .labelling import labelled, peaks

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]
Point: TypeAlias = tuple[float, float]
Polygon: TypeAlias = tuple[Point, ...]

MOST_REGIONS = 256
"""Regions kept of one image, those with the highest scores: a map of pure noise has thousands."""

GAP = 0.02
"""Contours stay this part of a patch away from the centres, so that they never touch there."""

BEND = 0.03
"""A bend of this part of a patch within a cell is worth a point of its own."""

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
    """In pixels, holes left out; at least 1, as a defect is no smaller than what shows it."""
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
    it raised the peak above the threshold, or makes up most of it, the region is one of them.
    """
    heights = anomaly_map.astype(np.float64) - threshold
    heights[~np.isfinite(heights)] = -1.0
    if not (heights > 0).any():
        return ()
    contours = _Contours(heights, size)
    patches = contours.labels[2:-2, 2:-2]
    areas = np.maximum(contours.areas().round(3), PIXEL)
    found = sorted(
        (-heights[peak], peak, label)
        for label, peak in enumerate(peaks(heights, patches, contours.count), start=1)
        if areas[label] >= min_area
    )
    grid = PatchGrid.of(anomaly_map, size)
    regions = []
    for _, (row, column), label in found[:MOST_REGIONS]:
        value = float(anomaly_map[row, column])
        x, y = grid.centre(int(row), int(column))
        polygon = _at_least_a_pixel(contours.polygon(label), (x, y), size)
        area = float(areas[label])
        added = 0.0 if missing is None else float(missing[row, column])
        lacks = added > 0 and (value - added <= threshold or 2 * added > value)
        kind = MISSING if lacks else UNEXPECTED
        regions.append(Region(_box(polygon, size), area, value, Peak(x, y, value), polygon, kind))
    return tuple(regions)


def _at_least_a_pixel(polygon: Polygon, peak: Point, size: tuple[int, int]) -> Polygon:
    """The polygon, or the pixel of its peak where it is smaller than that to all sides.

    In a tiny image several patches share a pixel, and a contour hugs a peak that is barely above
    the threshold: nobody could see or count it.
    """
    sides = np.ptp(np.array(polygon), axis=0)
    if (sides >= PIXEL).any():
        return polygon
    left, top = (float(min(int(at), side - 1)) for at, side in zip(peak, size, strict=True))
    return ((left, top), (left, top + 1), (left + 1, top + 1), (left + 1, top))


def _box(polygon: Polygon, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The smallest box of whole pixels around a polygon."""
    points = np.array(polygon)
    low = np.minimum(np.floor(points.min(axis=0)), np.array(size) - 1)
    high = np.maximum(np.ceil(points.max(axis=0)), low + 1)
    (x, y), (width, height) = low, high - low
    return int(x), int(y), int(width), int(height)


class _Contours:
    """All contours of a surface at height 0, as directed pieces with the inside on their left.

    The nodes are the patch centres, then a ring on the image's edge where the surface is level,
    then a ring at the same places that counts as outside and closes what the edge cuts off.
    """

    def __init__(self, heights: Floats, size: tuple[int, int]) -> None:
        level = np.pad(heights, 1, mode="edge")
        self._heights = np.pad(level, 1, constant_values=-1.0)
        self._inside = self._heights > 0
        self._x = _places(heights.shape[1], size[0])
        self._y = _places(heights.shape[0], size[1])
        self._size = size
        self._patch = np.array([size[0] / heights.shape[1], size[1] / heights.shape[0]])
        self._label()
        self._connect()

    def _corners(self) -> tuple[NDArray[np.bool_], ...]:
        inside = self._inside
        return inside[:-1, :-1], inside[:-1, 1:], inside[1:, :-1], inside[1:, 1:]

    def _label(self) -> None:
        """Numbers what hangs together, on a lattice with the places between the nodes as well."""
        inside, heights = self._inside, self._heights
        a, b, c, d = self._corners()
        first, second = heights[:-1, :-1] * heights[1:, 1:], heights[:-1, 1:] * heights[1:, :-1]
        # the saddle lies above 0 where the inner corners' product exceeds the outer corners'
        falling, rising = a & d & ~b & ~c, b & c & ~a & ~d
        self._saddle = falling | rising
        self._joined = (falling & (first > second)) | (rising & (second > first))
        rows, columns = inside.shape
        lattice = np.zeros((2 * rows - 1, 2 * columns - 1), dtype=bool)
        lattice[::2, ::2] = inside
        lattice[::2, 1::2] = inside[:, :-1] & inside[:, 1:]
        lattice[1::2, ::2] = inside[:-1] & inside[1:]
        lattice[1::2, 1::2] = self._joined
        labels, self.count = labelled(lattice)
        self.labels = labels[::2, ::2]
        known, topmost = np.unique(self.labels, return_index=True)
        self._topmost = dict(zip(known.tolist(), topmost.tolist(), strict=True))

    def _connect(self) -> None:
        """Pieces from crossing to crossing: each crossing ends one piece and starts one."""
        a, b, c, d = self._corners()
        rows, columns = self._inside.shape
        number = np.arange(rows * columns).reshape(rows, columns)
        # a crossing is known by its edge: from a node to the right, or downwards
        across, down = number, number + rows * columns
        top, bottom = across[:-1, :-1], across[1:, :-1]
        left, right = down[:-1, :-1], down[:-1, 1:]
        nodes = (number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:])
        starts = [(b & ~a, top, nodes[1]), (c & ~d, bottom, nodes[2])]
        starts += [(a & ~c, left, nodes[0]), (d & ~b, right, nodes[3])]
        ends = ((a & ~b, top), (d & ~c, bottom), (c & ~a, left), (b & ~d, right))
        plain, joined = ~self._saddle, self._joined
        split = self._saddle & ~joined
        # in a saddle: which end belongs to which start, apart and joined
        ends_apart, ends_joined = (3, 2, 0, 1), (2, 3, 1, 0)
        begin, finish, inner, bent, cells = [], [], [], [], []
        for index, (starting, edge, node) in enumerate(starts):
            pairs = [(end, plain, True) for end in range(4)]
            pairs += [(ends_apart[index], split, False), (ends_joined[index], joined, False)]
            for end, kind, bends in pairs:
                ending, target = ends[end]
                here = np.nonzero(starting & ending & kind)
                begin.append(edge[here])
                finish.append(target[here])
                inner.append(node[here])
                bent.append(np.full(len(here[0]), bends))
                cells.append(np.stack(here))
        order = np.argsort(np.concatenate(begin), kind="stable")
        begins = np.concatenate(begin)[order]
        finishes = np.concatenate(finish)[order]
        self._begin = begins
        self._next: Indices = np.searchsorted(begins, finishes)
        self._owner = self.labels.ravel()[np.concatenate(inner)[order]]
        self._from = self._crossings(begins)
        self._middle = self._bends(
            np.concatenate(cells, axis=1)[:, order], np.concatenate(bent)[order]
        )

    def _crossings(self, edges: Indices) -> Floats:
        """Where the surface is 0 on each edge, in pixels, (n, 2)."""
        rows, columns = self._inside.shape
        downwards = edges >= rows * columns
        row, column = np.divmod(edges % (rows * columns), columns)
        other_row, other_column = row + downwards, column + ~downwards
        one, other = self._heights[row, column], self._heights[other_row, other_column]
        part = np.clip(one / (one - other), GAP, 1 - GAP)
        x = self._x[column] + part * (self._x[other_column] - self._x[column])
        y = self._y[row] + part * (self._y[other_row] - self._y[row])
        return np.stack([x, y], axis=1)

    def _bends(self, cells: Indices, bent: NDArray[np.bool_]) -> Floats:
        """A point of the surface's zero line half way along each piece; NaN where it is straight.

        Within a cell the line is a piece of a hyperbola. It is met from the middle of the chord at
        a right angle, where the surface is a parabola.
        """
        row, column = cells
        corner = np.stack([self._x[column], self._y[row]], axis=1)
        cell = np.stack([self._x[column + 1], self._y[row + 1]], axis=1) - corner
        bent = bent & (cell > 0).all(axis=1)
        safe = np.where(cell > 0, cell, 1.0)
        one, two = (self._from - corner) / safe, (self._from[self._next] - corner) / safe
        chord, middle = two - one, (one + two) / 2
        length = np.maximum(np.hypot(*chord.T), 1e-9)
        normal = np.stack([-chord[:, 1], chord[:, 0]], axis=1) / length[:, None]
        a, b = self._heights[row, column], self._heights[row, column + 1]
        c, d = self._heights[row + 1, column], self._heights[row + 1, column + 1]
        (u, v), (nu, nv), twist = middle.T, normal.T, a - b - c + d
        constant = a + (b - a) * u + (c - a) * v + twist * u * v
        slope = (b - a + twist * v) * nu + (c - a + twist * u) * nv
        root = slope**2 - 4 * twist * nu * nv * constant
        below = slope + np.copysign(np.sqrt(np.maximum(root, 0)), slope)
        bent &= (root >= 0) & (below != 0)
        step = -2 * constant / np.where(below == 0, 1.0, below)
        point = np.clip(middle + step[:, None] * normal, GAP, 1 - GAP)
        bent &= (np.abs(step) >= BEND) & (np.abs(step) < length)
        return np.where(bent[:, None], corner + point * cell, np.nan)

    def areas(self) -> Floats:
        """The area of each region in pixels, holes left out, by label (0 is no region).

        A sum over the pieces of a contour: those around holes run the other way and subtract.
        """
        start, end = self._from, self._from[self._next]
        middle = np.where(np.isnan(self._middle), end, self._middle)
        doubled = _cross(start, middle) + _cross(middle, end)
        sums = np.bincount(self._owner, doubled / 2, minlength=self.count + 1)
        return -np.asarray(sums, dtype=np.float64)

    def polygon(self, label: int) -> Polygon:
        """The outer contour of a region; it leaves out what lies on a straight line."""
        rows, columns = self._inside.shape
        edge = rows * columns + self._topmost[label] - columns  # nothing of the region is above
        first = int(np.searchsorted(self._begin, edge))
        pieces, piece = [first], int(self._next[first])
        while piece != first:
            pieces.append(piece)
            piece = int(self._next[piece])
        pairs = np.stack([self._from[pieces], self._middle[pieces]], axis=1).reshape(-1, 2)
        points = np.clip(pairs[~np.isnan(pairs[:, 0])], 0, self._size)
        points = _without_straight(points, float(self._patch.max()))
        return tuple((float(x), float(y)) for x, y in np.round(points, 3))


def _places(count: int, length: int) -> Floats:
    """Where the nodes lie along one side of the image: edge, edge, centres, edge, edge."""
    places = np.arange(-1.5, count + 2.0) * length / count
    return np.clip(places, 0.0, length)


def _cross(one: Floats, two: Floats) -> Floats:
    product: Floats = one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]
    return product


def _without_straight(points: Floats, unit: float) -> Floats:
    """A closed contour without repeated points and without points on the line of their neighbours.

    Of two adjacent points only one goes at a time: without it the other may be a bend.
    """
    parity = 0
    idle = 0
    while len(points) > 3 and idle < 2:
        before, after = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
        same = np.abs(after).max(axis=1) < 1e-6 * unit
        straight = np.abs(_cross(before, after)) < 1e-6 * unit**2
        forwards = (before * after).sum(axis=1) >= 0
        drop = (same | (straight & forwards)) & (np.arange(len(points)) % 2 == parity)
        drop[0] &= not drop[-1]
        idle = 0 if drop.any() else idle + 1
        points = points[~drop]
        parity = 1 - parity
    return points
