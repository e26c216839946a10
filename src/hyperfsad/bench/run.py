"""A benchmark run: from data sets on disk to records and tables, resumable at any point."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..detector.recipes import PAPER_OFFLINE
from ..disk.files import atomic_path
from ..errors import UsageError, first_line
from ..messages import Notify, silent
from .datasets import Category
from .illustrate import draw_curves, draw_figures
from .layouts import load_dataset
from .presets import PRESETS, build_tables, passes
from .protocol import Protocol, Record, evaluate
from .tables import Table, write_table
from .token_cache import DEFAULT_LIMIT, TokenCache


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
                f' ["dinov2-vits14-reg"]}}: {first_line(error)}.'
            ) from error
        return cls(sources, named)

    def load(self) -> list[Category]:
        """All categories, in the order of the file."""
        return [
            replace(category, dataset=name)
            for name, source in self.sources.items()
            for category in load_dataset(source.layout, source.root, self.categories)
        ]


@dataclass(frozen=True)
class Outcome:
    """What a run found."""

    records: list[Record]
    tables: dict[str, Table]


def run_benchmark(
    suite: Suite,
    preset_name: str,
    out: Path,
    *,
    shots: Sequence[int] = (1, 2, 4),
    runs: int = 5,
    seed: int = 0,
    eval_size: int = 256,
    resolution: int | None = None,
    rotations: int = 1,
    recipe: str = PAPER_OFFLINE,
    device: str = "auto",
    engine: str = "torch",
    cache_limit: int = DEFAULT_LIMIT,
    progress: Callable[[int], Callable[[int], None]] = lambda _: lambda __: None,
    figures: bool = False,
    notify: Notify = silent,
) -> Outcome:
    """Measures, and writes records.jsonl and the tables.

    `progress(total)` returns the function that is called with the number of images just done.
    `recipe` is that of our own rows, and sets the encoder's layers for all. `figures` draws the
    kinds of figures that the paper has, one folder for each encoder and resolution. With
    `rotations`, peers that can remember turned support run both ways. The engine is torch unless
    another is named, so that numbers do not depend on what else is installed.
    """
    if not shots or min(shots) < 1 or runs < 1:
        raise UsageError("Shots and runs are at least 1.")
    if preset_name not in PRESETS:
        raise UsageError(f"The preset is one of {', '.join(PRESETS)}, not {preset_name!r}.")
    preset = PRESETS[preset_name]
    categories = suite.load()
    sizes = preset.resolutions if resolution is None else (resolution,)
    plan = [
        each
        for encoder in suite.encoders
        for size in sizes
        for each in passes(preset_name, encoder, size, recipe, rotations)
    ]
    advance = progress(sum(len(category.test) for category in categories) * len(plan))
    records: list[Record] = []
    for settings, variants in plan:
        cache = TokenCache(settings, device=device, engine=engine, limit=cache_limit, notify=notify)
        protocol = Protocol(tuple(sorted(set(shots))), runs, seed, eval_size, variants)
        shared = settings.form == "unit"
        label = f"{os.path.basename(settings.name)}-{settings.resolution}"
        label += "" if shared else f"-{settings.form}"
        work = out / "work" / f"{preset_name}-{label}"
        for category in categories:
            records += evaluate(category, protocol, cache, work, advance)
        if figures and shared:
            folder = out / "figures" / label
            draw_figures(preset_name, categories, protocol, cache, work, folder)
    if figures:
        draw_curves(preset_name, records, out / "figures")
    tables = build_tables(preset_name, records)
    with atomic_path(out / "records.jsonl", parents=True) as temporary:
        lines = [json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in records]
        temporary.write_text("".join(lines), encoding="utf-8")
    for stem, table in tables.items():
        write_table(table, out, stem)
    return Outcome(records, tables)
