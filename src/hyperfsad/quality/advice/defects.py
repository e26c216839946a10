"""Defects drawn on pictures of good parts: what a setting would find, when no bad part is at hand.

They are no photographs of real defects. They tell which size and which contrast can be seen at all,
and every setting is shown the same ones. All is deterministic: the seed decides. Only the window
around a defect is worked on, so a large picture costs little more than a small one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter
from scipy import ndimage

from .part import Mask, Pixels, colours, find_part

SIZES = (0.02, 0.04, 0.08, 0.16)
"""Of a defect, over the shorter side of the picture."""

SHORTEST = 3.0
"""Pixels that a defect measures at least."""

MARGIN = 0.06
"""Share of the picture along its border where no defect is drawn."""

AROUND = 1.2
"""A window reaches this many times the size of its defect to each side."""

FINE = 4
"""Shapes are drawn this many times larger, then reduced, so that their edges are smooth."""

GREY = 0.02
"""A picture whose colours differ by less than this is grey, and so are its defects."""

DULL = ((0.25, 0.17, 0.08), (0.62, 0.45, 0.2), (0.85, 0.85, 0.8))
"""Colours of stains: oil, rust, dust."""

Place: TypeAlias = tuple[int, int]
"""Column and row of a pixel."""


@dataclass(frozen=True)
class Drawn:
    """A picture with one defect."""

    image: Image.Image
    box: tuple[int, int, int, int]
    """Left, upper, right, lower: where the picture was changed."""
    size: float
    """In pixels: the length of a scratch, the width of others."""


@dataclass(frozen=True)
class Window:
    """The surroundings of a place where a defect is drawn."""

    picture: Image.Image
    left: int
    top: int
    part: Mask
    """Which of its pixels belong to the part."""
    pixels: Pixels
    x: float
    y: float
    """The place, counted from the window's own corner."""
    size: float
    """Of the defect, in pixels."""
    elsewhere: tuple[Place, ...]
    """Other places of the part, in pixels of the picture."""


Paint: TypeAlias = Callable[[Window, Generator], tuple[Pixels, Pixels]]


@dataclass(frozen=True)
class Kind:
    """How a kind of defect is drawn."""

    paint: Paint
    """How much it covers of each pixel of the window, and with which colour."""
    faint: float
    """How much a faint one hides of what lies beneath."""
    clear: float
    on_edge: bool = False
    """Whether it lies on the edge of the part."""


def draw_defect(image: Image.Image, kind: str, share: float, clear: bool, seed: int) -> Drawn:
    """Draws a defect of a kind in `KINDS` on an RGB picture, somewhere on its part."""
    how = KINDS[kind]
    random = np.random.default_rng([seed, list(KINDS).index(kind), round(1000 * share), int(clear)])
    window = _window(image, share, how.on_edge, random)
    covered, colour = how.paint(window, random)
    colour = _as_seen(window, colour)
    covered = covered * (how.clear if clear else how.faint)
    changed = window.pixels + covered[..., None] * (colour - window.pixels)
    drawn = image.copy()
    drawn.paste(_picture(changed), (window.left, window.top))
    rows, columns = np.nonzero(covered > 0.02)
    left, top = window.left, window.top
    if not len(rows):  # no part beneath a missing piece
        return Drawn(drawn, (left, top, left + 1, top + 1), window.size)
    box = (int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1)
    return Drawn(drawn, (left + box[0], top + box[1], left + box[2], top + box[3]), window.size)


def _window(image: Image.Image, share: float, on_edge: bool, random: Generator) -> Window:
    """A place of the part, and what lies around it."""
    width, height = image.size
    size = max(share * min(image.size), SHORTEST)
    small, factor = find_part(image)
    where = small & ~ndimage.binary_erosion(small) if on_edge and not small.all() else small
    x, y = _place(where, factor, random)
    reach = math.ceil(AROUND * size) + 4
    left, top = max(0, x - reach), max(0, y - reach)
    right, bottom = min(width, x + reach), min(height, y + reach)
    rows = np.clip(np.arange(top, bottom) // factor, 0, small.shape[0] - 1)
    columns = np.clip(np.arange(left, right) // factor, 0, small.shape[1] - 1)
    return Window(
        image,
        left,
        top,
        small[np.ix_(rows, columns)],
        colours(image.crop((left, top, right, bottom))),
        x - left,
        y - top,
        size,
        tuple(_place(small, factor, random) for _ in range(6)),
    )


def _place(where: Mask, factor: int, random: Generator) -> Place:
    """One of the places, not at the border of the picture; in pixels of the picture."""
    height, width = where.shape
    inner = np.zeros_like(where)
    rows, columns = math.ceil(MARGIN * height), math.ceil(MARGIN * width)
    inner[rows : height - rows, columns : width - columns] = True
    found = np.argwhere(where & inner if (where & inner).any() else where)
    row, column = found[int(random.integers(len(found)))]
    x, y = (int(factor * (value + 0.5)) for value in (column, row))
    return x, y


def _scratch(window: Window, random: Generator) -> tuple[Pixels, Pixels]:
    """A thin, slightly bent line, brighter or darker than what it crosses."""
    angle, bend = random.uniform(0, math.pi), random.uniform(-0.15, 0.15)
    along = np.linspace(-0.5, 0.5, 9)
    beside = bend * (0.25 - along**2)
    x = window.x + window.size * (along * math.cos(angle) - beside * math.sin(angle))
    y = window.y + window.size * (along * math.sin(angle) + beside * math.cos(angle))
    width = max(1.2, window.size / 16)

    def draw(canvas: ImageDraw.ImageDraw) -> None:
        canvas.line(_scaled(x, y), fill=255, width=max(1, round(width * FINE)), joint="curve")

    covered = _shape(window, draw)
    tone = 1.0 if float(_beneath(window, covered).mean()) < 0.55 else 0.05
    return covered, np.full(3, tone, dtype=np.float32)


def _stain(window: Window, random: Generator) -> tuple[Pixels, Pixels]:
    """A blot with soft edges, of the dull colour that differs most from what it lies on."""
    covered = _blot(window, random, soft=0.12)
    dull = _as_seen(window, np.array(DULL, dtype=np.float32))
    far = np.linalg.norm(dull - _beneath(window, covered), axis=1)
    return covered, dull[int(np.argmax(far))]


def _pasted(window: Window, random: Generator) -> tuple[Pixels, Pixels]:
    """A piece of the part itself, turned and put elsewhere: the right colours, the wrong place."""
    covered = _blot(window, random, soft=0.04)
    height, width = covered.shape
    pieces = []
    for x, y in window.elsewhere:
        left, top = round(x - window.x), round(y - window.y)
        piece = window.picture.crop((left, top, left + width, top + height))
        turned = piece.rotate(float(random.uniform(40, 320)), Image.Resampling.BILINEAR)
        pieces.append(colours(turned))
    differences = [
        float((np.abs(piece - window.pixels).mean(axis=2) * covered).sum()) for piece in pieces
    ]
    return covered, pieces[int(np.argmax(differences))]


def _missing(window: Window, random: Generator) -> tuple[Pixels, Pixels]:
    """A piece of the part's edge is gone, and what it lies on shows; a blur, if it fills all."""
    covered = _blot(window, random, soft=0.04)
    beyond = ~ndimage.binary_dilation(window.part, iterations=3)
    if not beyond.any():
        blur = (window.size, window.size, 0)
        return covered, ndimage.gaussian_filter(window.pixels, blur, mode="nearest")
    near = ndimage.distance_transform_edt(~beyond, return_distances=False, return_indices=True)
    return covered * window.part, window.pixels[near[0], near[1]]


KINDS: dict[str, Kind] = {
    "scratch": Kind(_scratch, 0.35, 0.8),
    "stain": Kind(_stain, 0.25, 0.6),
    "cut-and-paste": Kind(_pasted, 0.6, 1.0),
    "missing piece": Kind(_missing, 0.7, 1.0, on_edge=True),
}


def _blot(window: Window, random: Generator, soft: float) -> Pixels:
    """An uneven oval around the place."""
    turn, phase = random.uniform(0, 2 * math.pi, 2)
    flat = random.uniform(0.6, 0.95)
    angles = np.linspace(0, 2 * math.pi, 40, endpoint=False)
    uneven = 1 + 0.14 * np.sin(3 * angles + phase) + 0.08 * np.sin(5 * angles - phase)
    across = window.size / 2 * uneven * np.cos(angles)
    down = flat * window.size / 2 * uneven * np.sin(angles)
    x = window.x + across * math.cos(turn) - down * math.sin(turn)
    y = window.y + across * math.sin(turn) + down * math.cos(turn)

    def draw(canvas: ImageDraw.ImageDraw) -> None:
        canvas.polygon(_scaled(x, y), fill=255)

    return _shape(window, draw, soft * window.size)


def _scaled(x: NDArray[np.float64], y: NDArray[np.float64]) -> list[tuple[float, float]]:
    return [(FINE * float(a), FINE * float(b)) for a, b in zip(x, y, strict=True)]


def _shape(
    window: Window, draw: Callable[[ImageDraw.ImageDraw], None], blur: float = 0.0
) -> Pixels:
    """How much a drawn shape covers of each pixel of the window, from 0 to 1."""
    height, width = window.part.shape
    canvas = Image.new("L", (FINE * width, FINE * height))
    draw(ImageDraw.Draw(canvas))
    small = canvas.reduce(FINE)
    if blur > 0.3:
        small = small.filter(ImageFilter.GaussianBlur(blur))
    covered: Pixels = np.asarray(small, dtype=np.float32) / np.float32(255)
    return covered


def _as_seen(window: Window, colour: Pixels) -> Pixels:
    """Colours as the picture's camera sees them: grey in a grey picture."""
    if float(np.ptp(window.pixels, axis=2).mean()) >= GREY:
        return colour
    return np.broadcast_to(colour.mean(axis=-1, keepdims=True), colour.shape)


def _beneath(window: Window, covered: Pixels) -> Pixels:
    """The mean colour of what a shape covers."""
    weights = covered + np.float32(1e-6)
    mean: Pixels = np.average(window.pixels, axis=(0, 1), weights=weights).astype(np.float32)
    return mean


def _picture(pixels: Pixels) -> Image.Image:
    return Image.fromarray(np.clip(np.rint(255 * pixels), 0, 255).astype(np.uint8))
