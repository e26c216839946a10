"""The paper's tables as presets: which methods to run, and what stands in which column."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import TypeAlias

from ..detector.recipes import PAPER, PAPER_OFFLINE, find_recipe
from ..encoders import EncoderSettings
from ..errors import UsageError
from ..method.lookups import LOOKUPS
from .peers import PEERS, SAME_TOKENS
from .peers.peer import OwnTokens, check_peer_rotations
from .protocol import Record, summarise
from .published import SIX_SETS, published
from .scorer import Variant
from .sizes import cut, is_whole
from .tables import Cell, Column, Row, Table

OURS = "Hyper-FSAD"

Figures: TypeAlias = "dict[tuple[str | None, str], Cell | None]"
"""The figures of a row by data set and metric."""


@dataclass(frozen=True)
class Preset:
    """One of the paper's comparisons: what it varies, and the tables that show it."""

    title: str
    variants: Callable[[EncoderSettings], tuple[Variant, ...]]
    tables: tuple[tuple[str, ...], ...]
    """The metrics of each table that it writes."""
    published: str
    """The kind of published rows beside ours."""
    resolutions: tuple[int | None, ...] = (None,)
    apart: tuple[str, ...] = ()
    """Peers with tokens of their own, where the encoder permits them."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those of all its tables."""
        return tuple(dict.fromkeys(metric for metrics in self.tables for metric in metrics))


_ALL_METRICS = (("I-AUROC", "P-AUROC"), ("I-F1", "I-AP"), ("PRO", "P-AP"))


def _beside(names: Sequence[str]) -> tuple[Variant, ...]:
    """Our own row, and those of peers."""
    return (Variant(OURS), *(Variant(name, peer=name) for name in names))


def _lookups(_: EncoderSettings) -> tuple[Variant, ...]:
    """All lookups, the paper's last."""
    order = dict.fromkeys(["top-1", "top-p", "softmax", *LOOKUPS])
    order["sparsemax"] = order.pop("sparsemax")
    return tuple(Variant(name, lookup=name) for name in order)


def _layer_sets(settings: EncoderSettings) -> tuple[Variant, ...]:
    """The middle layer, the last, both, and all: the paper's {6}, {12}, {6, 12}, {3, 6, 9, 12}."""
    layers = settings.layers
    middle, last = layers[(len(layers) - 1) // 2], layers[-1]
    sets = dict.fromkeys([(middle,), (last,), (middle, last), layers])
    return tuple(Variant(",".join(map(str, chosen)), layers=chosen) for chosen in sets)


PRESETS: dict[str, Preset] = {
    "main": Preset(
        "Comparison with published methods",
        lambda _: (Variant(OURS),),
        _ALL_METRICS,
        "main",
    ),
    "peers": Preset(
        "Methods on the same tokens and supports",
        lambda _: _beside(SAME_TOKENS),
        _ALL_METRICS,
        "main",
        apart=("winclip",),
    ),
    "authors": Preset(
        "Peers on the same tokens, and with their authors' settings",
        lambda _: _beside(("subspace", "fastrecon")),
        _ALL_METRICS,
        "main",
        apart=("subspace-authors", "fastrecon-authors"),
    ),
    "lookup": Preset("Lookup", _lookups, (("I-AUROC", "P-AUROC"), ("PRO", "P-AP")), "lookup"),
    "layers": Preset("Layer selection", _layer_sets, (("I-AUROC", "P-AUROC"),), "layers"),
    "resolution": Preset(
        "Input resolution",
        lambda settings: (Variant(str(settings.resolution)),),
        (("I-AUROC", "P-AUROC"),),
        "resolution",
        (224, 336, 448, 560, 672),
    ),
    "lambda": Preset(
        "Fusion weight λ",
        lambda _: tuple(Variant(f"{lam:g}", lam=lam) for lam in (0.0, 0.25, 0.5, 0.75, 1.0)),
        (("I-AUROC", "I-F1", "I-AP"),),
        "lambda",
    ),
    "pooling": Preset(
        "Pooling of the map",
        lambda _: tuple(Variant(name, pooling=name) for name in ("top-10", "top-1%", "max")),
        (("I-AUROC", "I-F1", "I-AP"),),
        "pooling",
    ),
}


Pass: TypeAlias = tuple[EncoderSettings, tuple[Variant, ...]]
"""Variants that read the same tokens."""


def passes(
    name: str, backbone: str, resolution: int | None, recipe: str, rotations: int
) -> list[Pass]:
    """What an encoder runs: variants on the tokens that all share, then those with their own."""
    preset, shared = PRESETS[name], find_recipe(recipe).settings(backbone, resolution)
    variants = with_rotations(with_recipe(name, preset.variants(shared), recipe), rotations)
    apart: dict[EncoderSettings, tuple[Variant, ...]] = {}
    for peer in preset.apart:
        kind = PEERS[peer]
        assert issubclass(kind, OwnTokens)
        for label, options in kind.rows(backbone).items():
            settings = kind(backbone).settings
            variant = Variant(label, peer=peer, options=tuple(options.items()))
            apart[settings] = (*apart.get(settings, ()), variant)
    return [(shared, variants), *apart.items()]


def with_recipe(preset: str, variants: tuple[Variant, ...], recipe: str) -> tuple[Variant, ...]:
    """Our own row by a recipe; `paper` and `paper-offline` differ in the encoder alone."""
    if recipe in (PAPER, PAPER_OFFLINE):
        return variants
    if preset not in ("main", "peers", "authors"):
        raise UsageError(
            f"The preset {preset} varies the paper's algorithm; use --recipe {PAPER_OFFLINE} or"
            f" {PAPER}, not {recipe}."
        )
    return tuple(
        replace(v, label=f"{v.label}, {recipe} recipe", recipe=recipe) if v.shared else v
        for v in variants
    )


def with_rotations(variants: tuple[Variant, ...], rotations: int) -> tuple[Variant, ...]:
    """The variants, and once more with turned support those of the peers that know it."""
    if rotations == 1:
        return variants
    check_peer_rotations(rotations)
    able = [v for v in variants if v.peer and "rotations" in signature(PEERS[v.peer]).parameters]
    if not able:
        raise UsageError("Only peers remember turned support; --rotations needs --preset peers.")
    turned = (
        replace(v, label=f"{v.label}, {rotations} rotations", rotations=rotations) for v in able
    )
    return (*variants, *turned)


def build_tables(
    name: str, records: Sequence[Record], notes: Sequence[str] = ()
) -> dict[str, Table]:
    """The tables of a preset, by the stem of their files; `notes` stand under each."""
    preset = PRESETS[name]
    return {
        f"{name}-{'-'.join(metrics).lower()}": _table(preset, metrics, records, notes)
        for metrics in preset.tables
    }


def extents(records: Sequence[Record]) -> dict[str, dict[str, dict[str, int]]]:
    """What was measured: the counts of each category, by data set."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for record in records:
        found.setdefault(record.dataset, {})[record.category] = record.counts
    return found


def cut_notes(records: Sequence[Record]) -> list[str]:
    """A sentence on each data set of which only a part was measured."""
    found = extents(records).items()
    return [f"{dataset}, {words}." for dataset, of in found if (words := cut(dataset, of))]


def _table(
    preset: Preset, metrics: tuple[str, ...], records: Sequence[Record], more: Sequence[str]
) -> Table:
    found = extents(records)
    datasets = list(found)
    averaged = set(SIX_SETS) <= set(datasets)
    columns = [Column(metric, dataset) for dataset in datasets for metric in metrics]
    if averaged:
        columns += [Column(metric, "six-set mean", digits=2) for metric in metrics]
    whole = all(is_whole(dataset, of) for dataset, of in found.items())
    cuts = cut_notes(records)
    imported = {record.label for record in records if record.imported}

    def rows_of(figures: dict[str, Figures], group: str, measured: bool) -> Iterator[Row]:
        for label, found in figures.items():
            cells = [found.get((dataset, metric)) for dataset in datasets for metric in metrics]
            if averaged:
                by_metric = ([found.get((name, metric)) for name in SIX_SETS] for metric in metrics)
                cells += map(_average, by_metric)
            if measured or any(cells):
                ours = measured and label not in imported
                yield Row(label, tuple(cells), group, ours=ours, published=not measured)

    rows: list[Row] = []
    for shots in sorted({record.shots for record in records}):
        group = f"{shots}-shot"
        rows += rows_of(_published_figures(preset, shots), group, measured=False)
        group = group if whole else f"{group}, {'cut' if cuts else 'here'}"
        rows += rows_of(_measured_figures(records, shots, metrics), group, measured=True)
    notes = [f"{dataset}: {', '.join(sorted(of))}." for dataset, of in found.items()]
    notes += cuts
    if not whole:
        notes.append(
            "Published figures average over whole data sets; what was measured here are other"
            " images, so the two do not compete."
        )
    runs = len({record.run for record in records})
    notes.append(f"Measured rows: mean and sample standard deviation over {runs} runs, in percent.")
    return Table(preset.title, tuple(columns), tuple(rows), (*notes, *more))


def _measured_figures(
    records: Sequence[Record], shots: int, metrics: Sequence[str]
) -> dict[str, Figures]:
    """By the label of the row: our methods, encoder by encoder."""
    encoders = list(dict.fromkeys(record.encoder for record in records))
    mine: dict[str, dict[str, list[Record]]] = {}
    for record in sorted(records, key=lambda record: encoders.index(record.encoder)):
        if record.shots == shots:
            of_row = mine.setdefault(record.label, {})
            of_row.setdefault(record.dataset, []).append(record)
    ours: dict[str, list[Record]] = {}
    for record in records:
        if not record.imported:
            ours.setdefault(record.dataset, []).append(record)
    return {
        label: {
            (dataset, metric): summarise(chosen, metric)
            for dataset, chosen in of_row.items()
            for metric in metrics
            if not chosen[0].imported or _covers(chosen, ours[dataset], metric)
        }
        for label, of_row in mine.items()
    }


def _covers(imported: Sequence[Record], ours: Sequence[Record], metric: str) -> bool:
    """Whether an import has all categories: a mean over fewer might look like a better method."""

    def known(records: Sequence[Record]) -> set[str]:
        return {r.category for r in records if r.metrics.get(metric) is not None}

    return known(imported) >= known(ours)


def _published_figures(preset: Preset, shots: int) -> dict[str, Figures]:
    """By the label of the row: what the paper prints."""
    printed: dict[str, Figures] = {}
    for row in published(preset.published, shots=shots):
        name = row.variant or row.method
        label = f"{name} ({row.backbone})" if row.backbone else name
        cells = {(row.dataset, metric): cell for metric, cell in row.metrics.items()}
        printed.setdefault(label, {}).update(cells)
    return printed


def _average(cells: Sequence[Cell | None]) -> Cell | None:
    """None where a data set is missing: an average over fewer would look like a better method."""
    means = [cell.mean for cell in cells if cell]
    return Cell(sum(means) / len(means)) if len(means) == len(cells) else None
