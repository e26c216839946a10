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
    map: str | None = None


@dataclass(frozen=True)
class Import:
    """A table that was understood: every category is there as a whole, or not at all."""

    name: str
    folder: Path
    sha256: str
    settings: tuple[Setting, ...]
    """In ascending order."""
    lines: dict[tuple[Setting, Place], Line] = field(repr=False)
    ignored: int = 0
    """Lines on images that are not tested here."""


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
    names = _image_names(categories)
    lines: dict[tuple[Setting, Place], Line] = {}
    ignored = 0
    for number, row in rows:
        at = {"file": file, "line": number}
        setting = _whole(row, "shots", at), _whole(row, "run", at)
        places = _places(row["image"], names, at)
        ignored += not places
        for place in places:
            line = Line(number, _score(row, at), row.get("map") or None)
            known = lines.setdefault((setting, place), line)
            if known.number != number:
                raise UsageError("import-twice", **at, image=row["image"], first=known.number)
    if not lines:
        raise UsageError("import-no-image", file=file)
    settings = sorted(
        {setting for setting, _ in lines}, key=lambda s: [-1 if v is None else v for v in s]
    )
    sha256 = hashlib.sha256(content).hexdigest()
    found = Import(name, folder, sha256, tuple(settings), lines, ignored)
    _check_complete(found, categories, file)
    return found


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
        score = math.nan
    if not math.isfinite(score):
        raise UsageError("import-score", **at, image=row["image"], given=row["score"])
    return score


def _check_complete(found: Import, categories: Sequence[Category], file: Path) -> None:
    for shots, run in found.settings:
        for number, category in enumerate(categories):
            missing = [
                image.path
                for place, image in enumerate(category.test)
                if ((shots, run), (number, place)) not in found.lines
            ]
            if 0 < len(missing) < len(category.test):
                facts: dict[str, Any] = {"dataset": category.dataset, "category": category.name}
                facts |= {"image": missing[0], "missing": len(missing)}
                raise UsageError("import-incomplete", file=file, shots=shots, run=run, **facts)


_Names: TypeAlias = "dict[tuple[bool, tuple[str, ...]], dict[str, list[Place]]]"
"""Ends of paths, and the files (with their places) that they may mean; whether the end names the
image within its data set, so that more may stand before it."""


def _image_names(categories: Sequence[Category]) -> _Names:
    """Every test image by each end of its path."""
    names: _Names = {}
    for number, category in enumerate(categories):
        for place, image in enumerate(category.test):
            path = os.path.abspath(image.path)
            parts, below = Path(path).parts, category.name_of(image.path).count("/")
            for start in range(len(parts)):
                for whole in {False, len(parts) - start > below}:
                    files = names.setdefault((whole, parts[start:]), {})
                    files.setdefault(path, []).append((number, place))
    return names


def _places(name: str, names: _Names, at: dict[str, Any]) -> list[Place]:
    """The images that a name means: the same file, in every data set that holds it.

    The name is relative to a data set, an end of the path that no other image has, or a longer path
    that ends like one: a table may come from another machine.
    """
    if not name:
        raise UsageError("import-unnamed", **at)
    # an apostrophe keeps spreadsheets from running a cell (see report.records)
    for text in (name, name.removeprefix("'")):
        parts = PurePosixPath(text.replace("\\", "/")).parts
        for start in range(len(parts)):
            files = names.get((start > 0, parts[start:]), {})
            if len(files) > 1:
                first, second = sorted(files)[:2]
                raise UsageError("import-ambiguous", **at, image=name, first=first, second=second)
            if files:
                return next(iter(files.values()))
    return []


def import_records(
    found: Import,
    categories: Sequence[Category],
    *,
    shots: Sequence[int],
    eval_size: int,
    provenance: str,
) -> Iterator[Record]:
    """The figures of every category that it covers, for the numbers of shots that are asked for.

    Without shots in its table, its figures stand for every number.
    """
    for number, category in enumerate(categories):
        anomalous = [image.anomalous for image in category.test]
        for setting in found.settings:
            asked = shots if setting[0] is None else [k for k in shots if k == setting[0]]
            if not asked or (setting, (number, 0)) not in found.lines:
                continue
            lines = [found.lines[setting, (number, place)] for place in range(len(category.test))]
            metrics = image_metrics(anomalous, np.array([line.score for line in lines]))
            files = _map_files(found, lines, category) if category.has_masks else []
            if files:
                maps = np.empty((len(files), eval_size, eval_size), dtype=np.float32)
                for place, file in enumerate(files):
                    maps[place] = upsampled(_read_map(file), eval_size)[0]
                masks = np.stack([load_mask(image, eval_size) for image in category.test])
                metrics |= pixel_metrics(maps, masks)
            for k in asked:
                yield Record(
                    category.dataset,
                    category.name,
                    IMPORTED,
                    0,
                    found.name,
                    k,
                    setting[1] or 0,
                    (),
                    metrics,
                    count_images(category),
                    provenance,
                    imported=True,
                    every_run=setting[1] is None,
                )


def import_rows(found: Import, categories: Sequence[Category]) -> Iterator[dict[str, Any]]:
    """The rows of the score table; shots and run are empty where the import has none."""
    for (setting, (number, place)), line in sorted(
        found.lines.items(), key=lambda item: item[0][1]
    ):
        shots, run = ("" if value is None else value for value in setting)
        named = {"method": found.name, "encoder": IMPORTED, "resolution": "", "shots": shots}
        common = image_columns(categories[number], place)
        yield {**common, **named, "run": run, "score": line.score}


def import_notes(
    found: Import,
    categories: Sequence[Category],
    shots: Sequence[int],
    records: Sequence[Record],
) -> list[str]:
    """What a reader of its rows has to know."""
    covered = {number for _, (number, _) in found.lines}
    others = sorted({k for k, _ in found.settings if k is not None and k not in shots})
    listed = ", ".join(map(str, others))
    notes = {
        "scores of another system; how it chose its support is not known here.": True,
        "it names no shots, so its figures stand for every number of them.": any(
            setting[0] is None for setting in found.settings
        ),
        f"it covers {len(covered)} of {len(categories)} categories; data sets that it covers in"
        " part have no mean.": len(covered) < len(categories),
        f"its scores with {listed} shots were not asked for.": bool(others),
        f"{found.ignored:,} of its images are not tested here.": found.ignored > 0,
        "no maps, so no pixel metrics.": not any("P-AUROC" in r.metrics for r in records),
    }
    return [f"{found.name} ({IMPORTED}): {note}" for note, holds in notes.items() if holds]


def _map_files(found: Import, lines: Sequence[Line], category: Category) -> list[Path]:
    """The file of each image's map; empty where the category has no maps."""
    files: list[Path | None] = []
    for line, image in zip(lines, category.test, strict=True):
        if line.map:
            candidates = [found.folder / line.map]
        else:  # without a name, the maps of several settings would be the same files
            candidates = (
                _usual_maps(found, category, image.path) if len(found.settings) == 1 else []
            )
        there = [file for file in candidates if os.path.isfile(file)]
        if line.map and not there:
            raise UsageError("import-map-missing", map=candidates[0], image=image.path)
        files.append(there[0] if there else None)
    known = [file for file in files if file is not None]
    if known and len(known) < len(files):
        facts = {"image": category.test[files.index(None)].path, "map": known[0]}
        raise UsageError("import-maps-incomplete", folder=found.folder, **facts)
    return known


def _usual_maps(found: Import, category: Category, path: str) -> list[Path]:
    """Where a map lies: as the image lies below its data set, the data set's name before it or not
    (two data sets may have the same names of images)."""
    below = Path(category.name_of(path))
    if below.is_absolute() or ".." in below.parts:
        return []
    homes = (found.folder / category.dataset, found.folder)
    return [home / below.with_suffix(suffix) for home in homes for suffix in (".npy", ".png")]


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
    numbers = np.asarray(values, dtype=np.float32)
    if not np.isfinite(numbers).all():
        raise UsageError("import-map", map=file, problem="NaN or infinity")
    return numbers[None]
