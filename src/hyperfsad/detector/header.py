"""What the header of a detector file may hold: types, ranges and sizes, checked before all else.

A file may come from a stranger, so nothing in it is believed: what passes here can be computed with
and takes no more memory than twice the length of its file. Keys that are not named here are
ignored.
"""

import itertools
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from ..decisions.defects import MOST_EXAMPLES, defect_name
from ..decisions.thresholds import THRESHOLD_METHODS
from ..errors import UsageError, brief
from ..method.signature import PATCHES
from .settings import MACHINE, MAX_ROTATIONS, SETTINGS, Settings

Check: TypeAlias = Callable[[Any], bool]
"""Says whether a value is allowed; `record` raises for a field of it that is not."""

LONGEST_TEXT = 65_536
"""Characters: no path is longer, on any system."""
MAX_IMAGES = 100_000
LONGEST_SIDE = 1_000_000
"""Pixels along a side of an image."""
MAX_ENTRIES = 1000
"""Of one image."""


class HeaderError(ValueError):
    """A field of a header that cannot be: its name, and what it holds."""

    def __init__(self, field: str, given: str) -> None:
        super().__init__(f"{field}: {given}")
        self.field, self.given = field, given


def check_header(header: Mapping[str, Any]) -> None:
    """Raises HeaderError unless hyperfsad could have written this header."""
    if "products" in header:
        _SEVERAL(header)
    else:
        _ONE(header)


def number(low: float, high: float, *, whole: bool = False) -> Check:
    """A finite number from `low` to `high`."""
    kinds = int if whole else (int, float)

    def check(value: Any) -> bool:
        fits = isinstance(value, kinds) and not isinstance(value, bool)
        return fits and math.isfinite(value) and low <= value <= high

    return check


def text(pattern: str = "", *, choices: Collection[str] = ()) -> Check:
    """A text; one of the choices where there are any, or of a pattern."""

    def check(value: Any) -> bool:
        fits = isinstance(value, str) and len(value) <= LONGEST_TEXT
        known = not choices or (fits and value in choices)
        return fits and known and (not pattern or re.fullmatch(pattern, value) is not None)

    return check


def flag(value: Any) -> bool:
    """true or false."""
    return isinstance(value, bool)


def optional(check: Check) -> Check:
    """null, or what a check allows."""
    return lambda value: value is None or check(value)


def listed(check: Check, least: int, most: int, *, rising: bool = False) -> Check:
    """A list of `least` to `most` values, perhaps in rising order."""

    def check_list(value: Any) -> bool:
        fits = isinstance(value, list) and least <= len(value) <= most
        if not fits or not all(map(check, value)):
            return False
        return not rising or all(one < other for one, other in itertools.pairwise(value))

    return check_list


def record(fields: Mapping[str, Check]) -> Check:
    """An object with these fields; the first one that is missing or wrong is raised."""

    def check_record(value: Any) -> bool:
        if not isinstance(value, Mapping):
            return False
        for name, check in fields.items():
            if name not in value or not check(value[name]):
                raise HeaderError(name, brief(value[name]) if name in value else "nothing")
        return True

    return check_record


def _settings(value: Any) -> bool:
    """Every choice but those of the machine; no folder that it may name is looked at."""
    names = {name for name, setting in SETTINGS.items() if setting.group != MACHINE}
    if not isinstance(value, dict) or set(value) != names or not value["layers"]:
        return False
    try:
        Settings(**value, engine="torch")
    except UsageError as error:
        name = error.facts.get("name", "settings")
        raise HeaderError(name, brief(value.get(name))) from error
    return None not in (value["backbone"], value["recipe"])


def _region(value: Any) -> bool:
    """The part itself, or a mask."""
    return value == "auto" or record({"aspect": number(1e-4, 1e4), "share": number(0, 1)})(value)


def _defect(value: Any) -> bool:
    """A name that `teach` would take, as it would write it."""
    try:
        return bool(defect_name(value) == value)
    except UsageError:
        return False


def _checksums(value: Any) -> bool:
    whole = number(0, 0xFFFFFFFF, whole=True)
    return isinstance(value, dict) and all(map(whole, value.values()))


_SCORE, _LEVEL = number(-1e6, 1e6), number(1e-12, 1e6)
_SIZE = listed(number(1, LONGEST_SIDE, whole=True), 2, 2)
_ENCODER = record(
    {
        "name": text(),
        "layers": listed(number(1, 1000, whole=True), 1, 1000, rising=True),
        "resolution": number(1, 65_536, whole=True),
        "patch": number(1, 65_536, whole=True),
        "mean": listed(number(-1e3, 1e3), 3, 3),
        "std": listed(number(1e-6, 1e3), 3, 3),
        "final_norm": flag,
        "last_norm": flag,
        "fingerprint": text(),
    }
)
_IMAGE = record(
    {
        "name": text(),
        "sha256": text(r"[0-9a-f]{64}"),
        "size": optional(_SIZE),
        "entries": number(1, MAX_ENTRIES, whole=True),
    }
)
_EXAMPLE = record(
    {
        "defect": _defect,
        "image": text(),
        "sha256": text(r"[0-9a-f]{64}"),
        "patches": number(1, PATCHES, whole=True),
    }
)
_CALIBRATION = record(
    {
        "method": text(choices=THRESHOLD_METHODS),
        "threshold": _LEVEL,
        "map_threshold": _LEVEL,
        "rate": number(1e-12, 1 - 1e-12),
        "images": number(1, 1e9, whole=True),
        "scores": lambda value: listed(_SCORE, 0, 1_000_000)(value) and value == sorted(value),
        "stale": flag,
        "odd": number(0, 1e9, whole=True),
        "alike": flag,
    }
)
_TILES = record(
    {"side": number(1, LONGEST_SIDE, whole=True), "sizes": listed(_SIZE, 1, MAX_IMAGES)}
)
_FIELDS: dict[str, Check] = {
    "settings": _settings,
    "encoder": _ENCODER,
    "rotations": number(1, MAX_ROTATIONS, whole=True),
    "tentative": flag,
    "roi": optional(_region),
    "tiles": optional(_TILES),
    "compact": optional(record({"kept": number(1, 1e12, whole=True), "radius": number(0, 2.01)})),
    "threshold": optional(_SCORE),
    "map_threshold": optional(_SCORE),
    "foreign": optional(_SCORE),
    "calibration": optional(_CALIBRATION),
    "normal_images": listed(_IMAGE, 1, MAX_IMAGES),
    "unlabelled_images": listed(_IMAGE, 0, MAX_IMAGES),
    "defects": listed(_EXAMPLE, 0, MOST_EXAMPLES),
    "crc32": _checksums,
}
_ONE = record(_FIELDS)
_SEVERAL = record(
    {"products": listed(record({"name": text(), "least_similarity": _SCORE, **_FIELDS}), 1, 10_000)}
)
