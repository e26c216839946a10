"""Every category by itself: one table a metric, categories as columns."""

from collections.abc import Sequence

from .protocol import Record, summarise
from .sizes import cut_category
from .tables import Column, Row, Table


def category_tables(
    title: str, metrics: Sequence[str], records: Sequence[Record], notes: Sequence[str] = ()
) -> dict[str, Table]:
    """The tables by the stem of their files; a metric that no category has gives none."""
    tables = {}
    for metric in metrics:
        known = [record for record in records if record.metrics.get(metric) is not None]
        if known:
            tables[f"categories-{metric.lower()}"] = _table(title, metric, known, notes)
    return tables


def _table(title: str, metric: str, records: Sequence[Record], notes: Sequence[str]) -> Table:
    places = list(dict.fromkeys((record.dataset, record.category) for record in records))
    columns = tuple(Column(name, dataset) for dataset, name in places)
    counts = {(record.dataset, record.category): record.counts for record in records}
    cuts = [
        f"{dataset} {name}: {words}."
        for (dataset, name), found_counts in counts.items()
        if (words := cut_category(dataset, name, found_counts))
    ]
    suffix = "-shot, cut" if cuts else "-shot"
    rows = []
    for shots in sorted({record.shots for record in records}):
        mine: dict[str, list[Record]] = {}
        for record in records:
            if record.shots == shots:
                mine.setdefault(record.label, []).append(record)
        for label, found in mine.items():
            cells = [
                summarise([r for r in found if (r.dataset, r.category) == place], metric)
                for place in places
            ]
            rows.append(Row(label, tuple(cells), f"{shots}{suffix}", ours=not found[0].imported))
    runs = len({record.run for record in records})
    spread = f"{metric}: mean and sample standard deviation over {runs} runs, in percent."
    return Table(f"{title}: {metric} by category", columns, tuple(rows), (*cuts, spread, *notes))
