"""What all formats share: what a person labelled, and how regions and lists are written."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..records import Record

ReadRecords: TypeAlias = Callable[[], Iterable[Record]]
"""The records of a run; may be called more than once."""
Outline: TypeAlias = tuple[tuple[float, float], ...]
"""The corners of an area, in parts of the image's width and height."""

ANOMALY = "anomaly"
"""What a region is called whose defect has no name."""
VERDICTS = {True: "anomalous", False: "good"}


@dataclass(frozen=True)
class Labelled:
    """What a person says of an image."""

    image: str
    """As the file names it."""
    names: tuple[str, ...]
    """What it shows, the names of areas first; nothing or a word such as good: it is good."""
    outlines: tuple[Outline, ...]
    """Where; none where that is not said, or not in a way that can be drawn."""

    @classmethod
    def of(cls, image: str, names: Iterable[str], outlines: Iterable[Outline | None]) -> "Labelled":
        """One with its outlines if all of them are known."""
        found = tuple(outlines)
        known = tuple(each for each in found if each)
        return cls(image, tuple(names), known if len(known) == len(found) else ())


def printable(name: str) -> str:
    """A name without what XML cannot hold."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in name)


def name_of(record: Record) -> str:
    """What the regions of an image are called."""
    defect = record["defect"] or "unknown"
    return ANOMALY if defect == "unknown" else printable(defect)


def names_in(read: ReadRecords) -> list[str]:
    """What the regions of all images are called, the general name first."""
    return [ANOMALY, *sorted({name_of(record) for record in read()} - {ANOMALY})]


def scored(read: ReadRecords) -> Iterator[Record]:
    """The records of images that could be read."""
    return (record for record in read() if record["error"] is None)


def outline(region: Record, size: Sequence[int], unit: float = 1) -> list[list[float]]:
    """The corners of a region, where the image is `unit` wide and high."""
    width, height = size
    return [[round(x * unit / width, 6), round(y * unit / height, 6)] for x, y in region["polygon"]]


def scaled(points: Iterable[Sequence[float]], width: float, height: float) -> Outline:
    """An outline in parts of an image of this size."""
    return tuple((x / width, y / height) for x, y in points)


def box(x: float, y: float, width: float, height: float) -> Outline:
    """The corners of a box."""
    return (x, y), (x + width, y), (x + width, y + height), (x, y + height)


def json_list(values: Iterable[Any]) -> Iterator[str]:
    """A list in JSON, a row for each value as it comes."""
    yield "["
    for place, value in enumerate(values):
        yield (",\n" if place else "\n") + json.dumps(value, ensure_ascii=False)
    yield "]\n"
