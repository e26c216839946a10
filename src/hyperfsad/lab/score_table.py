"""The score of every test image, with names: one CSV file that other programs can recompute from.

Rows are read from the stored blocks and written one after the other, so that memory does not grow
with the data set.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..disk.files import atomic_path, encoded
from ..encoders import EncoderSettings
from ..report.records import csv_table
from .datasets import Category
from .protocol import read_scores
from .supports import Supports

COLUMNS = (
    *("dataset", "category", "image", "anomalous", "method", "encoder", "resolution", "shots"),
    *("run", "score"),
)
"""`image` is relative to the data set's folder; `anomalous` is the truth, true or false."""


def stored_rows(
    category: Category,
    methods: Sequence[str],
    supports: Supports,
    settings: EncoderSettings,
    work: Path,
) -> Iterator[dict[str, Any]]:
    """The rows of a category, from the blocks that `evaluate` has stored."""
    for start, scores in read_scores(category, work):
        for column in range(scores.shape[2]):
            common = image_columns(category, start + column)
            common |= {"encoder": settings.name, "resolution": settings.resolution}
            for row, method in enumerate(methods):
                for place, (run, shots) in enumerate(supports):
                    figures = {"method": method, "shots": shots, "run": run}
                    yield {**common, **figures, "score": float(scores[row, place, column])}


def image_columns(category: Category, place: int) -> dict[str, Any]:
    """What a row says of an image, whatever the method."""
    image = category.test[place]
    return {
        "dataset": category.dataset,
        "category": category.name,
        "image": category.name_of(image.path),
        "anomalous": "true" if image.anomalous else "false",
    }


def write_scores(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Writes the table row by row."""
    with atomic_path(path, parents=True) as temporary, temporary.open("wb") as file:
        for line in csv_table(COLUMNS, rows):
            file.write(encoded(line))
