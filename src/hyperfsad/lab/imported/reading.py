"""Scores of another system, measured with our metrics beside ours.

A folder holds `scores.csv` with the columns image and score, perhaps shots and run, and perhaps a
map of each image: `map` names its file, or it lies where the image lies below the data set, with
the suffix .npy or .png.
"""

import csv
import hashlib
import io
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from ...disk.files import open_regular
from ...errors import UsageError, reason
from ..datasets import Category

Parts: TypeAlias = tuple[str, ...]

Setting: TypeAlias = "tuple[int | None, int | None]"
"""Shots and run of a line; None where the file does not say."""

Place: TypeAlias = "tuple[int, int]"
"""The number of a category, and that of a test image in it."""

_EXPECTED = "expected a table with the columns image and score"


@dataclass(frozen=True)
class Line:
    """What a line of the table says of an image."""

    number: int
    score: float
    map: str | None = None


@dataclass(frozen=True)
class Import:
    """A table whose lines are all understood: every category is there as a whole, or not at all."""

    name: str
    folder: Path
    sha256: str
    settings: tuple[Setting, ...]
    """In ascending order."""
    lines: dict[tuple[Setting, Place], Line] = field(repr=False)
    passed_over: int = 0
    """Lines on images that are no test images here."""

    def covers(self, setting: Setting, number: int) -> bool:
        """Whether a category was scored with these shots and this run."""
        return (setting, (number, 0)) in self.lines


def read_import(name: str, folder: Path, categories: Sequence[Category]) -> Import:
    """Reads and checks the table of a folder; maps are read when they are measured."""
    file = folder / "scores.csv"
    try:
        with open_regular(file) as opened:
            content = opened.read()
        rows = list(_rows(content.decode("utf-8-sig")))
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(f"{file} cannot be read ({reason(error)}); {_EXPECTED}.") from error
    index = _Index(categories)
    lines: dict[tuple[Setting, Place], Line] = {}
    passed_over = 0
    for number, row in rows:
        at = f"{file}, line {number}"
        setting = _whole(row, "shots", at), _whole(row, "run", at)
        places = index.places(row["image"], at)
        passed_over += not places
        score = _score(row, at) if places else 0.0
        for place in places:
            known = lines.setdefault((setting, place), Line(number, score, row.get("map") or None))
            if known.number != number:
                raise UsageError(
                    f"{at}: {row['image']} was scored in line {known.number} already; keep one."
                )
    if not lines:
        raise UsageError(f"{file} names no test image of the data sets that are measured here.")
    settings = sorted({setting for setting, _ in lines}, key=_order)
    found = Import(
        name, folder, hashlib.sha256(content).hexdigest(), tuple(settings), lines, passed_over
    )
    _check_complete(found, categories, file)
    return found


def _rows(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), restval="")
    missing = [name for name in ("image", "score") if name not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(f"it has no column {missing[0]}")
    for row in reader:
        yield reader.line_num, row


def _whole(row: dict[str, str], name: str, at: str) -> int | None:
    text = (row.get(name) or "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{at}: {name} is {text!r}; it is a whole number.") from None


def _score(row: dict[str, str], at: str) -> float:
    try:
        score = float(row["score"])
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise UsageError(
            f"{at}: the score of {row['image']} is {row['score']!r}; it is a finite number."
        )
    return score


def _check_complete(found: Import, categories: Sequence[Category], file: Path) -> None:
    for setting in found.settings:
        for number, category in enumerate(categories):
            missing = [
                image.path
                for place, image in enumerate(category.test)
                if (setting, (number, place)) not in found.lines
            ]
            if 0 < len(missing) < len(category.test):
                more = f" and {len(missing) - 1:,} more images" if len(missing) > 1 else ""
                shots, run = setting
                where = "" if shots is None else f", {shots} shots"
                where += "" if run is None else f", run {run}"
                raise UsageError(
                    f"{file} has no score for {missing[0]}{more} of {category.dataset}/"
                    f"{category.name}{where}; score all of its test images, or none."
                )


def _order(setting: Setting) -> tuple[int, int]:
    shots, run = (-1 if value is None else value for value in setting)
    return shots, run


class _Index:
    """Test images by what a table may call them."""

    def __init__(self, categories: Sequence[Category]) -> None:
        self._images: dict[str, list[tuple[Parts, int, Place]]] = {}
        for number, category in enumerate(categories):
            for place, image in enumerate(category.test):
                whole = Path(os.path.abspath(image.path)).parts
                below = len(_parts(category.name_of(image.path)))
                self._images.setdefault(whole[-1], []).append((whole, below, (number, place)))

    def places(self, name: str, at: str) -> list[Place]:
        """The images that a name means: the same file, in every data set that holds it.

        The name is relative to a data set, an end of the path that no other image has, or a longer
        path that ends like one: a table may come from another machine.
        """
        if not name:
            raise UsageError(f"{at}: no image is named.")
        # an apostrophe keeps spreadsheets from running a cell (output/exports)
        found = self._alike(_parts(name)) or self._alike(_parts(name.removeprefix("'")))
        files = sorted({whole for whole, _ in found})
        if len(files) > 1:
            paths = [os.path.join(*parts) for parts in files[:2]]
            raise UsageError(
                f"{at}: {name} may mean {paths[0]} or {paths[1]}; write more of the path."
            )
        return [place for _, place in found]

    def _alike(self, parts: Parts) -> list[tuple[Parts, Place]]:
        """The images whose paths share the longest end with a name, and no less than either has."""
        shared: dict[int, list[tuple[Parts, Place]]] = {}
        for whole, below, place in self._images.get(parts[-1] if parts else "", ()):
            pairs = zip(reversed(whole), reversed(parts), strict=False)
            length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            if length >= min(len(parts), below):
                shared.setdefault(length, []).append((whole, place))
        return shared[max(shared)] if shared else []


def _parts(name: str) -> Parts:
    return PurePosixPath(name.replace("\\", "/")).parts
