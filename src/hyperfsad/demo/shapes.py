"""Shapes and textures that drawn parts are made of.

Lengths are fractions of the picture's side, measured from its centre, so any size looks alike.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Field: TypeAlias = NDArray[np.floating[Any]]
Pair: TypeAlias = tuple[Field, Field]
Discs: TypeAlias = Sequence[tuple[float, float, float]]


def grid(size: int) -> Pair:
    """Pixel centres in -0.5..0.5: a row of x and a column of y."""
    axis = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
    return axis[None, :], axis[:, None]


def clouds(rng: Generator, rows: int, columns: int, height: int, width: int) -> Field:
    """Smooth noise with the given number of lumps down and across."""
    lumps = Image.fromarray(rng.standard_normal((rows, columns), np.float32))
    return np.asarray(lumps.resize((width, height), Image.Resampling.BICUBIC))


def step(value: Any, low: float, high: float) -> Any:
    """Rise smoothly from 0 at ``low`` to 1 at ``high``."""
    t = np.clip((value - low) * (1 / (high - low)), 0, 1)
    return t * t * (3 - 2 * t)


def mix(below: Any, above: Any, cover: Any) -> Any:
    """Lay ``above`` over ``below``."""
    return below + cover * (above - below)


def inside(distance: Any, size: int) -> Any:
    """Cover of a shape given by its signed distance, with an edge one pixel soft."""
    return np.clip(0.5 - distance * size, 0, 1)


def box(u: Any, v: Any, half: tuple[float, float], radius: float) -> Any:
    """Signed distance to a rectangle with rounded corners, negative inside."""
    a, b = np.abs(u) - (half[0] - radius), np.abs(v) - (half[1] - radius)
    outside = np.sqrt(np.maximum(a, 0) ** 2 + np.maximum(b, 0) ** 2)
    return outside + np.minimum(np.maximum(a, b), 0) - radius


def discs(u: Field, v: Field, discs: Discs) -> Any:
    """Signed distance to the nearest of several discs (u, v, radius)."""
    nearest: Any = math.inf
    for a, b, radius in discs:
        nearest = np.minimum(nearest, np.sqrt((u - a) ** 2 + (v - b) ** 2) - radius)
    return nearest


def strokes(size: int, curves: Sequence[Field], width: float, press: Any = 1) -> Field:
    """Cover of round brush strokes along curves, pressed at each point by `press` (0..1)."""
    sheet = Image.new("L", (2 * size, 2 * size))
    pen, radius = ImageDraw.Draw(sheet), width * size
    for curve in curves:
        points = ((curve + 0.5) * 2 * size).tolist()
        inks = np.broadcast_to(np.rint(np.multiply(press, 255)), len(points)).astype(int).tolist()
        for (x, y), ahead, ink in zip(points, points[1:], inks, strict=False):
            pen.line((x, y, *ahead), ink, max(round(2 * radius), 1))
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), ink)
    return np.asarray(sheet.reduce(2), np.float32) / 255


def arc(middle: Any, angle: float, length: float, bend: float) -> Field:
    """Points of a curve through ``middle`` at ``angle`` that turns by ``bend`` on its way."""
    heading = angle + bend * np.linspace(-0.5, 0.5, 25)
    points = np.cumsum(np.stack([np.cos(heading), np.sin(heading)], 1), 0) * (length / 25)
    return np.asarray(middle + points - points[12])


def stain(size: int, spot: tuple[float, float], radius: float, rng: Generator) -> Any:
    """Strength of a stain: a lobed, uneven blot, darker at the rim where it dried."""
    x, y = grid(size)
    lobes, frets = (clouds(rng, k, k, size, size) for k in (12, 44))
    spread = discs(x, y, [(*spot, radius)]) / radius
    # The clouds fade with distance, or they would stain far corners too.
    inside = (0.26 * lobes + 0.09 * frets) * step(spread, 0.7, 0.2) - spread
    return step(inside, 0, 0.14) * (0.70 + 0.30 * step(inside, 0.30, 0.08) + 0.05 * frets)
