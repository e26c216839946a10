"""What an image costs, in tables: the paper's Table 5, and the column T of its Table 4."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..detector.settings import PAPER_OFFLINE, Settings, find_recipe
from ..encoders.encoder import load_encoder
from ..errors import UsageError
from ..messages import Notify, silent
from .datasets import Category
from .meters import Meter
from .peers import SAME_TOKENS
from .presets import OURS, beside, with_recipe
from .published import published
from .tables import Cell, Column, Table, TableRow
from .timing import RunTimes, time_variants

BATCHES = (1, 8)
"""As `detect` reads images on a CPU, and as the paper does."""
TIMED_IMAGES = 24
TIMED_PRESETS = ("resolution",)
"""The presets whose published table has a time."""


def efficiency_table(
    categories: Sequence[Category],
    encoders: Sequence[str],
    *,
    shots: Sequence[int],
    resolution: int | None = None,
    recipe: str = PAPER_OFFLINE,
    device: str = "auto",
    engine: str = "torch",
    work: Path | None = None,
    fresh: bool = True,
    notify: Notify = silent,
) -> Table:
    """Times images of the first category; the peers score the same tokens on the same machine.

    Times in the folder `work` are not measured again, so that the table stays the same. `fresh`:
    whether the process has done nothing else before; otherwise its memory says nothing on a CPU.
    """
    if not categories or not encoders:
        raise UsageError("nothing-to-time")
    Settings(device=device, engine=engine)
    rows = [
        TableRow(
            row.method,
            (row.backbone, row.variant, *(None,) * 3, row.metrics["ms"], row.metrics["GB"]),
            "GPU, 1-shot, batch 8",
            published=True,
        )
        for row in published("efficiency")
    ]
    variants = with_recipe("peers", beside(SAME_TOKENS), recipe)
    measured: list[tuple[tuple[int, int], TableRow]] = []
    for number, name in enumerate(encoders):
        settings = find_recipe(recipe).settings(name, resolution)
        encoder = load_encoder(settings, device, notify, engine=engine)
        meter = Meter(encoder.device)
        found = time_variants(
            variants,
            sorted(set(shots)),
            categories[0],
            encoder,
            file=work / f"times-{number}.json" if work else None,
            batches=BATCHES,
            images=TIMED_IMAGES,
        )
        for timing in found.timings:
            group = f"{found.machine}, {timing.shots}-shot, batch {timing.batch}, here"
            ours = timing.method.startswith(OURS)
            known = meter.counts_tensors or (ours and fresh)
            stages = (timing.decode, timing.encode, timing.match, timing.total)
            peak = Cell(timing.peak_bytes / 1e9) if known else None
            cells = (name, str(settings.resolution), *map(Cell, stages), peak)
            row = TableRow(timing.method, cells, group, ours=ours)
            measured.append(((timing.shots, timing.batch), row))
    measured.sort(key=lambda pair: pair[0])  # rows of a group together
    columns = (
        *(Column(name, better=None) for name in ("encoder", "pixels")),
        *(Column(f"{stage} ms", better=None) for stage in ("decode", "encode")),  # all share them
        *(Column(f"{stage} ms", better="low") for stage in ("match", "total")),
        Column("peak GB", better="low", digits=2),
    )
    notes = (
        "Published: GPU memory and time on an NVIDIA RTX 3090, batches of 8.",
        f"Measured: milliseconds per image, medians over {TIMED_IMAGES} images of"
        f" {categories[0].dataset}/{categories[0].name}; all methods score the same tokens, and the"
        " clock is read once the device has finished.",
        _about_memory(meter, fresh),
    )
    return Table("Efficiency", columns, (*rows, *(row for _, row in measured)), notes)


def _about_memory(meter: Meter, fresh: bool) -> str:
    if meter.counts_tensors:
        return "Measured memory: tensors on the GPU (torch.cuda.max_memory_allocated)."
    if fresh:
        return "Measured memory: the whole process so far, so only for the method that ran first."
    return (
        "Measured memory: not shown, since the process did other work before; the command lab"
        " benchmark with the preset efficiency shows it."
    )


def with_times(preset: str, table: Table, times: Sequence[RunTimes]) -> Table:
    """The table with the time of each row, as printed and as measured here.

    The two do not compete: the paper's times are those of its GPU.
    """
    known = {
        (row.shots, f"{row.variant} ({row.backbone})"): row.metrics["ms"]
        for row in published(preset)
        if "ms" in row.metrics
    }
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
