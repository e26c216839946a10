"""What the header of a detector file may hold: types, ranges and sizes, checked before all else.

A file may come from a stranger, so nothing in it is believed: what passes here can be computed with
and takes no more memory than its file is long. Keys that are not named here are passed over, since
a later version may write them; a key of an earlier version is missing, never different.
"""

import itertools
import math
import re
import reprlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from ..decisions.thresholds import METHODS
from ..method.lookups import LOOKUPS
from .orientation import MOST_ROTATIONS
from .recipes import RECIPES

Check: TypeAlias = Callable[[Any, str], None]
"""Takes a value and where it stands; raises ValueError with one phrase where it does not fit."""

LONGEST_TEXT = 65_536
"""Characters: no path is longer, on any system."""
MOST_IMAGES = 100_000
LONGEST_SIDE = 1_000_000
"""Pixels along a side of an image."""
MOST_ORIENTATIONS = 1000
"""Of one image."""


def check_header(header: Mapping[str, Any]) -> None:
    """Raises ValueError where a header is none that hyperfsad writes."""
    (_SEVERAL if "products" in header else _SINGLE)(header, "its header")


def _refuse(value: Any, where: str, expected: str) -> None:
    raise ValueError(f"{where} is {reprlib.repr(value)}, expected {expected}")


def number(low: float, high: float, *, whole: bool = False) -> Check:
    """A number from `low` to `high`; what is not finite is none."""
    kinds = int if whole else (int, float)
    expected = f"a {'whole ' if whole else ''}number from {low:g} to {high:g}"

    def check(value: Any, where: str) -> None:
        fits = isinstance(value, kinds) and not isinstance(value, bool)
        if not fits or not math.isfinite(value) or not low <= value <= high:
            _refuse(value, where, expected)

    return check


def text(pattern: str = "", *, choices: Collection[str] = ()) -> Check:
    """A text; one of the choices where there are any, or of a pattern."""
    expected = f"one of {', '.join(choices)}" if choices else "a text"
    form = re.compile(pattern) if pattern else None

    def check(value: Any, where: str) -> None:
        fits = isinstance(value, str) and len(value) <= LONGEST_TEXT
        if not fits or (choices and value not in choices):
            _refuse(value, where, expected)
        if form is not None and not form.fullmatch(value):
            _refuse(value, where, f"a text such as {pattern}")

    return check


def yes_or_no(value: Any, where: str) -> None:
    """true or false."""
    if not isinstance(value, bool):
        _refuse(value, where, "true or false")


def nothing_or(check: Check) -> Check:
    """null, or what a check allows."""

    def optional(value: Any, where: str) -> None:
        if value is not None:
            check(value, where)

    return optional


def listed(check: Check, least: int, most: int, *, rising: bool = False) -> Check:
    """A list of so many things, perhaps in rising order."""
    size = f"{least}" if least == most else f"{least} to {most}"

    def check_list(value: Any, where: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            _refuse(value, where, f"a list of {size}")
        for place, item in enumerate(value):
            check(item, f"{where}[{place}]")
        if rising and any(one >= other for one, other in itertools.pairwise(value)):
            _refuse(value, where, "numbers in rising order")

    return check_list


def mapping(check: Check) -> Check:
    """Anything by name."""

    def check_mapping(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            _refuse(value, where, "an object")
        for name, item in value.items():
            check(item, f"{where}.{reprlib.repr(name)}")

    return check_mapping


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object with these keys, and perhaps those."""

    def check_record(value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            _refuse(value, where, "an object")
        for name, check in required.items():
            if name not in value:
                raise ValueError(f"{where} has no {name}")
            check(value[name], name)
        for name, check in (optional or {}).items():
            if name in value:
                check(value[name], name)

    return check_record


def _region(value: Any, where: str) -> None:
    """The part itself, or a mask."""
    if value != "auto":
        record({"aspect": number(1e-4, 1e4), "share": number(0, 1)})(value, where)


def _limits(value: Any, where: str) -> None:
    """Strengths below which an image is clearly good, and above which clearly bad."""
    listed(number(0, 1e6), 2, 2)(value, where)
    if not value[0] <= 1 <= value[1]:
        _refuse(value, where, "a number up to 1 and one from 1")


def _colours(value: Any, where: str) -> None:
    """Where a colour scale begins and ends."""
    listed(_LEVEL, 2, 2, rising=True)(value, where)


_LEVEL = number(-1e6, 1e6)
"""A score, or a limit of scores."""
_SHA256 = text(r"[0-9a-f]{64}")
_SIZE = listed(number(1, LONGEST_SIDE, whole=True), 2, 2)

_ENCODER = record(
    {
        "name": text(),
        "layers": listed(number(1, 1000, whole=True), 1, 1000, rising=True),
        "resolution": number(1, 65_536, whole=True),
        "patch": number(1, 65_536, whole=True),
        "mean": listed(number(-1e3, 1e3), 3, 3),
        "std": listed(number(1e-6, 1e3), 3, 3),
        "final_norm": yes_or_no,
        "fingerprint": text(),
    },
    {"last_norm": yes_or_no},
)

_IMAGE = record(
    {"name": text(), "sha256": _SHA256},
    {"size": nothing_or(_SIZE), "views": number(1, MOST_ORIENTATIONS, whole=True)},
)

_CALIBRATION = record(
    {
        "method": text(choices=METHODS),
        "threshold": _LEVEL,
        "map_threshold": _LEVEL,
        "rate": number(1e-12, 1 - 1e-12),
        "images": number(1, 1e9, whole=True),
        "scores": listed(_LEVEL, 0, 1_000_000),
        "stale": yes_or_no,
        "odd": number(0, 1e9, whole=True),
        "alike": yes_or_no,
    },
)

_FIELDS: dict[str, Check] = {
    "encoder": _ENCODER,
    "lookup": text(choices=tuple(LOOKUPS)),
    "pooling": text(r"max|top-[0-9]{1,9}(\.[0-9]{1,9})?%?"),
    "lambda": number(0, 1),
    "scale": _colours,
    "threshold": nothing_or(_LEVEL),
    "normal_images": listed(_IMAGE, 1, MOST_IMAGES),
    "crc32": mapping(number(0, 0xFFFFFFFF, whole=True)),
}
_LATER: dict[str, Check] = {
    "recipe": nothing_or(text(choices=tuple(RECIPES))),
    "sharpness": number(1e-6, 1000),
    "smooth": yes_or_no,
    "missing": number(0, 10),
    "rotations": number(1, MOST_ROTATIONS, whole=True),
    "tentative": yes_or_no,
    "roi": nothing_or(_region),
    "tiles": nothing_or(
        record(
            {
                "side": number(1, LONGEST_SIDE, whole=True),
                "sizes": listed(_SIZE, 1, MOST_IMAGES),
            }
        )
    ),
    "compact": nothing_or(record({"kept": number(1, 1e12, whole=True), "radius": number(0, 2.01)})),
    "map_threshold": nothing_or(_LEVEL),
    "foreign": nothing_or(_LEVEL),
    "calibration": nothing_or(_CALIBRATION),
}
_FORMAT = number(1, 1e6, whole=True)
_FAST = record({**_FIELDS, "limits": _limits}, _LATER)
_SINGLE = record({"format": _FORMAT, **_FIELDS}, {**_LATER, "fast": _FAST})
_PRODUCT = record({"name": text(), "least_similarity": _LEVEL, **_FIELDS}, _LATER)
_SEVERAL = record({"format": _FORMAT, "products": listed(_PRODUCT, 1, 10_000)})
