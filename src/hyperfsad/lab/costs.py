"""Milliseconds in a table of accuracies: the column T of the paper's Table 4."""

import re
from collections.abc import Sequence
from dataclasses import replace

from .published import published
from .tables import Cell, Column, Table
from .timing import RunTimes

TIMED = ("resolution",)
"""The presets whose published table has a time."""


def with_times(preset: str, table: Table, times: Sequence[RunTimes]) -> Table:
    """The table with the time of each row: as printed, and as measured here.

    Neither competes with the other: the paper's times are those of its GPU.
    """
    known: dict[tuple[int, str], Cell] = {}
    for printed in published(preset):
        if "ms" in printed.metrics:
            label = f"{printed.variant} ({printed.backbone})"
            known[printed.shots, label] = printed.metrics["ms"]
    for run in times:
        for timing in run.timings:
            known[timing.shots, f"{timing.method} ({run.encoder})"] = Cell(timing.total)
    rows = []
    for row in table.rows:
        shots = re.match(r"\d+", row.group)
        cell = known.get((int(shots[0]), row.label)) if shots else None
        rows.append(replace(row, cells=(*row.cells, cell)))
    machines = ", ".join(dict.fromkeys(run.machine for run in times))
    batches = ", ".join(dict.fromkeys(str(t.batch) for run in times for t in run.timings))
    note = (
        "ms: an image from file to score. Published: NVIDIA RTX 3090, batches of 8. Measured:"
        f" {machines}, batches of {batches}; median of a few images."
    )
    columns = (*table.columns, Column("ms", better=None))
    return replace(table, columns=columns, rows=tuple(rows), notes=(*table.notes, note))
