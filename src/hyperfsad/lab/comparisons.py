"""From records to tables: the paper's, every category by itself, and which method leads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .presets import PRESETS, Preset
from .published import SIX_SETS, Counts, average, is_whole, missing_part, published
from .records import Record, summarise
from .significance import (
    ALPHA,
    LEVEL,
    RESAMPLES,
    SEED,
    bootstrap_interval,
    holm,
    least_p,
    signed_rank,
)
from .tables import Cell, Column, Table, TableRow

Figures: TypeAlias = "dict[tuple[str | None, str], Cell | None]"
"""The figures of a row by data set and metric."""

Values: TypeAlias = dict[tuple[str, str], dict[int, float]]
"""A metric in percent, by category (of a data set) and run."""


def build_tables(
    name: str, records: Sequence[Record], notes: Sequence[str] = ()
) -> dict[str, Table]:
    """The tables of a preset, by the stem of their files; `notes` stand under each."""
    return {
        f"{name}-{'-'.join(metrics).lower()}": _table(PRESETS[name], metrics, records, notes)
        for metrics in PRESETS[name].tables
    }


def category_tables(
    title: str, metrics: Sequence[str], records: Sequence[Record], notes: Sequence[str] = ()
) -> dict[str, Table]:
    """Every category by itself, one table a metric; a metric that no category has gives none."""
    tables = {}
    for metric in metrics:
        known = [record for record in records if record.metrics.get(metric) is not None]
        if not known:
            continue
        counts = {(record.dataset, record.category): record.counts for record in known}
        subsets = [
            f"{dataset} {name}: {words}."
            for (dataset, name), found in counts.items()
            if (words := missing_part(dataset, {name: found}, name))
        ]
        rows: dict[tuple[int, str], list[Record]] = {}
        for record in sorted(known, key=lambda record: record.shots):
            rows.setdefault((record.shots, record.label), []).append(record)
        tables[f"categories-{metric.lower()}"] = Table(
            f"{title}: {metric} by category",
            tuple(Column(name, dataset) for dataset, name in counts),
            tuple(
                TableRow(
                    label,
                    tuple(
                        summarise((r for r in mine if (r.dataset, r.category) == place), metric)
                        for place in counts
                    ),
                    f"{shots}-shot{', subset' if subsets else ''}",
                    ours=not mine[0].imported,
                )
                for (shots, label), mine in rows.items()
            ),
            (*subsets, f"{metric}: {_runs_note(known)}", *notes),
        )
    return tables


def _runs_note(records: Sequence[Record]) -> str:
    runs = len({record.run for record in records})
    return f"mean and sample standard deviation over {runs} runs, in percent."


def _extents(records: Sequence[Record]) -> dict[str, dict[str, Counts]]:
    """What was measured: the counts of each category, by data set."""
    found: dict[str, dict[str, Counts]] = {}
    for record in records:
        found.setdefault(record.dataset, {})[record.category] = record.counts
    return found


def subset_notes(records: Sequence[Record]) -> list[str]:
    """A sentence on each data set of which only a part was measured."""
    found = _extents(records).items()
    return [f"{dataset}, {words}." for dataset, of in found if (words := missing_part(dataset, of))]


def _table(
    preset: Preset, metrics: tuple[str, ...], records: Sequence[Record], more: Sequence[str]
) -> Table:
    found = _extents(records)
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


@dataclass(frozen=True)
class Difference:
    """What separates two methods in one metric at one number of shots, in points."""

    group: str
    """Metric and number of shots, and whether a part of a data set was measured."""
    first: str
    second: str
    mean: float
    """The first minus the second, mean over categories and runs."""
    low: float
    high: float
    p: float
    corrected: float
    """The p-value after Holm's correction over all pairs of this metric and number of shots."""
    categories: int
    runs: int

    @property
    def significant(self) -> bool:
        """Whether the choice of categories and supports does not explain it."""
        return self.corrected < ALPHA and (self.low > 0 or self.high < 0)

    def sentence(self) -> str:
        """Which method leads, by how much and how certain that is."""
        names = (self.first, self.second) if self.mean >= 0 else (self.second, self.first)
        sides = sorted((abs(self.low), abs(self.high)))
        p = f"p = {self.corrected:.3f}" if self.corrected >= 0.001 else "p < 0.001"
        return (
            f"{self.group}: {names[0]} leads {names[1]} by {abs(self.mean):.1f}"
            f" ({100 * LEVEL:.0f} % interval {sides[0]:.1f} to {sides[1]:.1f}; {p} after Holm)."
        )


def find_differences(records: Sequence[Record], metrics: Sequence[str]) -> list[Difference]:
    """All pairs of methods that were measured on the same categories."""
    found: list[Difference] = []
    subset = ", subset" if subset_notes(records) else ""
    for metric in metrics:
        for shots in sorted({record.shots for record in records}):
            values = _values([r for r in records if r.shots == shots], metric)
            pairs = [
                pair
                for a, b in combinations(values, 2)
                if (pair := _compared(f"{metric}, {shots}-shot{subset}", a, b, values))
            ]
            corrected = holm([pair.p for pair in pairs])
            found += [replace(pair, corrected=p) for pair, p in zip(pairs, corrected, strict=True)]
    return found


def differences_table(found: Sequence[Difference], notes: Sequence[str] = ()) -> Table:
    """The differences with their intervals and p-values; the notes say which method leads."""
    columns = (
        *(Column(name, better=None) for name in ("difference", "low", "high")),
        *(Column(name, better=None, digits=4) for name in ("p", "p after Holm")),
        *(Column(name, better=None, digits=0) for name in ("categories", "runs")),
    )
    rows = []
    for each in found:
        figures = (each.mean, each.low, each.high, each.p, each.corrected)
        cells = map(Cell, (*figures, float(each.categories), float(each.runs)))
        rows.append(TableRow(f"{each.first} against {each.second}", tuple(cells), each.group))
    method = (
        f"Differences are in points, first minus second, over the same categories and supports;"
        f" each category counts once. Interval: paired bootstrap, {100 * LEVEL:.0f} %,"
        f" {RESAMPLES:,} draws of categories and of runs within them, seed {SEED}. p: Wilcoxon's"
        " signed-rank test over categories (means over runs), two-sided, exact; corrected after"
        " Holm over the pairs of a metric and number of shots. A difference is significant where"
        f" the corrected p is below {ALPHA} and the interval leaves out 0."
    )
    said = (method, *notes, *sentences(found))
    return Table("Differences between methods", columns, tuple(rows), said)


def sentences(found: Sequence[Difference]) -> list[str]:
    """What the differences say: a sentence for each that is significant, one for the others of a
    group, and one for all groups in which none can be, for lack of categories."""
    groups: dict[str, list[Difference]] = {}
    for each in found:
        groups.setdefault(each.group, []).append(each)
    hopeless: dict[str, list[str]] = {}
    said = []
    for group, mine in groups.items():
        categories, pairs = max(each.categories for each in mine), len(mine)
        least = min(1.0, pairs * least_p(categories))
        if least >= ALPHA:
            few = "1 category" if categories == 1 else f"{categories} categories"
            few += "" if pairs == 1 else f" and {pairs} pairs"
            words = f"With {few}, p after Holm is at least {least:.3g}, whatever the figures"
            words += " (one pair needs 6 categories)" if categories < 6 else ""
            hopeless.setdefault(words, []).append(group)
            continue
        said += [each.sentence() for each in mine if each.significant]
        others = [f"{each.first} and {each.second}" for each in mine if not each.significant]
        if len(others) == pairs > 1:
            others = ["any two methods"]
        if others:
            said.append(f"{group}: no significant difference between {'; '.join(others)}.")
    first = [
        f"{words}: no difference is significant{where}."
        for words, of in hopeless.items()
        for where in ["" if of == [*groups] else f" ({'; '.join(of)})"]
    ]
    return first + said


def measured_encoders(records: Sequence[Record]) -> list[str]:
    """Those of the methods that were measured here."""
    return list(dict.fromkeys(record.encoder for record in records if not record.imported))


def _values(records: Sequence[Record], metric: str) -> dict[str, Values]:
    """By the name of the method, with its encoder where there are several.

    An import that names no run counts for all of them.
    """
    values: dict[str, Values] = {}
    alone = len(measured_encoders(records)) == 1
    runs = sorted({record.run for record in records if not record.imported})
    for record in records:
        value = record.metrics.get(metric)
        if value is None:
            continue
        name = record.method if alone and not record.imported else record.label
        place = values.setdefault(name, {}).setdefault((record.dataset, record.category), {})
        for run in runs if record.every_run and runs else [record.run]:
            place[run] = 100 * value
    return values


def _compared(group: str, a: str, b: str, values: dict[str, Values]) -> Difference | None:
    """None where they share no category, or no run in all of them."""
    ours, theirs = values[a], values[b]
    categories = [category for category in ours if category in theirs]
    common = [ours[category].keys() & theirs[category].keys() for category in categories]
    runs = sorted(set.intersection(*map(set, common))) if common else []
    if not runs:
        return None
    each: NDArray[np.float64] = np.array(
        [[ours[c][r] - theirs[c][r] for r in runs] for c in categories]
    )
    low, high = bootstrap_interval(each)
    p = signed_rank(each.mean(axis=1))
    return Difference(group, a, b, float(each.mean()), low, high, p, p, len(categories), len(runs))
