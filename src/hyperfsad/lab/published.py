"""The figures that the paper prints, to show beside what was measured here.

`published.json` holds every results table of the paper, one row of figures a line, as printed.
"""

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from importlib import resources

from ..errors import UsageError
from .tables import Cell

SIX_SETS = ("mvtec", "visa", "mpdd", "btad", "resc", "brats")
"""The paper's data sets, in the order of its tables."""


@dataclass(frozen=True)
class PublishedRow:
    """What the paper prints of one method at one number of shots on one data set."""

    method: str
    venue: str | None
    backbone: str | None
    """As the paper spells it; outside the efficiency table only Hyper-FSAD's own rows have one."""
    shots: int
    dataset: str | None
    """None where the row stands for no single one: efficiency, averages."""
    variant: str | None
    """The setting under study, spelt as this package spells it: `top-1%`, `3,6,9,12`, `448`."""
    metrics: dict[str, Cell] = field(hash=False)
    """Printed numbers: metrics in percent, `ms` per image, `GB` of GPU memory; deviations are over
    five runs, where the paper gives them."""


def published(kind: str, **where: str | int | None) -> list[PublishedRow]:
    """The rows of one kind (`main`, `lookup`, `layers`, …) whose fields are as given.

    >>> published("main", method="ReMP-AD", shots=1, dataset="mvtec")[0].metrics["I-AUROC"].mean
    94.7
    """
    tables = _load()
    if kind not in tables:
        raise UsageError(f"The published tables are {', '.join(tables)}, not {kind!r}.")
    known = [each.name for each in fields(PublishedRow) if each.name != "metrics"]
    for name in where:
        if name not in known:
            raise UsageError(f"Published rows are chosen by {', '.join(known)}, not {name!r}.")
    return [
        row
        for row in tables[kind]
        if all(getattr(row, name) == value for name, value in where.items())
    ]


def six_set_average(rows: Sequence[PublishedRow]) -> dict[str, float | None]:
    """Each metric of one method at one shot, averaged over the six data sets.

    None where a data set is missing: an average over fewer would look like a better method.
    """
    if len({(row.method, row.backbone, row.shots, row.variant) for row in rows}) > 1:
        raise UsageError("Averages are of one method, backbone, variant and number of shots.")
    by_set = {row.dataset: row.metrics for row in rows}
    if len(by_set) < len(rows):
        raise UsageError("Averages take one row a data set, and one came twice.")
    averages: dict[str, float | None] = {}
    for metric in dict.fromkeys(name for row in rows for name in row.metrics):
        values = [by_set[name][metric].mean for name in SIX_SETS if metric in by_set.get(name, {})]
        averages[metric] = sum(values) / len(values) if len(values) == len(SIX_SETS) else None
    return averages


@functools.cache
def _load() -> dict[str, tuple[PublishedRow, ...]]:
    file = resources.files("hyperfsad.lab") / "published.json"
    tables = json.loads(file.read_text(encoding="utf-8"))
    del tables["source"]
    for row in (row for rows in tables.values() for row in rows):
        row["metrics"] = {name: Cell(**value) for name, value in row["metrics"].items()}
    return {kind: tuple(PublishedRow(**row) for row in rows) for kind, rows in tables.items()}
