"""Defects drawn on pictures of good parts: what a setting would find when no bad part is at hand.

They are not photographs of real defects. They show which size and which contrast can be seen at
all, and every setting is shown the same ones: the seed decides.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from ..decisions.roi import otsu
from ..images.filters import blurred, opened

DEFECT_KINDS = {"scratch": (0.35, 0.8), "stain": (0.3, 0.7), "missing patch": (0.7, 1.0)}
"""How much a faint and a clear one hide of what lies beneath."""
DEFECT_SIZES = (0.02, 0.04, 0.08, 0.16)
"""Of a defect, over the shorter side of the picture."""
MIN_DEFECT = 3.0
"""Pixels that a defect measures at least."""
OVERSAMPLING = 4
"""Shapes are drawn this many times larger, then reduced, so that their edges are smooth."""
REDUCED_SIDE = 256
"""Pixels along the longer side of the reduced picture in which the part is sought."""
PART_SHARE = (0.03, 0.9)
"""Shares of the picture that a part may cover; otherwise all of it is the part."""
MAX_AT_BORDER = 0.5
"""What covers more of the border than this part of its share of the picture is the pattern of a
texture, and all of the picture is the part."""


@dataclass(frozen=True)
class DrawnDefect:
    """A defect to be drawn; the same one is always drawn in the same way."""

    kind: str
    share: float
    """Its size over the shorter side of the picture."""
    clear: bool
    seed: int


def draw_defect(image: Image.Image, defect: DrawnDefect) -> Image.Image:
    """Draws a defect on an RGB picture, somewhere on its part."""
    number = list(DEFECT_KINDS).index(defect.kind)
    random = np.random.default_rng([defect.seed, number, round(1000 * defect.share)])
    part, background = find_part(image)
    row, column = random.choice(np.argwhere(part))
    x = int((column + 0.5) * image.width / part.shape[1])
    y = int((row + 0.5) * image.height / part.shape[0])
    size = max(defect.share * min(image.size), MIN_DEFECT)
    reach = math.ceil(0.7 * size) + 4
    window = image.crop((x - reach, y - reach, x + reach, y + reach))
    canvas = Image.new("L", (2 * reach * OVERSAMPLING, 2 * reach * OVERSAMPLING))
    pen, angle = ImageDraw.Draw(canvas), random.uniform(0, 2 * math.pi)
    if defect.kind == "scratch":
        across, down = np.linspace(-0.5, 0.5, 9), 0.1 * np.cos(np.linspace(-1.5, 1.5, 9))
    else:
        around = np.linspace(0, 2 * math.pi, 40, endpoint=False)
        radius = 0.4 * (1 + 0.2 * np.sin(3 * around + angle))
        across, down = radius * np.cos(around), random.uniform(0.6, 1) * radius * np.sin(around)
    curve = (across + 1j * down) * size * np.exp(1j * angle) + complex(reach, reach)
    points = [(OVERSAMPLING * float(z.real), OVERSAMPLING * float(z.imag)) for z in curve]
    if defect.kind == "scratch":
        width = OVERSAMPLING * max(1.2, size / 16)
        pen.line(points, fill=255, width=round(width), joint="curve")
    else:
        pen.polygon(points, fill=255)
    soft = {"stain": 0.1, "missing patch": 0.03}.get(defect.kind, 0.0)
    shape = canvas.reduce(OVERSAMPLING).filter(ImageFilter.GaussianBlur(soft * size))
    weights = np.asarray(shape, np.float64) + 1e-6
    beneath = np.average(np.asarray(window, np.float64), axis=(0, 1), weights=weights)
    dark = float(beneath.mean()) < 140
    colour = {
        "scratch": np.full(3, 255.0 if dark else 12.0),
        "stain": beneath + 0.7 * (255 - beneath) if dark else 0.3 * beneath,
        "missing patch": background,
    }[defect.kind]
    hidden = DEFECT_KINDS[defect.kind][defect.clear]
    plain = Image.new("RGB", window.size, tuple(int(value) for value in np.rint(colour)))
    drawn = image.copy()
    drawn.paste(plain, (x - reach, y - reach), shape.point(lambda value: hidden * value))
    return drawn


def find_part(image: Image.Image) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """What differs from the picture's border, in a reduced picture, and the colour beneath it.

    If nothing stands out, the part is all of the picture, and the colour is its mean.
    """
    small = image.copy()
    small.thumbnail((REDUCED_SIDE, REDUCED_SIDE))
    pixels = np.asarray(small, np.float64)
    background = np.median(_border(pixels), axis=0)
    away = blurred(np.linalg.norm(pixels - background, axis=2), 1.0)
    part = opened(away > otsu(away.ravel())[0], 2, corners=False)
    share = float(part.mean())
    at_border = float(_border(part).mean())
    if PART_SHARE[0] <= share <= PART_SHARE[1] and at_border <= MAX_AT_BORDER * share:
        return part, background
    return np.ones_like(part), pixels.mean(axis=(0, 1))


def _border(pixels: NDArray[Any]) -> NDArray[Any]:
    """The pixels along the four sides."""
    return np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
