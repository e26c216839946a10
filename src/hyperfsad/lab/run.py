"""A benchmark run: from data sets on disk to records and tables, resumable at any point."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ..detector.settings import PAPER_OFFLINE, Settings
from ..errors import UsageError, first_line
from ..messages import Notify, silent
from .datasets import Category, load_dataset
from .differences import differences_table, find_differences, measured_encoders, sentences
from .drawing.canvas import footnote
from .drawing.figures import draw_curves, draw_figures
from .imports import import_notes, import_records, import_rows, read_import
from .preset_tables import build_tables, category_tables, subset_notes
from .presets import PRESETS, passes
from .protocol import Protocol, evaluate, pass_label, score_rows, work_folder
from .records import Entry, Record, entry_key, imported_entry, measured_entry, write_records
from .supports import SupportSets, draw_supports, read_supports, write_supports
from .tables import Table, write_table
from .timing import TIMED_PRESETS, RunTimes, time_variants, with_times
from .token_cache import CACHE_LIMIT, TokenCaches


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
    scores: list[Callable[[], Iterator[dict[str, Any]]]] = field(default_factory=list)
    """Read the rows of the score table, when it is written."""
    times: list[RunTimes] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

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
    engine: str = "torch"
    """torch unless another is named, so that numbers do not depend on what else is installed."""
    cache_limit: int = CACHE_LIMIT

    def __post_init__(self) -> None:
        if not self.shots or min(self.shots) < 1 or self.runs < 1:
            raise UsageError("shots-runs", shots=list(self.shots), runs=self.runs)
        Settings(device=self.device, engine=self.engine)

    def caches(self, notify: Notify = silent) -> TokenCaches:
        """Token caches on the device and engine that were asked for."""
        machine = {"device": self.device, "engine": self.engine, "limit": self.cache_limit}
        return TokenCaches(**machine, notify=notify)

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
    notify: Notify = silent,
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
    sets, recipe, eval_size = (
        request.support_sets(categories, caches),
        request.recipe,
        request.eval_size,
    )
    found, foreign = Outcome(), _imported(request, categories, sets)
    write_supports(sets, out / "supports.json")
    sizes = (request.resolution,) if request.resolution else PRESETS[preset_name].resolutions
    plan = [
        each
        for encoder in suite.encoders
        for size in sizes
        for each in passes(preset_name, encoder, size, recipe)
    ]
    advance = progress(sum(len(category.test) for category in categories) * len(plan))
    for settings, variants in plan:
        cache = caches.of(settings)
        protocol = Protocol(sets.shots, len(sets.runs), sets.seed or 0, eval_size, variants)
        label = pass_label(settings, suite.encoders)
        work = work_folder(out, preset_name, label)
        origin: dict[str, Any] = {"preset": preset_name, "recipe": recipe, "seed": sets.seed}
        key = found.add_entry(measured_entry(cache, variants, **origin, eval_size=eval_size))
        methods = [variant.label for variant in variants]
        measured: list[Record] = []
        for category in categories:
            mine = sets.of(category)
            measured += evaluate(
                category, protocol, cache, work, advance, supports=mine, provenance=key
            )
            found.scores.append(partial(score_rows, category, methods, mine, settings, work))
        found.records += measured
        if preset_name in TIMED_PRESETS:
            known = variants, sets.shots, categories[0], cache.encoder
            file = work / "times.json"
            found.times.append(time_variants(*known, file=file, load=cache.load_alone))
        if figures is not None and settings.form == "unit":
            folder = out / "figures" / label
            with footnote(_footnote(measured)):
                found.figures += draw_figures(
                    preset_name, categories, protocol, cache, work, folder, measured, figures
                )
    if figures is not None:
        with footnote(_footnote(found.records)):
            found.figures += draw_curves(preset_name, found.records, out / "figures")
    found.records += foreign.records
    found.entries |= foreign.entries
    found.scores += foreign.scores
    found.notes = foreign.notes
    _write(preset_name, found, out)
    return found


def _imported(request: Request, categories: Sequence[Category], sets: SupportSets) -> Outcome:
    """What other systems found; before the long work, so that a mistake in a file shows at once."""
    found, eval_size = Outcome(), request.eval_size
    for name, folder in request.imports:
        if any(record.method == name for record in found.records):
            raise UsageError("import-name-twice", name=name)
        read = read_import(name, folder, categories)
        key = found.add_entry(imported_entry(name, read.sha256, eval_size=eval_size))
        options: dict[str, Any] = {"shots": sets.shots, "eval_size": eval_size, "provenance": key}
        records = list(import_records(read, categories, **options))
        if not records:
            shots = " or ".join(map(str, sets.shots))
            raise UsageError("import-shots", file=folder / "scores.csv", shots=shots)
        found.records += records
        found.scores.append(partial(import_rows, read, categories))
        found.notes += import_notes(read, categories, sets.shots, records)
    return found


def _write(preset_name: str, found: Outcome, out: Path) -> None:
    """Makes the tables and sentences of a run, and writes all but the figures."""
    records, notes, preset = found.records, found.notes, PRESETS[preset_name]
    scores = chain.from_iterable(rows() for rows in found.scores)
    write_records(records, found.entries, scores, out)
    found.tables = build_tables(preset_name, records, notes)
    if found.times:
        for name, table in found.tables.items():
            found.tables[name] = with_times(preset_name, table, found.times)
    found.details = category_tables(preset.title, preset.metrics, records, notes)
    if pairs := find_differences(records, preset.metrics):
        encoders = f"Encoder: {', '.join(measured_encoders(records))}."
        known = [encoders, *subset_notes(records), *notes]
        found.details["differences"] = differences_table(pairs, known)
        found.sentences = tuple(sentences(pairs))
    for stem, table in (found.tables | found.details).items():
        write_table(table, out, stem)


def _footnote(records: Sequence[Record]) -> str:
    """What stands under figures of a part of a data set."""
    notes = subset_notes(records)
    return f"Measured here: {' '.join(notes)}" if notes else ""
