"""Defects drawn on pictures of good parts: what a setting would find when no bad part is at hand.

They are not photographs of real defects. They show which size and which contrast can be seen at
all, and every setting is shown the same ones. All is deterministic: the seed decides. Only the
window around a defect is computed, so a large picture costs little more than a small one.
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

from ..decisions.region_of_interest import otsu

Pixels: TypeAlias = NDArray[np.float32]
PartMask: TypeAlias = NDArray[np.bool_]

DEFECT_SIZES = (0.02, 0.04, 0.08, 0.16)
"""Of a defect, over the shorter side of the picture."""

MIN_DEFECT = 3.0
"""Pixels that a defect measures at least."""

PICTURE_MARGIN = 0.06
"""Share of the picture along its border where no defect is drawn."""

WINDOW_REACH = 1.2
"""A window reaches this many times the size of its defect to each side."""

OVERSAMPLING = 4
"""Shapes are drawn this many times larger, then reduced, so that their edges are smooth."""

MAX_GREY_SPREAD = 0.02
"""A picture whose colour channels differ by less than this is grey, and so are its defects."""

STAIN_COLOURS = ((0.25, 0.17, 0.08), (0.62, 0.45, 0.2), (0.85, 0.85, 0.8))
"""Oil, rust, dust."""

REDUCED_SIDE = 512
"""Pixels along the longer side of the reduced picture in which the part is sought."""

BORDER_WIDTH = 0.04
"""Width of the picture's border, over its shorter side: it shows what the part lies on."""

MIN_PART, MAX_PART = 0.03, 0.9
"""Shares of the picture that a part may cover; otherwise all of it is the part."""

MAX_AT_BORDER = 0.5
"""What stands out covers less of the border than this part of its share of the picture; otherwise
it is the pattern of a texture, and all of the picture is the part."""


@dataclass(frozen=True)
class DrawnDefect:
    """A defect to be drawn; the same one is always drawn in the same way."""

    kind: str
    share: float
    """Its size over the shorter side of the picture."""
    clear: bool
    seed: int


@dataclass(frozen=True)
class DefectPicture:
    """A picture with one defect."""

    image: Image.Image
    box: tuple[int, int, int, int]
    """Left, upper, right, lower: where the picture was changed."""
    size: float
    """In pixels: the length of a scratch, the width of others."""


@dataclass(frozen=True)
class DefectWindow:
    """The surroundings of the place where a defect is drawn."""

    picture: Image.Image
    left: int
    top: int
    part: PartMask
    """Which of its pixels belong to the part."""
    pixels: Pixels
    x: float
    y: float
    """The place, counted from the window's own corner."""
    size: float
    """Of the defect, in pixels."""
    elsewhere: tuple[tuple[int, int], ...]
    """Other places of the part, in pixels of the picture."""


Paint: TypeAlias = Callable[[DefectWindow, Generator], tuple[Pixels, Pixels]]


@dataclass(frozen=True)
class DefectKind:
    """How a kind of defect is drawn."""

    paint: Paint
    """How much it covers of each pixel of the window, and with which colour."""
    faint: float
    """How much a faint one hides of what lies beneath."""
    clear: float
    on_edge: bool = False
    """Whether it lies on the edge of the part."""


def draw_defect(image: Image.Image, defect: DrawnDefect) -> DefectPicture:
    """Draws a defect on an RGB picture, somewhere on its part."""
    kind = DEFECT_KINDS[defect.kind]
    number = list(DEFECT_KINDS).index(defect.kind)
    random = np.random.default_rng(
        [defect.seed, number, round(1000 * defect.share), int(defect.clear)]
    )
    window = _window(image, defect.share, kind.on_edge, random)
    covered, colour = kind.paint(window, random)
    colour = _as_seen(window, colour)
    covered = covered * (kind.clear if defect.clear else kind.faint)
    changed = window.pixels + covered[..., None] * (colour - window.pixels)
    left, top = window.left, window.top
    drawn = image.copy()
    changed = np.clip(np.rint(255 * changed), 0, 255).astype(np.uint8)
    drawn.paste(Image.fromarray(changed), (left, top))
    rows, columns = np.nonzero(covered > 0.02)
    if not len(rows):  # no part beneath a missing piece
        rows = columns = np.zeros(1, dtype=int)
    box = (left + columns.min(), top + rows.min(), left + columns.max() + 1, top + rows.max() + 1)
    return DefectPicture(drawn, tuple(map(int, box)), window.size)  # type: ignore[arg-type]


def _window(image: Image.Image, share: float, on_edge: bool, random: Generator) -> DefectWindow:
    """A place of the part, and what lies around it."""
    width, height = image.size
    size = max(share * min(image.size), MIN_DEFECT)
    small, factor = find_part(image)
    where = small & ~ndimage.binary_erosion(small) if on_edge and not small.all() else small
    x, y = _place(where, factor, random)
    reach = math.ceil(WINDOW_REACH * size) + 4
    left, top = max(0, x - reach), max(0, y - reach)
    right, bottom = min(width, x + reach), min(height, y + reach)
    rows = np.clip(np.arange(top, bottom) // factor, 0, small.shape[0] - 1)
    columns = np.clip(np.arange(left, right) // factor, 0, small.shape[1] - 1)
    return DefectWindow(
        image,
        left,
        top,
        small[np.ix_(rows, columns)],
        _colours(image.crop((left, top, right, bottom))),
        x - left,
        y - top,
        size,
        tuple(_place(small, factor, random) for _ in range(6)),
    )


def _place(where: PartMask, factor: int, random: Generator) -> tuple[int, int]:
    """One of the places, not at the border of the picture; in pixels of the picture."""
    height, width = where.shape
    inner = np.zeros_like(where)
    rows, columns = math.ceil(PICTURE_MARGIN * height), math.ceil(PICTURE_MARGIN * width)
    inner[rows : height - rows, columns : width - columns] = True
    found = np.argwhere(where & inner if (where & inner).any() else where)
    row, column = found[int(random.integers(len(found)))]
    x, y = (int(factor * (value + 0.5)) for value in (column, row))
    return x, y


def _scratch(window: DefectWindow, random: Generator) -> tuple[Pixels, Pixels]:
    """A thin, slightly bent line, brighter or darker than what it crosses."""
    angle, bend = random.uniform(0, math.pi), random.uniform(-0.15, 0.15)
    along = np.linspace(-0.5, 0.5, 9)
    beside = bend * (0.25 - along**2)
    x = window.x + window.size * (along * math.cos(angle) - beside * math.sin(angle))
    y = window.y + window.size * (along * math.sin(angle) + beside * math.cos(angle))
    width = max(1.2, window.size / 16)

    def draw(canvas: ImageDraw.ImageDraw) -> None:
        canvas.line(
            _scaled(x, y), fill=255, width=max(1, round(width * OVERSAMPLING)), joint="curve"
        )

    covered = _shape(window, draw)
    tone = 1.0 if float(_beneath(window, covered).mean()) < 0.55 else 0.05
    return covered, np.full(3, tone, dtype=np.float32)


def _stain(window: DefectWindow, random: Generator) -> tuple[Pixels, Pixels]:
    """A blot with soft edges, of the dull colour that differs most from what it lies on."""
    covered = _blot(window, random, soft=0.12)
    stains = _as_seen(window, np.array(STAIN_COLOURS, dtype=np.float32))
    contrast = np.linalg.norm(stains - _beneath(window, covered), axis=1)
    return covered, stains[int(np.argmax(contrast))]


def _pasted(window: DefectWindow, random: Generator) -> tuple[Pixels, Pixels]:
    """A piece of the part itself, turned and put elsewhere: the right colours, the wrong place."""
    covered = _blot(window, random, soft=0.04)
    height, width = covered.shape
    pieces = []
    for x, y in window.elsewhere:
        left, top = round(x - window.x), round(y - window.y)
        piece = window.picture.crop((left, top, left + width, top + height))
        turned = piece.rotate(float(random.uniform(40, 320)), Image.Resampling.BILINEAR)
        pieces.append(_colours(turned))
    differences = [
        float((np.abs(piece - window.pixels).mean(axis=2) * covered).sum()) for piece in pieces
    ]
    return covered, pieces[int(np.argmax(differences))]


def _missing(window: DefectWindow, random: Generator) -> tuple[Pixels, Pixels]:
    """A piece of the part's edge is gone, and what it lies on shows; a blur, if it fills all."""
    covered = _blot(window, random, soft=0.04)
    beyond = ~ndimage.binary_dilation(window.part, iterations=3)
    if not beyond.any():
        blur = (window.size, window.size, 0)
        return covered, ndimage.gaussian_filter(window.pixels, blur, mode="nearest")
    near = ndimage.distance_transform_edt(~beyond, return_distances=False, return_indices=True)
    return covered * window.part, window.pixels[near[0], near[1]]


DEFECT_KINDS: dict[str, DefectKind] = {
    "scratch": DefectKind(_scratch, 0.35, 0.8),
    "stain": DefectKind(_stain, 0.25, 0.6),
    "cut-and-paste": DefectKind(_pasted, 0.6, 1.0),
    "missing piece": DefectKind(_missing, 0.7, 1.0, on_edge=True),
}


def _blot(window: DefectWindow, random: Generator, soft: float) -> Pixels:
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
    return [(OVERSAMPLING * float(a), OVERSAMPLING * float(b)) for a, b in zip(x, y, strict=True)]


def _shape(
    window: DefectWindow, draw: Callable[[ImageDraw.ImageDraw], None], blur: float = 0.0
) -> Pixels:
    """How much a drawn shape covers of each pixel of the window, from 0 to 1."""
    height, width = window.part.shape
    canvas = Image.new("L", (OVERSAMPLING * width, OVERSAMPLING * height))
    draw(ImageDraw.Draw(canvas))
    small = canvas.reduce(OVERSAMPLING)
    if blur > 0.3:
        small = small.filter(ImageFilter.GaussianBlur(blur))
    covered: Pixels = np.asarray(small, dtype=np.float32) / np.float32(255)
    return covered


def _as_seen(window: DefectWindow, colour: Pixels) -> Pixels:
    """Colours as the picture's camera sees them: grey in a grey picture."""
    if float(np.ptp(window.pixels, axis=2).mean()) >= MAX_GREY_SPREAD:
        return colour
    return np.broadcast_to(colour.mean(axis=-1, keepdims=True), colour.shape)


def _beneath(window: DefectWindow, covered: Pixels) -> Pixels:
    """The mean colour of what a shape covers."""
    weights = covered + np.float32(1e-6)
    mean: Pixels = np.average(window.pixels, axis=(0, 1), weights=weights).astype(np.float32)
    return mean


def find_part(image: Image.Image) -> tuple[PartMask, int]:
    """What differs from the picture's border, in a picture reduced by the factor returned.

    All of it, if nothing stands out.
    """
    factor = max(1, -(-max(image.size) // REDUCED_SIDE))
    away = _from_border(_colours(image.reduce(factor) if factor > 1 else image))
    part: PartMask = ndimage.binary_opening(
        away > otsu(away.ravel().astype(np.float64))[0], iterations=2
    )
    edge = np.concatenate([part[0], part[-1], part[:, 0], part[:, -1]])
    share = float(part.mean())
    if not MIN_PART <= share <= MAX_PART or float(edge.mean()) > MAX_AT_BORDER * share:
        part = np.ones_like(part)
    return part, factor


def _colours(image: Image.Image) -> Pixels:
    """The pixels of an RGB picture, from 0 to 1."""
    found: Pixels = np.asarray(image, dtype=np.float32) / np.float32(255)
    return found


def _from_border(pixels: Pixels) -> Pixels:
    """How far the colour of each pixel is from the usual one along the border."""
    width = max(1, round(BORDER_WIDTH * min(pixels.shape[:2])))
    frame = np.ones(pixels.shape[:2], dtype=bool)
    frame[width:-width, width:-width] = False
    away = np.linalg.norm(pixels - np.median(pixels[frame], axis=0), axis=2)
    smooth: Pixels = ndimage.gaussian_filter(away.astype(np.float32), 1.5)
    return smooth
