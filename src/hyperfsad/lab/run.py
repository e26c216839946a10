"""A benchmark run: from data sets on disk to records and tables, resumable at any point."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from ..detector.settings import PAPER_OFFLINE, Settings
from ..encoders.specs import EngineName, PrecisionName
from ..errors import UsageError, first_line
from ..messages import Notify, log
from . import PRECISION
from .comparisons import (
    build_tables,
    category_tables,
    differences_table,
    find_differences,
    measured_encoders,
    sentences,
    subset_notes,
)
from .datasets import Category, load_dataset
from .drawing.canvas import footnote
from .drawing.figures import draw_curves, draw_figures
from .imports import Import, read_import
from .presets import PRESETS, passes
from .protocol import CategoryRun
from .records import (
    Entry,
    Record,
    encoder_label,
    entry_key,
    imported_entry,
    measured_entry,
    write_records,
)
from .supports import SupportSets, draw_supports, read_supports, write_supports
from .tables import Table, write_table
from .timing import TIMED_PRESETS, RunTimes, time_variants, with_times
from .tokens import CACHE_LIMIT, TokenCaches


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
            raise UsageError("suite-file", path=path, reason=first_line(error)) from error
        return cls(sources, named)

    def load(self) -> list[Category]:
        """All categories, in the order of the file."""
        return [
            replace(category, dataset=name, root=source.root)
            for name, source in self.sources.items()
            for category in load_dataset(source.layout, source.root, self.categories)
        ]


@dataclass
class Outcome:
    """What a run found, measured or imported."""

    records: list[Record] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    """Where the records come from, by key."""
    tables: dict[str, Table] = field(default_factory=dict)
    """The tables of the preset, which are printed."""
    details: dict[str, Table] = field(default_factory=dict)
    """The categories by themselves, and the differences between methods."""
    figures: list[Path] = field(default_factory=list)
    """The files that were drawn."""
    sentences: tuple[str, ...] = ()
    """Which method leads, and where no difference is significant."""

    def add_entry(self, entry: Entry) -> str:
        """Keeps an entry and returns its key."""
        key = entry_key(entry)
        self.entries[key] = entry
        return key


@dataclass(frozen=True)
class Request:
    """What is asked of a run, besides the suite and the preset."""

    shots: tuple[int, ...] = (1, 2, 4)
    runs: int = 5
    seed: int = 0
    supports: Path | None = None
    """A file of support sets, instead of those that `shots`, `runs` and `seed` draw."""
    imports: tuple[tuple[str, Path], ...] = ()
    """Names and folders with the scores of other systems."""
    eval_size: int = 256
    resolution: int | None = None
    recipe: str = PAPER_OFFLINE
    """That of our own rows; it sets the encoder's layers for all."""
    device: str = "auto"
    engine: EngineName = "auto"
    precision: PrecisionName = PRECISION
    cache_limit: int = CACHE_LIMIT

    def __post_init__(self) -> None:
        if not self.shots or min(self.shots) < 1 or self.runs < 1:
            raise UsageError("shots-runs", shots=list(self.shots), runs=self.runs)
        Settings(device=self.device, engine=self.engine, precision=self.precision)

    def caches(self, notify: Notify = log) -> TokenCaches:
        """Token caches of the device, engine and precision that were asked for."""
        machine = {"device": self.device, "engine": self.engine, "precision": self.precision}
        return TokenCaches(**machine, limit=self.cache_limit, notify=notify)

    def support_sets(self, categories: Sequence[Category], caches: TokenCaches) -> SupportSets:
        """The support images of the categories."""
        if self.supports:
            return read_supports(self.supports, categories)
        return draw_supports(categories, self.shots, self.runs, self.seed, caches.content_hash)


def run_benchmark(
    suite: Suite,
    preset_name: str,
    out: Path,
    request: Request,
    *,
    caches: TokenCaches | None = None,
    progress: Callable[[int], Callable[[int], None]] = lambda _: lambda __: None,
    figures: Mapping[str, int | None] | None = None,
    notify: Notify = log,
) -> Outcome:
    """Measures, and writes records, scores, supports, provenance and tables.

    `progress(total)` returns the function that is called with the number of images just done.
    `figures` draws figures like the paper's, one folder for each encoder and resolution. Calls that
    share `caches` load each encoder and hash each image once. A killed run continues where it
    stopped, and the same call always writes the same bytes.
    """
    if preset_name not in PRESETS:
        raise UsageError("preset", given=preset_name, known=", ".join(PRESETS))
    categories, caches = suite.load(), caches or request.caches(notify)
    sets, eval_size = request.support_sets(categories, caches), request.eval_size
    # before the long work, so that a mistake in a file shows at once
    imported = _read_imports(request, categories, sets.shots)
    write_supports(sets, out / "supports.json")
    plan = [
        each
        for encoder in suite.encoders
        for each in passes(preset_name, encoder, request.resolution, request.recipe)
    ]
    advance = progress(sum(len(category.test) for category in categories) * len(plan))
    found, rows, times = Outcome(), list[Callable[[], Iterator[dict[str, Any]]]](), list[RunTimes]()
    for settings, variants in plan:
        cache = caches.of(settings)
        label = encoder_label(settings, suite.encoders)
        work = out / "work" / f"{preset_name}-{label}"
        origin = {"preset": preset_name, "recipe": request.recipe, "seed": sets.seed}
        key = found.add_entry(measured_entry(cache, variants, **origin, eval_size=eval_size))
        mine = [
            CategoryRun(category, sets.of(category), variants, cache, work, eval_size)
            for category in categories
        ]
        measured = [record for each in mine for record in each.records(advance, key)]
        found.records += measured
        rows += [each.score_rows for each in mine]
        if preset_name in TIMED_PRESETS:
            known = variants, sets.shots, categories[0], cache.encoder
            file = work / "times.json"
            times.append(time_variants(*known, file=file, load=cache.load_alone))
        if figures is not None and settings.form == "unit":
            with _noted_subsets(measured):
                folder = out / "figures" / label
                found.figures += draw_figures(preset_name, mine, sets, folder, measured, figures)
    if figures is not None:
        with _noted_subsets(found.records):
            found.figures += draw_curves(preset_name, found.records, out / "figures")
    notes: list[str] = []
    for each, records in imported:
        key = found.add_entry(imported_entry(each.name, each.sha256, eval_size=eval_size))
        found.records += [replace(record, provenance=key) for record in records]
        rows.append(each.rows)
        notes += each.notes(sets.shots, records)
    write_records(found.records, found.entries, chain.from_iterable(each() for each in rows), out)
    _make_tables(preset_name, found, notes, times)
    for stem, table in (found.tables | found.details).items():
        write_table(table, out, stem)
    return found


def _read_imports(
    request: Request, categories: Sequence[Category], shots: Sequence[int]
) -> list[tuple[Import, list[Record]]]:
    found: list[tuple[Import, list[Record]]] = []
    for name, folder in request.imports:
        if any(each.name == name for each, _ in found):
            raise UsageError("import-name-twice", name=name)
        each = read_import(name, folder, categories)
        records = list(each.records(shots, request.eval_size))
        if not records:
            known = " or ".join(map(str, shots))
            raise UsageError("import-shots", file=folder / "scores.csv", shots=known)
        found.append((each, records))
    return found


def _make_tables(
    preset_name: str, found: Outcome, notes: Sequence[str], times: Sequence[RunTimes]
) -> None:
    records, preset = found.records, PRESETS[preset_name]
    found.tables = build_tables(preset_name, records, notes)
    if times:
        for name, table in found.tables.items():
            found.tables[name] = with_times(preset_name, table, times)
    found.details = category_tables(preset.title, preset.metrics, records, notes)
    if pairs := find_differences(records, preset.metrics):
        encoders = f"Encoder: {', '.join(measured_encoders(records))}."
        known = [encoders, *subset_notes(records), *notes]
        found.details["differences"] = differences_table(pairs, known)
        found.sentences = tuple(sentences(pairs))


def _noted_subsets(records: Sequence[Record]) -> AbstractContextManager[None]:
    """Says under figures which parts of data sets they show."""
    notes = subset_notes(records)
    return footnote(f"Measured here: {' '.join(notes)}" if notes else "")
