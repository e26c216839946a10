"""Is the camera set up well: light, focus, and whether it has moved since.

Advice is right or silent. The limits were set on 15 products of real parts (1,124 good pictures):
no good part crosses any of them, and the nearest is named beside each.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..messages import Notice
from .sources.frames import Pixels

Grey = NDArray[np.float32]

DARK = 60
"""Too dark: 99 % of the pixels are darker than this, out of 255. Darkest of the good parts: 126."""
BURNT, BRIGHTEST, LIFTED = 0.3, 250, 100
"""Too bright: of the pixels, this share reaches 250, and 1 % at most is darker than 100. A part
before a lamp has burnt pixels too (36 % for bottles), but dark ones beside them (32)."""
BLURRED = 0.36
"""Blurred: detail at 256 pixels across over that at 128. Softest of the good parts: 0.44; a blur of
3 in 512 pixels leaves 0.28 to 0.36."""
STEADY, IN_A_ROW = 0.02, 5
"""The good parts must lie within this share of the picture for a camera to be called moved, and so
many parts in a row must have moved alike."""
MOVED = 0.03
GOOD_PARTS = 3, 8
"""The fewest and the most that say where the parts lie."""
SIDE = 128
STABLE = 3
"""Shots in a row that agree before anything is said of light or focus."""


@dataclass(frozen=True)
class Finding:
    """What is wrong with the set-up, and a picture that shows it."""

    notice: Notice
    pixels: Pixels


class SetupChecks:
    """Looks at each shot; says each thing once, and takes it back when it is over."""

    def __init__(self, good: Iterable[Pixels] = ()) -> None:
        """`good` are pictures of good parts from the place of the camera."""
        self.findings: dict[str, Finding] = {}
        """What is wrong now, by its code."""
        self._good = [_squared(one) for one in good][: GOOD_PARTS[1]]
        self._place: Grey | None = None
        self._fixed = False
        self._shifts: deque[tuple[float, float]] = deque(maxlen=IN_A_ROW)
        self._rows: dict[str, int] = {}
        self._settle()

    def learn(self, pixels: Pixels) -> None:
        """Takes a part that was judged good as one that shows where parts lie."""
        if len(self._good) < GOOD_PARTS[1]:
            self._good.append(_squared(pixels))
            self._settle()

    def look(self, pixels: Pixels) -> list[Finding]:
        """What is newly wrong."""
        grey = Image.fromarray(pixels).convert("L")
        dark, bright = is_dark(grey), is_bright(grey)
        blurred = not dark and not bright and is_blurred(grey)
        found = [
            self._counted(Notice("camera-dark"), dark),
            self._counted(Notice("camera-bright"), bright),
            self._counted(Notice("camera-blurred"), blurred),
        ]
        moved = self._moved(pixels) or {"right": 0.0, "down": 0.0}
        found.append(self._turned(Notice("camera-moved", **moved), any(moved.values())))
        new = [Finding(notice, pixels) for notice in found if notice is not None]
        self.findings = {**self.findings, **{one.notice.code: one for one in new}}
        return new

    def _counted(self, notice: Notice, is_so: bool) -> Notice | None:
        """The notice, if it has become so for some shots in a row."""
        row = self._rows.get(notice.code, 0)
        self._rows[notice.code] = row = max(row, 0) + 1 if is_so else min(row, 0) - 1
        return self._turned(notice, is_so) if abs(row) >= STABLE else None

    def _turned(self, notice: Notice, is_so: bool) -> Notice | None:
        """The notice, if it was not so before; takes it back where it is so no longer."""
        before = notice.code in self.findings
        if before and not is_so:  # others read it meanwhile
            rest = {code: one for code, one in self.findings.items() if code != notice.code}
            self.findings = rest
        return notice if is_so and not before else None

    def _settle(self) -> None:
        """Learns where parts lie, and whether they always lie there."""
        count = len(self._good)
        if count < GOOD_PARTS[0]:
            return
        total = np.sum(self._good, axis=0)
        apart = [shift((total - one) / (count - 1), one) for one in self._good]
        self._place = total / count
        self._fixed = all(np.hypot(*one) <= STEADY for one in apart)

    def _moved(self, pixels: Pixels) -> dict[str, Any] | None:
        """How far the latest parts have moved together; None if they have not."""
        if self._place is None or not self._fixed:
            return None
        self._shifts.append(shift(self._place, _squared(pixels)))
        shifts = np.array(self._shifts)
        middle = np.median(shifts, axis=0)
        alike = np.abs(shifts - middle).max() <= STEADY / 2
        if len(shifts) < IN_A_ROW or not alike or np.hypot(*middle) < MOVED:
            return None
        return {"right": float(middle[0]), "down": float(middle[1])}


def is_dark(grey: Image.Image) -> bool:
    """Whether even the brightest places are dark."""
    return bool(_share_from(grey, DARK) < 0.01)


def is_bright(grey: Image.Image) -> bool:
    """Whether much is burnt out and nothing is dark."""
    return bool(_share_from(grey, BRIGHTEST) >= BURNT and _share_from(grey, LIFTED) >= 0.99)


def is_blurred(grey: Image.Image) -> bool:
    """Whether the detail is gone that a detector sees. Where nothing is to be seen, noise has more
    of it than any picture, and nothing is said."""
    fine, coarse = (_detail(_reduced(grey, side)) for side in (2 * SIDE, SIDE))
    return bool(coarse > 0 and fine / coarse < BLURRED)


def _share_from(grey: Image.Image, level: int) -> float:
    """The share of the pixels that are as bright as a level or brighter."""
    counts = grey.histogram()
    return sum(counts[level:]) / sum(counts)


def shift(place: Grey, grey: Grey) -> tuple[float, float]:
    """How far a picture lies to the right and down of a place, as shares of its sides: the peak of
    their phase correlation, with the finest detail left out."""
    window = np.hanning(SIDE)[:, None] * np.hanning(SIDE)
    one, other = (np.fft.fft2((each - each.mean()) * window) for each in (grey, place))
    cross = one * other.conj()
    waves = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.fftfreq(SIDE))
    soft = np.exp(-0.5 * (waves / 0.12) ** 2)
    peaks = np.fft.ifft2(cross / (np.abs(cross) + 1e-9) * soft).real
    y, x = np.unravel_index(peaks.argmax(), peaks.shape)
    right, down = ((int(at) + SIDE // 2) % SIDE - SIDE // 2 for at in (x, y))
    return right / SIDE, down / SIDE


def _reduced(picture: Image.Image, side: int) -> Grey:
    scale = side / max(picture.size)
    size = max(3, round(picture.width * scale)), max(3, round(picture.height * scale))
    return np.asarray(picture.resize(size, Image.Resampling.BOX), np.float32)


def _squared(pixels: Pixels) -> Grey:
    picture = Image.fromarray(pixels).convert("L")
    return np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BOX), np.float32)


def _detail(grey: Grey) -> float:
    """How much neighbouring pixels differ: the root mean square of the Laplacian."""
    inner = 4 * grey[1:-1, 1:-1]
    around = grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:]
    return float(np.sqrt(np.mean((inner - around) ** 2)))
