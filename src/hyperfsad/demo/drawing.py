"""Synthetic industrial parts, good and defective, that stand in for photographs in the demo."""

import math
import zlib
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image

from ..images.filters import widened
from .shapes import (
    Discs,
    Field,
    Pair,
    arc,
    box,
    clouds,
    discs,
    grid,
    inside,
    mix,
    stain,
    step,
    strokes,
)

PRODUCTS: dict[str, tuple[str, ...]] = {
    "plate": ("scratch", "missing hole", "stain", "dent"),
    "fabric": ("thread break", "stain", "hole", "pulled thread"),
}

Lamp: TypeAlias = tuple[float, float]  # unit vector towards the lamp, in the picture's plane

_PLATE, _CORNER, _BEVEL, _CHAMFER = (0.41, 0.35), 0.035, 0.009, 0.007
_CORNER_HOLES = tuple((u, v, 0.030) for u in (-0.33, 0.33) for v in (-0.27, 0.27))
_HOLES = (*_CORNER_HOLES, (-0.15, 0.02, 0.070), (0.02, -0.21, 0.024))
_SLOT, _SLOT_HALF = (0.17, 0.14), (0.10, 0.030)
_SCREWS, _SINK, _HEAD, _SOCKET = ((0.09, -0.06), (0.26, -0.06)), 0.041, 0.030, 0.014
# Places on the flat, clear of all machining, where a dent, a stain or a scratch can be seen.
_FLATS_U = (-0.31, -0.16, 0.17, 0.34, 0.02, -0.15, 0.06, -0.32, -0.02, 0.23)
_FLATS_V = (-0.06, -0.20, -0.20, 0.03, 0.07, 0.23, 0.26, 0.12, -0.10, 0.26)

_THREADS = 36
_YARNS = _THREADS + 10  # spare ones leave room for the phase, the waviness and pulled cloth

# Red, green and blue come first in every colour array, which keeps numpy's inner loops long.
_STEEL, _BENCH = np.array(((0.985, 1, 1.012), (0.95, 1, 1.08)), np.float32)[..., None, None]
_WARP, _WEFT = np.array(((0.98, 0.91, 0.79), (1.06, 0.99, 0.87)), np.float32)[..., None, None]
_STAIN = np.array((0.40, 0.48, 0.58), np.float32)[:, None, None]  # what it takes of each colour


@dataclass(frozen=True)
class Part:
    """A picture of one part, and where its defect changed the picture."""

    image: Image.Image
    mask: NDArray[np.bool_]


def draw(product: str, *, seed: int, defect: str | None = None, size: int = 512) -> Part:
    """Draws one part; a defect leaves every pixel outside its mask as the good part has it."""
    assert defect is None or defect in PRODUCTS[product]
    key = zlib.crc32(product.encode())
    rng = np.random.default_rng([key, seed])
    # The defect has a stream of its own, so the part beneath it does not change.
    flaw = np.random.default_rng([key, seed, zlib.crc32((defect or "").encode())])
    angle = math.radians(rng.uniform(-150, -120))
    lamp = (math.cos(angle), math.sin(angle))
    paint = _plate if product == "plate" else _fabric
    colour, touched = paint(size, lamp, defect, rng, flaw)
    # Two pixels wider: one for the surface's slope, one for the camera's blur.
    mask = widened(touched > 0, 2)
    return Part(_photograph(colour, lamp, rng), mask)


def _photograph(colour: Field, lamp: Lamp, rng: Generator) -> Image.Image:
    """Light the scene from one side, blur it a little and add sensor noise."""
    x, y = grid(colour.shape[1])
    level, falloff, blur = (rng.uniform(*r) for r in ((0.94, 1.06), (0.16, 0.26), (0.10, 0.18)))
    lit = colour * (level * (1 + falloff * (x * lamp[0] + y * lamp[1])))
    for channel in lit:
        # Three taps reach one pixel only: the blur must not carry a defect beyond its mask.
        for pixels in (channel, channel.T):
            beside = pixels[:-2] + pixels[2:]
            pixels[1:-1] *= 1 - 2 * blur
            pixels[1:-1] += blur * beside
        grit = 0.03 * np.sqrt(np.maximum(channel, 0.04))
        channel += grit * (rng.random(channel.shape, np.float32) - 0.5)
    levels = (np.clip(lit, 0, 1) * 255 + 0.5).astype(np.uint8)
    return Image.merge("RGB", [Image.fromarray(channel) for channel in levels])


def _plate(size: int, lamp: Lamp, defect: str | None, rng: Generator, flaw: Generator) -> Pair:
    """Paint a brushed metal plate on a dark bench, and say where a defect touched it."""
    x, y = grid(size)
    turn, sx, sy = (rng.uniform(-k, k) for k in (1, 0.008, 0.008))
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    u, v = c * (x - sx) + s * (y - sy), c * (y - sy) - s * (x - sx)
    holes, pit, touched = _plate_flaw(u, v, defect, flaw)
    edge, bore = box(u, v, _PLATE, _CORNER), discs(u, v, holes)
    touched = touched * ((bore > 0) & (edge * size < 0.5))
    height = np.minimum(np.clip(-edge, 0, _BEVEL), np.clip(bore, -0.02, _CHAMFER) + 0.002)
    down, across = np.gradient(height - pit * (touched > 0), 1 / size)
    sheen = 0.10 * (x * lamp[0] + y * lamp[1]) + 0.05 * np.cos(7 * v + rng.uniform(-0.4, 0.4))
    facing = sheen + _grain(size, turn, rng) - lamp[0] * across - lamp[1] * down
    # Metal mirrors its surroundings, so its brightness bends sharply as it turns to the lamp.
    tone = 0.58 + 0.42 * np.tanh(1.8 * facing)
    if defect == "scratch":
        tone += 0.22 * touched
    for place, cut in ((_SLOT, _slot), (_SCREWS[0], _screw), (_SCREWS[1], _screw)):
        column, row = (int((p + 0.5) * size) for p in place)
        area = np.s_[row - size // 14 : row + size // 14, column - size // 7 : column + size // 7]
        tone[area] = cut(tone[area], u[area] - place[0], v[area] - place[1], lamp, rng, size)
    void, solid = inside(bore, size), inside(edge, size)
    tone = mix(tone, 0.04 + 0.35 * tone * step(bore, -0.018, 0), void)
    colour = mix(_bench(u, v, lamp, rng), tone, solid) * mix(_BENCH, _STEEL, solid)
    if defect == "stain":
        colour *= 1 - touched * _STAIN
    return colour, touched


def _plate_flaw(u: Field, v: Field, defect: str | None, rng: Generator) -> tuple[Discs, Any, Any]:
    """The holes that were drilled, how deep the flat was dented, and where it was touched."""
    size, scale, k = len(u), rng.uniform(0.85, 1.25), int(rng.integers(len(_FLATS_U)))
    spot = _FLATS_U[k] + rng.uniform(-0.02, 0.02), _FLATS_V[k] + rng.uniform(-0.02, 0.02)
    if defect == "missing hole":
        k = int(rng.integers(len(_HOLES)))
        near = discs(u, v, [(*_HOLES[k][:2], 0)])
        # The place was marked with a punch, but never drilled.
        pit, touched = 0.003 * step(near, 0.007, 0), near < _HOLES[k][2] + _CHAMFER
        return _HOLES[:k] + _HOLES[k + 1 :], pit, touched
    if defect == "dent":
        oval = rng.uniform(0.7, 1)
        dent = step(discs(u, v / oval, [(spot[0], spot[1] / oval, 0)]), 0.042 * scale, 0)
        return _HOLES, 0.009 * scale * dent, dent
    if defect == "scratch":
        curve = arc(spot, math.radians(rng.uniform(25, 155)), 0.24 * scale, rng.uniform(-0.6, 0.6))
        press = rng.uniform(0.75, 1, len(curve)) * np.sin(np.linspace(0.1, 3, len(curve))) ** 0.4
        slot = box(u - _SLOT[0], v - _SLOT[1], _SLOT_HALF, _SLOT_HALF[1])
        machined = np.minimum(slot, discs(u, v, [(*place, _SINK) for place in _SCREWS]))
        scratch = strokes(size, [curve], 0.0045, press) * (machined > 0.004)
        return _HOLES, 0.0022 * scratch, scratch
    blot = stain(size, spot, 0.062 * scale, rng) if defect == "stain" else np.zeros_like(u)
    return _HOLES, np.float32(0), blot


def _grain(size: int, turn: float, rng: Generator) -> Field:
    """Brush marks, long and short, turned with the plate, over slow smudges."""
    streaks = sum(clouds(rng, size * 2 // 3, columns, size, size) for columns in (8, 70))
    turned = Image.fromarray(np.asarray(streaks)).rotate(-turn, Image.Resampling.BILINEAR)
    return 0.025 * np.asarray(turned) + 0.017 * clouds(rng, 7, 7, size, size)


def _slot(tone: Field, u: Field, v: Field, lamp: Lamp, rng: Generator, size: int) -> Any:
    """Mill a blind slot: a lip, cutter marks, the shadow of the wall nearest the lamp."""
    pocket, radius = box(u, v, _SLOT_HALF, _SLOT_HALF[1]), _SLOT_HALF[1]
    down, across = np.gradient(pocket, 1 / size)
    lip = 0.58 - 0.40 * (lamp[0] * across + lamp[1] * down)
    marks = np.sin(700 * np.sqrt((u + 0.15) ** 2 + v * v) + rng.uniform(0, 6))
    shade = step(box(u + 0.016 * lamp[0], v + 0.016 * lamp[1], _SLOT_HALF, radius), -0.006, 0.006)
    rimmed = mix(tone, lip, inside(pocket - 0.004, size))
    return mix(rimmed, (0.45 + 0.02 * marks) * (1 - 0.7 * shade), inside(pocket, size))


def _screw(tone: Field, u: Field, v: Field, lamp: Lamp, rng: Generator, size: int) -> Any:
    """Set a countersunk screw with a hexagon socket into the plate."""
    r = np.sqrt(u * u + v * v)
    toward = (u * lamp[0] + v * lamp[1]) / np.maximum(r, 1e-6)
    turned = 0.42 + 0.16 * toward * toward + 0.025 * np.sin(r * 2500)
    head = turned + step(r, _HEAD - 0.006, _HEAD - 0.002) * (0.30 * toward - 0.05)
    flats = rng.uniform(0, 2) + np.arange(3) * (math.pi / 3)
    socket = np.max([np.abs(u * math.cos(k) + v * math.sin(k)) for k in flats], 0) - _SOCKET
    head = mix(head, 0.09 - 0.10 * toward * step(socket, -0.008, 0), inside(socket, size))
    sunk = mix(tone, 0.50 - 0.42 * toward, inside(r - _SINK, size))
    gap = mix(sunk, 0.07, inside(r - (_HEAD + 0.0025), size))
    return mix(gap, head, inside(r - _HEAD, size))


def _bench(u: Field, v: Field, lamp: Lamp, rng: Generator) -> Any:
    """The dark bench beneath: fine speckle, slow mottling and the plate's soft shadow."""
    speckle, mottle = rng.random(u.shape, np.float32), clouds(rng, 10, 10, *u.shape)
    shadow = box(u + 0.022 * lamp[0], v + 0.022 * lamp[1], _PLATE, _CORNER)
    return (0.14 + 0.06 * speckle + 0.01 * mottle) * (0.25 + 0.75 * step(shadow, -0.012, 0.03))


def _fabric(size: int, lamp: Lamp, defect: str | None, rng: Generator, flaw: Generator) -> Pair:
    """Paint a plain weave that fills the picture, and say where a defect touched it."""
    (x, y), phase = grid(size), rng.uniform(4, 5, 2)
    s = x * _THREADS + (_THREADS / 2 + float(phase[0])) + _waver(rng, 8, _THREADS, size)
    t = y * _THREADS + (_THREADS / 2 + float(phase[1])) + _waver(rng, _THREADS, 8, size)
    crossing = np.floor(flaw.uniform(0.2, 0.8, 2) * _THREADS + phase) + 0.5
    spot, scale = (crossing - phase) / _THREADS - 0.5, flaw.uniform(0.8, 1.2)
    upright = bool(flaw.integers(2))
    ds, dt = s - float(crossing[0]), t - float(crossing[1])
    run, off, side = (dt, ds, s) if upright else (ds, dt, t)
    gone_s = gone_t = touched = np.zeros((size, size), np.float32)
    if defect == "thread break":
        touched = np.where(np.abs(off) < 0.5, 4.2 * scale - np.abs(run), 0)
        gone_s, gone_t = (touched, gone_t) if upright else (gone_s, touched)
    elif defect == "hole":
        tear = [(0, 0, 2.8 * scale)]
        gone_s, gone_t = -discs(np.rint(ds), dt, tear), -discs(ds, np.rint(dt), tear)
        touched = np.maximum(gone_s, gone_t)
    elif defect == "pulled thread":
        touched = np.maximum(1 - (run / (6 * scale)) ** 2, 0) * step(np.abs(off), 2.3, 0)
        # Neighbours crowd towards the tight thread.
        side += 0.4 * off * touched
    warp_height, warp = _yarn(s, t, 1, lamp, gone_s, rng)
    weft_height, weft = _yarn(t, s, -1, lamp[::-1], gone_t, rng)
    upper = warp_height > weft_height
    tone = np.where(upper, warp, weft)
    tone[np.maximum(warp_height, weft_height) < -2] = 0.13
    colour = tone * np.where(upper, _WARP, _WEFT)
    if defect == "stain":
        touched = stain(size, (float(spot[0]), float(spot[1])), 0.08 * scale, flaw)
        colour *= 1 - touched * _STAIN
    elif defect == "pulled thread":
        colour, loop = _loop(colour, spot, upright, lamp, flaw)
        touched = np.maximum(touched, loop)
    elif defect is not None:
        ends = math.pi * (np.arange(12) + upright / 2)
        ends = flaw.uniform(0, 6.3, 12) if defect == "hole" else ends
        fluff = _fluff(size, spot, ends, 4 * scale / _THREADS, flaw)
        colour = mix(colour * (1 - 0.35 * np.clip(touched, 0, 1)), 0.72 * _WEFT, fluff)
        touched = np.maximum(touched, fluff)
    return colour, touched


def _waver(rng: Generator, rows: int, columns: int, size: int) -> Field:
    """How far threads stray from a perfect grid, in threads."""
    return 0.08 * clouds(rng, 5, 5, size, size) + 0.05 * clouds(rng, rows, columns, size, size)


def _yarn(s: Field, t: Field, sign: int, lamp: Lamp, gone: Field, rng: Generator) -> Pair:
    """Height and brightness of threads along t; ``gone`` is how deep in a gap a point lies."""
    width, dye = rng.standard_normal((2, _YARNS, 1), np.float32)
    slub = clouds(rng, _YARNS, 16, _YARNS, _YARNS * 4)
    fibres = rng.standard_normal((_YARNS, _YARNS * 4, 8), np.float32)
    left = np.floor(s)
    thread = left.astype(np.int32)
    place = thread * (_YARNS * 4) + (t * 4).astype(np.int32)
    q = (s - left - 0.5) / (0.45 + 0.02 * width + 0.03 * slub).take(place)
    twist = np.floor(q * 2.5 + t * 2.2).astype(np.int32) & 7
    way = np.resize(np.array((sign, -sign), np.float32), _YARNS).take(thread)
    over, slope = way * np.sin(math.pi * t), way * np.cos(math.pi * t)
    crown = np.sqrt(np.maximum(1 - q * q, 0))
    tone = 0.70 + 0.20 * lamp[0] * q - 0.14 * lamp[1] * slope
    tone += 0.035 * fibres.take(place * 8 + twist)
    tone *= (0.72 + 0.28 * crown) * (0.85 + 0.15 * over) * (1 + 0.03 * dye).take(thread)
    height = np.where(np.abs(q) > 1, np.float32(-9), 0.7 * over + 0.5 * crown)
    torn = gone > 0
    # Fibres of a broken thread end at unequal lengths.
    ragged = fibres.take(thread[torn] * (_YARNS * 32) + ((q[torn] + 1) * 4).astype(np.int32))
    height[torn] = np.where(gone[torn] > 0.6 + 0.4 * ragged, -9, height[torn])
    return height, tone


def _fluff(size: int, spot: Field, angles: Field, reach: float, rng: Generator) -> Field:
    """Loose fibres about ``reach`` away from a spot, where broken threads end."""
    curves = []
    for angle in angles:
        end = spot + rng.uniform(0.6, 0.9) * reach * np.array((np.cos(angle), np.sin(angle)))
        length, lean, bend = rng.uniform((0.015, -0.6, -2), (0.05, 0.6, 2))
        curves.append(arc(end, angle + lean, length, bend))
    return strokes(size, curves, 0.0025)


def _loop(colour: Field, spot: Field, upright: bool, lamp: Lamp, rng: Generator) -> Pair:
    """Raise a loop of the pulled thread above the cloth, with its shadow."""
    size, bow, lean = colour.shape[1], np.linspace(0, math.pi, 25), rng.uniform(-1, 1)
    wide, tall = rng.uniform(0.9, 1.4), rng.uniform(1.8, 2.8) * rng.choice((-1, 1))
    path = np.stack([lean * np.sin(bow) - wide * np.cos(bow), tall * np.sin(bow)], 1)
    path, press = path[:, :: -1 if upright else 1], np.minimum(np.sin(bow) * 2.5 + 0.1, 1)
    curve, lift = spot + path / _THREADS, 0.1 / _THREADS * np.array(lamp)
    shadow = strokes(size, [curve - 5 * lift], 0.70 / _THREADS, press)
    cover = strokes(size, [curve], 0.62 / _THREADS, press)
    core = strokes(size, [curve + 0.4 * lift], 0.42 / _THREADS)
    glint = strokes(size, [curve + 0.8 * lift], 0.20 / _THREADS)
    tone = 0.42 + 0.18 * core + 0.12 * glint
    return mix(colour * (1 - 0.6 * shadow), tone * _WEFT, cover), np.maximum(cover, shadow)
