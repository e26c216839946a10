"""The records of an imported system: its scores and maps under our metrics."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...errors import UsageError, first_line
from ...images.loading import opened_picture
from ...quality.metrics import image_metrics, pixel_metrics, upsampled
from ...quality.test_set import load_mask
from ..datasets import Category
from ..protocol import Record
from ..score_table import image_columns
from ..sizes import count
from .reading import Import, Setting

ENCODER = "imported"
"""What stands where our own records name their encoder."""

SUFFIXES = (".npy", ".png")


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
            if not asked or not found.covers(setting, number):
                continue
            metrics = image_metrics(anomalous, _scores(found, setting, number, category))
            files = _maps(found, setting, number, category) if category.has_masks else []
            if files:
                maps = np.empty((len(files), eval_size, eval_size), dtype=np.float32)
                for place, file in enumerate(files):
                    maps[place] = upsampled(_read(file), eval_size)[0]
                masks = np.stack([load_mask(image, eval_size) for image in category.test])
                metrics |= pixel_metrics(maps, masks)
            for k in asked:
                yield Record(
                    category.dataset,
                    category.name,
                    ENCODER,
                    0,
                    found.name,
                    k,
                    setting[1] or 0,
                    (),
                    metrics,
                    count(category),
                    provenance,
                    imported=True,
                    every_run=setting[1] is None,
                )


def import_rows(found: Import, categories: Sequence[Category]) -> Iterator[dict[str, Any]]:
    """The rows of the table of scores; shots and run are empty where the import has none."""
    for number, category in enumerate(categories):
        for place in range(len(category.test)):
            common = image_columns(category, place)
            common |= {"method": found.name, "encoder": ENCODER, "resolution": ""}
            for setting in found.settings:
                line = found.lines.get((setting, (number, place)))
                if line:
                    named = zip(("shots", "run"), setting, strict=True)
                    cells = {name: "" if value is None else value for name, value in named}
                    yield {**common, **cells, "score": line.score}


def import_notes(
    found: Import,
    categories: Sequence[Category],
    shots: Sequence[int],
    records: Sequence[Record],
) -> list[str]:
    """What a reader of its rows has to know."""
    label = f"{found.name} ({ENCODER})"
    notes = [f"{label}: scores of another system; how it chose its support is not known here."]
    if any(setting[0] is None for setting in found.settings):
        notes.append(f"{label} names no shots: its figures stand for every number of them.")
    covered = {number for _, (number, _) in found.lines}
    if len(covered) < len(categories):
        notes.append(
            f"{label} covers {len(covered)} of {len(categories)} categories; data sets that it"
            " covers in part have no mean."
        )
    others = sorted({k for k, _ in found.settings if k is not None and k not in shots})
    if others:
        listed = ", ".join(map(str, others))
        notes.append(f"{label}: its scores with {listed} shots were not asked for.")
    if found.passed_over:
        few = found.passed_over == 1
        what = "1 line names an image" if few else f"{found.passed_over:,} lines name images"
        notes.append(f"{label}: {what} that {'is' if few else 'are'} not tested here.")
    if not any("P-AUROC" in record.metrics for record in records if record.method == found.name):
        notes.append(f"{label}: no maps, so no pixel metrics.")
    return notes


def _scores(
    found: Import, setting: Setting, number: int, category: Category
) -> NDArray[np.float64]:
    lines = (found.lines[setting, (number, place)] for place in range(len(category.test)))
    return np.array([line.score for line in lines])


def _maps(found: Import, setting: Setting, number: int, category: Category) -> list[Path]:
    """The file of each image's map; none where there is no map at all."""
    files: list[Path | None] = []
    for place, image in enumerate(category.test):
        named = found.lines[setting, (number, place)].map
        # Without a name, the maps of several settings would be the same files.
        usual = _usual(found, category, image.path) if len(found.settings) == 1 else []
        candidates = [found.folder / named] if named else usual
        there = [file for file in candidates if os.path.isfile(file)]
        if named and not there:
            raise UsageError(
                f"{found.folder / 'scores.csv'} names the map {candidates[0]} of {image.path},"
                " which does not exist."
            )
        files.append(there[0] if there else None)
    known = [file for file in files if file is not None]
    if known and len(known) < len(files):
        path = category.test[files.index(None)].path
        raise UsageError(
            f"{found.folder} has no map for {path}, though {known[0]} is there; give all images"
            f" of {category.dataset}/{category.name} a map, or none."
        )
    return known


def _usual(found: Import, category: Category, path: str) -> list[Path]:
    """Where a map lies: as the image lies below its data set, the data set's name before it or not
    (two data sets may have the same names of images)."""
    below = Path(category.name_of(path))
    if below.is_absolute() or ".." in below.parts:
        return []
    homes = (found.folder / category.dataset, found.folder)
    return [home / below.with_suffix(suffix) for home in homes for suffix in SUFFIXES]


def _read(file: Path) -> NDArray[np.float32]:
    """A map as (1, height, width)."""
    if file.suffix.lower() == ".npy":
        try:
            values = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UsageError(f"The map {file} cannot be read: {first_line(error)}.") from error
    else:
        with opened_picture(str(file), str(file)) as picture:
            values = _grey(picture, file)
    if values.dtype.kind not in "fiub":
        raise UsageError(f"The map {file} holds {values.dtype}; a map holds numbers.")
    while values.ndim > 2 and values.shape[0] == 1:  # a batch or a channel of one
        values = values[0]
    if values.ndim != 2 or not values.size:
        raise UsageError(f"The map {file} has the shape {values.shape}; it is (height, width).")
    numbers = np.asarray(values, dtype=np.float32)
    if not np.isfinite(numbers).all():
        raise UsageError(f"The map {file} holds NaN or infinity; a map holds finite numbers.")
    return numbers[None]


def _grey(picture: Image.Image, file: Path) -> NDArray[Any]:
    if len(picture.getbands()) > 1 or picture.mode == "P":
        raise UsageError(
            f"The map {file} is a picture in colours ({picture.mode}); a map is grey, 8 or 16 bits."
        )
    return np.asarray(picture)
