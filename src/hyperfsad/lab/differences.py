"""Which method leads, for every metric and number of shots, as a table and in words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .preset_tables import subset_notes
from .records import Record
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

Values: TypeAlias = dict[tuple[str, str], dict[int, float]]
"""A metric in percent, by category (of a data set) and run."""


@dataclass(frozen=True)
class Difference:
    """What separates two methods in one metric at one number of shots, in points."""

    metric: str
    shots: int
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
    subset: bool = False
    """Whether a part of a data set was measured."""

    @property
    def group(self) -> str:
        """Where it stands in the table; each sentence begins with it."""
        return f"{self.metric}, {self.shots}-shot{', subset' if self.subset else ''}"

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
    subset = bool(subset_notes(records))
    for metric in metrics:
        for shots in sorted({record.shots for record in records}):
            values = _values([r for r in records if r.shots == shots], metric)
            pairs = [
                _compared(metric, shots, (a, values[a]), (b, values[b]))
                for a, b in combinations(values, 2)
            ]
            known = [pair for pair in pairs if pair is not None]
            for pair, p in zip(known, holm([pair.p for pair in known]), strict=True):
                found.append(replace(pair, corrected=p, subset=subset))
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
    group, and one for all groups in which no figures could be, for lack of categories."""
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
    where = {
        words: "" if len(of) == len(groups) else f" ({'; '.join(of)})"
        for words, of in hopeless.items()
    }
    return [f"{words}: no difference is significant{where[words]}." for words in hopeless] + said


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


def _compared(
    metric: str, shots: int, first: tuple[str, Values], second: tuple[str, Values]
) -> Difference | None:
    """None where they share no category, or no run in all of them."""
    (a, ours), (b, theirs) = first, second
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
    return Difference(
        metric, shots, a, b, float(each.mean()), low, high, p, p, len(categories), len(runs)
    )
