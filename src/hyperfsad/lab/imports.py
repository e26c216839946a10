"""Scores of another system, measured with our metrics beside ours.

A folder holds `scores.csv` with the columns image and score, perhaps shots and run, and perhaps
map: the file of the image's anomaly map, .npy or a grey picture, relative to the folder.
"""

import csv
import hashlib
import io
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..disk.files import open_regular
from ..errors import UsageError, first_line, reason
from ..images.loading import opened_picture
from ..quality.metrics import image_metrics, pixel_metrics, upsampled
from ..quality.test_set import load_mask
from .datasets import Category
from .published import count_images
from .records import IMPORTED, Record, image_columns

Setting: TypeAlias = "tuple[int | None, int | None]"
"""Shots and run of a line; None where the file does not say."""

Place: TypeAlias = "tuple[int, int]"
"""The number of a category, and that of a test image in it."""


@dataclass(frozen=True)
class Line:
    """What a line of the table says of an image."""

    number: int
    score: float
    map: str = ""


@dataclass(frozen=True)
class Import:
    """A table that was understood: every category is there as a whole, or not at all."""

    name: str
    folder: Path
    categories: Sequence[Category]
    sha256: str
    settings: tuple[Setting, ...]
    """In ascending order."""
    lines: dict[tuple[Setting, Place], Line] = field(repr=False)
    ignored: int = 0
    """Lines on images that are not tested here."""

    def records(self, shots: Sequence[int], eval_size: int) -> Iterator[Record]:
        """The figures of every category that it covers, for the numbers of shots that are asked
        for. Without shots in its table, its figures stand for every number."""
        for number, category in enumerate(self.categories):
            anomalous = [image.anomalous for image in category.test]
            for setting in self.settings:
                asked = [k for k in shots if setting[0] in (None, k)]
                if not asked or (setting, (number, 0)) not in self.lines:
                    continue
                lines = [self.lines[setting, (number, i)] for i in range(len(category.test))]
                metrics = image_metrics(anomalous, np.array([line.score for line in lines]))
                if category.has_masks and any(line.map for line in lines):
                    maps = self._maps(lines, category, eval_size)
                    masks = np.stack([load_mask(image, eval_size) for image in category.test])
                    metrics |= pixel_metrics(maps, masks)
                for k in asked:
                    yield Record(
                        dataset=category.dataset,
                        category=category.name,
                        encoder=IMPORTED,
                        resolution=0,
                        method=self.name,
                        shots=k,
                        run=setting[1] or 0,
                        support=(),
                        metrics=metrics,
                        counts=count_images(category),
                        imported=True,
                        every_run=setting[1] is None,
                    )

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the score table; shots and run are empty where the import has none."""
        for (setting, (number, place)), line in sorted(
            self.lines.items(), key=lambda item: item[0][1]
        ):
            shots, run = ("" if value is None else value for value in setting)
            named = {"method": self.name, "encoder": IMPORTED, "resolution": "", "shots": shots}
            common = image_columns(self.categories[number], place)
            yield {**common, **named, "run": run, "score": line.score}

    def notes(self, shots: Sequence[int], records: Sequence[Record]) -> list[str]:
        """What a reader of its rows has to know."""
        covered, all_ = {number for _, (number, _) in self.lines}, len(self.categories)
        others = sorted({k for k, _ in self.settings if k is not None and k not in shots})
        notes = {
            "scores of another system; how it chose its support is not known here.": True,
            "it names no shots, so its figures stand for every number of them.": any(
                setting[0] is None for setting in self.settings
            ),
            f"it covers {len(covered)} of {all_} categories; data sets that it covers in part have"
            " no mean.": len(covered) < all_,
            f"its scores with {', '.join(map(str, others))} shots were not asked for.": others,
            f"{self.ignored:,} of its images are not tested here.": self.ignored,
            "no maps, so no pixel metrics.": not any("P-AUROC" in r.metrics for r in records),
        }
        return [f"{self.name} ({IMPORTED}): {note}" for note, holds in notes.items() if holds]

    def _maps(self, lines: Sequence[Line], category: Category, size: int) -> NDArray[np.float32]:
        maps = np.empty((len(lines), size, size), dtype=np.float32)
        for place, (line, image) in enumerate(zip(lines, category.test, strict=True)):
            file = self.folder / line.map
            if not line.map or not os.path.isfile(file):
                raise UsageError("import-map-missing", map=file, image=image.path)
            maps[place] = upsampled(_read_map(file), size)[0]
        return maps


def read_import(name: str, folder: Path, categories: Sequence[Category]) -> Import:
    """Reads and checks the table of a folder; maps are read when they are measured."""
    file = folder / "scores.csv"
    try:
        with open_regular(file) as opened:
            content = opened.read()
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), restval="")
        missing = [name for name in ("image", "score") if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"the column {missing[0]} is missing")
        rows = [(reader.line_num, row) for row in reader]
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError("import-unreadable", file=file, reason=reason(error)) from error
    images = _test_images(categories)
    lines: dict[tuple[Setting, Place], Line] = {}
    ignored = 0
    for number, row in rows:
        at = {"file": file, "line": number}
        setting = _whole(row, "shots", at), _whole(row, "run", at)
        score = _score(row, at)
        places = _places(row["image"], images, at)
        ignored += not places
        for place in places:
            line = Line(number, score, row.get("map") or "")
            known = lines.setdefault((setting, place), line)
            if known.number != number:
                raise UsageError("import-twice", **at, image=row["image"], first=known.number)
    if not lines:
        raise UsageError("import-no-image", file=file)
    settings = sorted({s for s, _ in lines}, key=lambda s: [-1 if v is None else v for v in s])
    for shots, run in settings:
        for number, category in enumerate(categories):
            absent = [
                image.path
                for place, image in enumerate(category.test)
                if ((shots, run), (number, place)) not in lines
            ]
            if 0 < len(absent) < len(category.test):
                facts: dict[str, Any] = {"dataset": category.dataset, "category": category.name}
                facts |= {"image": absent[0], "missing": len(absent), "shots": shots, "run": run}
                raise UsageError("import-incomplete", file=file, **facts)
    sha256 = hashlib.sha256(content).hexdigest()
    return Import(name, folder, categories, sha256, tuple(settings), lines, ignored)


def _whole(row: dict[str, str], name: str, at: dict[str, Any]) -> int | None:
    text = (row.get(name) or "").strip()
    try:
        return int(text) if text else None
    except ValueError:
        raise UsageError("import-whole-number", **at, name=name, given=text) from None


def _score(row: dict[str, str], at: dict[str, Any]) -> float:
    try:
        score = float(row["score"])
    except ValueError:
        score = np.nan
    if not np.isfinite(score):
        raise UsageError("import-score", **at, image=row["image"], given=row["score"])
    return score


_Images: TypeAlias = "dict[tuple[str, ...], list[tuple[tuple[str, ...], int, Place]]]"
"""By the file's name: the parts of its path, how many of them name it within its data set, and its
place."""


def _test_images(categories: Sequence[Category]) -> _Images:
    images: _Images = defaultdict(list)
    for number, category in enumerate(categories):
        for place, image in enumerate(category.test):
            parts = Path(os.path.abspath(image.path)).parts
            within = category.name_of(image.path).count("/") + 1
            images[parts[-1:]].append((parts, within, (number, place)))
    return images


def _places(name: str, images: _Images, at: dict[str, Any]) -> list[Place]:
    """The images that a name means: the same file, in every data set that holds it.

    The name is relative to a data set, an end of the path that no other image has, or a longer path
    that ends like one: a table may come from another machine. The longest match counts.
    """
    if not name:
        raise UsageError("import-unnamed", **at)
    # an apostrophe keeps spreadsheets from running a cell (see report.records)
    for text in (name, name.removeprefix("'")):
        parts = PurePosixPath(text.replace("\\", "/")).parts
        matches: dict[int, dict[tuple[str, ...], list[Place]]] = {}
        for file, within, place in images.get(parts[-1:], ()):
            pairs = zip(reversed(parts), reversed(file), strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            if same == len(parts) or same >= within:
                matches.setdefault(same, {}).setdefault(file, []).append(place)
        if matches:
            files = matches[max(matches)]
            if len(files) > 1:
                first, second = (str(Path(*file)) for file in sorted(files)[:2])
                raise UsageError("import-ambiguous", **at, image=name, first=first, second=second)
            return next(iter(files.values()))
    return []


def _read_map(file: Path) -> NDArray[np.float32]:
    """A map as (1, height, width)."""
    if file.suffix.lower() == ".npy":
        try:
            values = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UsageError("import-map-unreadable", map=file, reason=first_line(error)) from error
    else:
        with opened_picture(str(file), str(file)) as picture:
            if len(picture.getbands()) > 1 or picture.mode == "P":
                raise UsageError("import-map", map=file, problem=f"colours ({picture.mode})")
            values = np.asarray(picture)
    if values.dtype.kind not in "fiub":
        raise UsageError("import-map", map=file, problem=f"values of type {values.dtype}")
    while values.ndim > 2 and values.shape[0] == 1:  # a batch or a channel of one
        values = values[0]
    if values.ndim != 2 or not values.size:
        raise UsageError("import-map", map=file, problem=f"the shape {values.shape}")
    if not np.isfinite(values).all():
        raise UsageError("import-map", map=file, problem="NaN or infinity")
    return np.asarray(values, dtype=np.float32)[None]
