"""A benchmark run: from data sets on disk to records and tables, resumable at any point."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from ..detector.recipes import PAPER_OFFLINE
from ..disk.files import encoded, write_file
from ..errors import UsageError, first_line
from ..messages import Notify, silent
from ..report.canvas import footnote
from . import provenance
from .comparing.differences import differences_table, encoders, find_differences, in_brief
from .costs import TIMED, with_times
from .datasets import Category, load_dataset
from .drawing.illustrate import Drawn, draw_curves, draw_figures
from .imported.metrics import import_notes, import_records, import_rows
from .imported.reading import read_import
from .naming import settings_label, work_folder
from .per_category import category_tables
from .presets import PRESETS, build_tables, cut_notes, passes
from .protocol import Protocol, Record, evaluate
from .score_table import stored_rows, write_scores
from .supports import Draws, draw, read_draws, write_draws
from .tables import Table, write_table
from .timing import RunTimes, time_variants
from .token_cache import DEFAULT_LIMIT, TokenCache, TokenCaches


@dataclass(frozen=True)
class Source:
    """A data set on disk: how it is laid out, and where."""

    layout: str
    root: str


@dataclass(frozen=True)
class Suite:
    """What a run covers: data sets by the name that tables show, and encoders."""

    sources: dict[str, Source]
    encoders: tuple[str, ...]
    categories: tuple[str, ...] | None = None

    @classmethod
    def read(cls, path: Path, encoders: Sequence[str]) -> "Suite":
        """A small JSON file, for example

        {"datasets": {"mvtec": "mvtec", "parts": {"layout": "folder", "root": "our/parts"}},
         "encoders": ["dinov3-vitb16", "dinov2-vitb14"]}

        A name alone is its own layout; roots are relative to the file.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            named = tuple(map(str, content.get("encoders", encoders)))
            sources = {}
            for name, value in content["datasets"].items():
                short = isinstance(value, str)
                layout, root = (name, value) if short else (value["layout"], value["root"])
                sources[str(name)] = Source(str(layout), os.path.join(path.parent, str(root)))
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise UsageError(
                f'{path} should be JSON such as {{"datasets": {{"mvtec": "folder"}}, "encoders":'
                f' ["dinov2-vits14"]}}: {first_line(error)}.'
            ) from error
        return cls(sources, named)

    def load(self) -> list[Category]:
        """All categories, in the order of the file."""
        return [
            replace(category, dataset=name, root=source.root)
            for name, source in self.sources.items()
            for category in load_dataset(source.layout, source.root, self.categories)
        ]


Spread: TypeAlias = Callable[[Sequence[Category], Draws, Protocol, TokenCache, Path], None]
"""Has blocks and metrics of categories computed elsewhere and put into the folder of a pass, where
`evaluate` finds them."""

Rows: TypeAlias = Callable[[], Iterator[dict[str, Any]]]
"""Reads rows of the table of scores, when it is written."""


@dataclass
class _Found:
    """What a run gathers, measured or imported."""

    records: list[Record] = field(default_factory=list)
    entries: dict[str, provenance.Entry] = field(default_factory=dict)
    rows: list[Rows] = field(default_factory=list)
    times: list[RunTimes] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)

    def entry(self, entry: provenance.Entry) -> str:
        """The key of an entry, which is kept."""
        key = provenance.key_of(entry)
        self.entries[key] = entry
        return key


@dataclass(frozen=True)
class Outcome:
    """What a run found."""

    records: list[Record]
    tables: dict[str, Table]
    """The tables of the preset, which are printed."""
    details: dict[str, Table] = field(default_factory=dict)
    """The categories by themselves, and the differences between methods."""
    figures: list[Path] = field(default_factory=list)
    """The files that were drawn."""
    entries: dict[str, provenance.Entry] = field(default_factory=dict)
    """Where the records come from, by key."""
    sentences: tuple[str, ...] = ()
    """Who is ahead of whom, and what nobody could tell."""


def run_benchmark(
    suite: Suite,
    preset_name: str,
    out: Path,
    *,
    shots: Sequence[int] = (1, 2, 4),
    runs: int = 5,
    seed: int = 0,
    supports: Path | None = None,
    eval_size: int = 256,
    resolution: int | None = None,
    rotations: int = 1,
    recipe: str = PAPER_OFFLINE,
    device: str = "auto",
    engine: str = "torch",
    cache_limit: int = DEFAULT_LIMIT,
    imports: Sequence[tuple[str, Path]] = (),
    caches: TokenCaches | None = None,
    progress: Callable[[int], Callable[[int], None]] = lambda _: lambda __: None,
    figures: Drawn | None = None,
    spread: Spread | None = None,
    notify: Notify = silent,
) -> Outcome:
    """Measures, and writes records, scores, supports, provenance and tables.

    `progress(total)` returns the function that is called with the number of images just done.
    `recipe` is that of our own rows, and sets the encoder's layers for all. `figures` draws
    figures like the paper's, one folder for each encoder and resolution. With
    `rotations`, peers that can remember turned support run both ways. The engine is torch unless
    another is named, so that numbers do not depend on what else is installed.

    `supports` is a file of support sets, instead of those that `shots`, `runs` and `seed` draw;
    `imports` are names and folders with the scores of other systems. Calls that share `caches`
    (then `device`, `engine` and `cache_limit` are theirs) load each encoder and hash each image
    once. `spread` lets others do the work of each pass. A killed run goes on where it stopped, and
    the same call always writes the same bytes.
    """
    if not shots or min(shots) < 1 or runs < 1:
        raise UsageError("Shots and runs are at least 1.")
    if preset_name not in PRESETS:
        raise UsageError(f"The preset is one of {', '.join(PRESETS)}, not {preset_name!r}.")
    preset = PRESETS[preset_name]
    categories = suite.load()
    if caches is None:
        caches = TokenCaches(device=device, engine=engine, limit=cache_limit, notify=notify)
    if supports:
        draws = read_draws(supports, categories)
    else:
        draws = draw(categories, shots, runs, seed, caches.content_hash)
    found, foreign = _Found(), _imported(imports, categories, draws, eval_size)
    write_draws(draws, out / "supports.json")
    sizes = preset.resolutions if resolution is None else (resolution,)
    plan = [
        each
        for encoder in suite.encoders
        for size in sizes
        for each in passes(preset_name, encoder, size, recipe, rotations)
    ]
    advance = progress(sum(len(category.test) for category in categories) * len(plan))
    for settings, variants in plan:
        cache = caches.of(settings)
        protocol = Protocol(draws.shots, len(draws.runs), draws.seed or 0, eval_size, variants)
        shared = settings.form == "unit"
        label = settings_label(settings, suite.encoders)
        work = work_folder(out, preset_name, label)
        entry = provenance.measured(
            cache,
            variants,
            preset=preset_name,
            recipe=recipe,
            seed=draws.seed,
            eval_size=eval_size,
        )
        key = found.entry(entry)
        methods = [variant.label for variant in variants]
        measured: list[Record] = []
        if spread is not None:
            spread(categories, draws, protocol, cache, work)
        for category in categories:
            mine = draws.of(category)
            measured += evaluate(
                category, protocol, cache, work, advance, supports=mine, provenance=key
            )
            found.rows.append(partial(stored_rows, category, methods, mine, cache.settings, work))
        found.records += measured
        if preset_name in TIMED:
            file = work / "times.json"
            timed = time_variants(variants, protocol.shots, categories[0], cache, file)
            found.times.append(timed)
        if figures and shared:
            folder = out / "figures" / label
            with footnote(_cuts(measured)):
                found.figures += draw_figures(
                    preset_name, categories, protocol, cache, work, folder, measured, figures
                )
    if figures:
        with footnote(_cuts(found.records)):
            found.figures += draw_curves(preset_name, found.records, out / "figures")
    found.records += foreign.records
    found.entries |= foreign.entries
    found.rows += foreign.rows
    return _written(preset_name, found, foreign.notes, out)


def _imported(
    imports: Sequence[tuple[str, Path]],
    categories: Sequence[Category],
    draws: Draws,
    eval_size: int,
) -> _Found:
    """What other systems found; before the long work, so that a mistake in a file shows at once."""
    found = _Found()
    for name, folder in imports:
        if any(record.method == name for record in found.records):
            raise UsageError(f"{name} is imported twice; give each import a name of its own.")
        read = read_import(name, folder, categories)
        key = found.entry(provenance.imported(name, read.sha256, eval_size=eval_size))
        records = list(
            import_records(read, categories, shots=draws.shots, eval_size=eval_size, provenance=key)
        )
        if not records:
            raise UsageError(
                f"{folder / 'scores.csv'} has no scores with"
                f" {' or '.join(map(str, draws.shots))} shots; choose others with --shots."
            )
        found.records += records
        found.rows.append(partial(import_rows, read, categories))
        found.notes += import_notes(read, categories, draws.shots, records)
    return found


def _written(preset_name: str, found: _Found, notes: Sequence[str], out: Path) -> Outcome:
    records, preset = found.records, PRESETS[preset_name]
    lines = [json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in records]
    write_file(out / "records.jsonl", encoded("".join(lines)), parents=True)
    provenance.write_entries(found.entries, out / "provenance.json")
    write_scores(chain.from_iterable(rows() for rows in found.rows), out / "scores.csv")
    tables = build_tables(preset_name, records, notes)
    if found.times:
        tables = {
            name: with_times(preset_name, table, found.times) for name, table in tables.items()
        }
    details = category_tables(preset.title, preset.metrics, records, notes)
    said: tuple[str, ...] = ()
    if pairs := find_differences(records, preset.metrics):
        known = [f"Encoder: {', '.join(encoders(records))}.", *cut_notes(records), *notes]
        details["differences"] = differences_table(pairs, known)
        said = tuple(in_brief(pairs))
    for stem, table in (tables | details).items():
        write_table(table, out, stem)
    return Outcome(records, tables, details, found.figures, found.entries, said)


def _cuts(records: Sequence[Record]) -> str:
    """What stands under figures of a part of a data set."""
    cuts = cut_notes(records)
    return f"Measured here: {' '.join(cuts)}" if cuts else ""
