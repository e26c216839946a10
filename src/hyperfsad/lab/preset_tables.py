"""The tables of a run: the paper's, and every category by itself."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from .presets import PRESETS, Preset
from .published import SIX_SETS, Counts, average, is_whole, missing_part, published
from .records import Record, summarise
from .tables import Cell, Column, Table, TableRow

Figures: TypeAlias = "dict[tuple[str | None, str], Cell | None]"
"""The figures of a row by data set and metric."""


def build_tables(
    name: str, records: Sequence[Record], notes: Sequence[str] = ()
) -> dict[str, Table]:
    """The tables of a preset, by the stem of their files; `notes` stand under each."""
    preset = PRESETS[name]
    return {
        f"{name}-{'-'.join(metrics).lower()}": _table(preset, metrics, records, notes)
        for metrics in preset.tables
    }


def category_tables(
    title: str, metrics: Sequence[str], records: Sequence[Record], notes: Sequence[str] = ()
) -> dict[str, Table]:
    """Every category by itself, one table a metric; a metric that no category has gives none."""
    tables = {}
    for metric in metrics:
        known = [record for record in records if record.metrics.get(metric) is not None]
        if known:
            tables[f"categories-{metric.lower()}"] = _category_table(title, metric, known, notes)
    return tables


def _category_table(
    title: str, metric: str, records: Sequence[Record], notes: Sequence[str]
) -> Table:
    counts = {(record.dataset, record.category): record.counts for record in records}
    columns = tuple(Column(name, dataset) for dataset, name in counts)
    subsets = [
        f"{dataset} {name}: {words}."
        for (dataset, name), found in counts.items()
        if (words := missing_part(dataset, {name: found}, name))
    ]
    rows = []
    for shots in sorted({record.shots for record in records}):
        group = f"{shots}-shot{', subset' if subsets else ''}"
        mine: dict[str, list[Record]] = {}
        for record in records:
            if record.shots == shots:
                mine.setdefault(record.label, []).append(record)
        for label, found_records in mine.items():
            cells = (
                summarise((r for r in found_records if (r.dataset, r.category) == place), metric)
                for place in counts
            )
            rows.append(TableRow(label, tuple(cells), group, ours=not found_records[0].imported))
    spread = f"{metric}: {_runs_note(records)}"
    heading = f"{title}: {metric} by category"
    return Table(heading, columns, tuple(rows), (*subsets, spread, *notes))


def _runs_note(records: Sequence[Record]) -> str:
    runs = len({record.run for record in records})
    return f"mean and sample standard deviation over {runs} runs, in percent."


def extents(records: Sequence[Record]) -> dict[str, dict[str, Counts]]:
    """What was measured: the counts of each category, by data set."""
    found: dict[str, dict[str, Counts]] = {}
    for record in records:
        found.setdefault(record.dataset, {})[record.category] = record.counts
    return found


def subset_notes(records: Sequence[Record]) -> list[str]:
    """A sentence on each data set of which only a part was measured."""
    found = extents(records).items()
    return [f"{dataset}, {words}." for dataset, of in found if (words := missing_part(dataset, of))]


def _table(
    preset: Preset, metrics: tuple[str, ...], records: Sequence[Record], more: Sequence[str]
) -> Table:
    found = extents(records)
    averaged = set(SIX_SETS) <= set(found)
    columns = [Column(metric, dataset) for dataset in found for metric in metrics]
    if averaged:
        columns += [Column(metric, "six-set mean", digits=2) for metric in metrics]
    whole = all(is_whole(dataset, of) for dataset, of in found.items())
    subsets = subset_notes(records)
    imported = {record.label for record in records if record.imported}

    def rows_of(figures: dict[str, Figures], group: str, measured: bool) -> Iterator[TableRow]:
        for label, of_row in figures.items():
            cells = [of_row.get((dataset, metric)) for dataset in found for metric in metrics]
            if averaged:
                for metric in metrics:
                    cells.append(average([of_row.get((name, metric)) for name in SIX_SETS]))
            if measured or any(cells):
                ours = measured and label not in imported
                yield TableRow(label, tuple(cells), group, ours=ours, published=not measured)

    rows: list[TableRow] = []
    for shots in sorted({record.shots for record in records}):
        group = f"{shots}-shot"
        rows += rows_of(_published_figures(preset, shots), group, measured=False)
        group = group if whole else f"{group}, {'subset' if subsets else 'here'}"
        rows += rows_of(_measured_figures(records, shots, metrics), group, measured=True)
    notes = [f"{dataset}: {', '.join(sorted(of))}." for dataset, of in found.items()]
    notes += subsets
    if not whole:
        notes.append(
            "Published figures average over whole data sets; what was measured here are other"
            " images, so the two do not compete."
        )
    notes.append(f"Measured rows: {_runs_note(records)}")
    return Table(preset.title, tuple(columns), tuple(rows), (*notes, *more))


def _measured_figures(
    records: Sequence[Record], shots: int, metrics: Sequence[str]
) -> dict[str, Figures]:
    """By the label of the row: our methods, encoder by encoder.

    An import counts only where it has all categories that we measured: a mean over fewer might
    look like a better method.
    """

    def known(records: Sequence[Record], metric: str) -> set[str]:
        return {r.category for r in records if r.metrics.get(metric) is not None}

    encoders = list(dict.fromkeys(record.encoder for record in records))
    mine: dict[str, dict[str, list[Record]]] = {}
    ours: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: encoders.index(record.encoder)):
        if not record.imported:
            ours.setdefault(record.dataset, []).append(record)
        if record.shots == shots:
            mine.setdefault(record.label, {}).setdefault(record.dataset, []).append(record)
    return {
        label: {
            (dataset, metric): summarise(chosen, metric)
            for dataset, chosen in of_row.items()
            for metric in metrics
            if not chosen[0].imported or known(chosen, metric) >= known(ours[dataset], metric)
        }
        for label, of_row in mine.items()
    }


def _published_figures(preset: Preset, shots: int) -> dict[str, Figures]:
    """By the label of the row: what the paper prints."""
    printed: dict[str, Figures] = {}
    for row in published(preset.published, shots=shots):
        name = row.variant or row.method
        label = f"{name} ({row.backbone})" if row.backbone else name
        cells = {(row.dataset, metric): cell for metric, cell in row.metrics.items()}
        printed.setdefault(label, {}).update(cells)
    return printed
