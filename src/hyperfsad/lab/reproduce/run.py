"""A reproduction from suite to page; what was measured before is never measured again."""

import importlib.util
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...detector.settings import find_recipe
from ...errors import HyperfsadError, UsageError
from ...messages import Notice, Notify, log
from ..datasets import Category
from ..drawing.figures import ACCURACY_EFFICIENCY, QUALITATIVE, TRUTH_OVER_MAP, TSNE
from ..presets import PRESETS, passes
from ..published import sizes
from ..run import Outcome, Request, Suite, run_benchmark
from ..supports import SupportSets
from ..tables import Table, write_table
from ..timing import efficiency_table
from ..tokens import TokenCaches
from .page import EFFICIENCY, PRESET_TITLES, ReproductionPage, write_page

PAPER_PRESETS = (
    *("main", "peers", "lookup", "layers", "resolution"),
    *(EFFICIENCY, "lambda", "pooling"),
)
"""What the paper's tables and figures need, in its order. Its qualitative comparison shows several
methods; `peers` are those that run here."""

IMPORT_PRESETS = ("main", "peers", "authors")
"""The presets whose rows are methods: imported scores stand beside these."""

FIGURES: Mapping[str, Mapping[str, int | None]] = {
    "main": {TRUTH_OVER_MAP: 300, TSNE: None, ACCURACY_EFFICIENCY: None},
    "peers": {QUALITATIVE: 16},
}
"""What each preset draws, and how many images at most: 300 fill five pages, as many as the paper
has. Curves are drawn wherever there are any."""


@dataclass(frozen=True)
class Reproduction:
    """What was written, and what could not be done."""

    page: Path
    absent: tuple[Notice, ...]


@dataclass(frozen=True)
class Plan:
    """What can be run, and what cannot."""

    suite: Suite
    """The data sets that are here."""
    categories: tuple[Category, ...]
    sets: SupportSets
    encoders: dict[str, tuple[str, ...]]
    """Those that can be run, by preset."""
    images: int
    """To be scored, once for each pass over them."""
    figures: bool
    absent: tuple[Notice, ...] = ()
    """What the suite names and what cannot be run here."""


def reproduce(
    suite: Suite,
    out: Path,
    request: Request,
    presets: Sequence[str] = PAPER_PRESETS,
    *,
    file: str = "the suite",
    progress: Callable[[int], Callable[[int], None]] = lambda _: lambda __: None,
    notify: Notify = log,
) -> Reproduction:
    """Runs every preset in a folder of its own below `out`, then writes index.html.

    A killed run continues where it stopped, and the same call always writes the same bytes: times
    are measured once and stored. `file` is where the suite was read, for sentences about it;
    `progress(total)` returns the function that is called with the number of images just done.
    """
    caches = request.caches(notify)
    plan = make_plan(suite, request, presets, caches, file)
    for absent in plan.absent:
        notify(absent)
    advance = progress(plan.images)
    outcomes: dict[str, Outcome] = {}
    efficiency: Table | None = None
    for number, (preset, encoders) in enumerate(plan.encoders.items(), start=1):
        facts = {"number": number, "count": len(plan.encoders), "title": PRESET_TITLES[preset]}
        notify(Notice("running-preset", **facts))
        if preset == EFFICIENCY:
            efficiency = efficiency_table(
                plan.categories,
                encoders,
                shots=plan.sets.shots,
                recipe=request.recipe,
                work=out / preset / "work",
                device=request.device,
                engine=request.engine,
                precision=request.precision,
            )
            write_table(efficiency, out / preset, EFFICIENCY)
            continue
        outcomes[preset] = run_benchmark(
            replace(plan.suite, encoders=encoders),
            preset,
            out / preset,
            request if preset in IMPORT_PRESETS else replace(request, imports=()),
            caches=caches,
            progress=lambda _: advance,
            figures=FIGURES.get(preset, {}) if plan.figures else None,
        )
    left_out = [PRESET_TITLES[name] for name in PAPER_PRESETS if name not in plan.encoders]
    page = ReproductionPage(
        plan.suite,
        plan.categories,
        plan.sets,
        tuple(plan.encoders),
        outcomes,
        efficiency,
        plan.absent,
        left_out,
        _command(request, presets, file),
    )
    return Reproduction(write_page(page, out), plan.absent)


def _command(request: Request, presets: Sequence[str], suite: str) -> str:
    """A command that asks for the same; what changes no figure is left out."""
    words = ["hyperfsad", "lab", "reproduce", "--suite", suite]
    if request.supports:
        words += ["--supports", str(request.supports)]
    else:
        words += ["--shots", ",".join(map(str, request.shots)), "--runs", str(request.runs)]
        words += ["--seed", str(request.seed)]
    if tuple(presets) != PAPER_PRESETS:
        words += ["--presets", ",".join(presets)]
    for name, folder in request.imports:
        words += ["--import", f"{name}={folder}"]
    machine = ["--device", request.device, "--engine", request.engine]
    machine += ["--precision", request.precision]
    return shlex.join([*words, *machine, "-o", "out/"])


def make_plan(
    suite: Suite, request: Request, presets: Sequence[str], caches: TokenCaches, file: str
) -> Plan:
    """Tries every data set and every encoder of a suite; `file` is where it was read.

    An encoder is loaded, as nothing else shows that it can be: its weights are fetched if needed.
    """
    known = (*PRESETS, EFFICIENCY)
    for preset in presets or ("",):
        if preset not in known:
            raise UsageError("preset", given=preset, known=", ".join(known))
    absent: list[Notice] = []
    sources, categories = {}, list[Category]()
    for name, source in suite.sources.items():
        try:
            found = replace(suite, sources={name: source}).load()
            if not request.supports:  # so that too few good images show now
                request.support_sets(found, caches)
        except HyperfsadError as error:
            origin = sizes().get(name, {}).get("source")
            facts = {"dataset": name, "error": error, "source": origin, "file": file}
            absent.append(Notice("absent-dataset", **facts))
            continue
        sources[name] = source
        categories += found
    able = []
    for encoder in dict.fromkeys(suite.encoders):
        try:
            caches.of(find_recipe(request.recipe).settings(encoder))
        except HyperfsadError as error:
            absent.append(Notice("absent-encoder", encoder=encoder, error=error))
        else:
            able.append(encoder)
    if not categories or not able:
        kind = "encoders" if categories else "data sets"
        raise UsageError("suite-unusable", kind=kind, file=file, reasons=" ".join(absent))
    figures = all(map(importlib.util.find_spec, ("matplotlib", "sklearn")))
    if not figures:
        absent.append(Notice("absent-figures"))
    encoders: dict[str, tuple[str, ...]] = {}
    count = 0
    for preset in dict.fromkeys(presets):
        for encoder in able:
            try:  # some resolutions do not fit some patches
                if preset != EFFICIENCY:
                    count += len(passes(preset, encoder, None, request.recipe))
            except HyperfsadError as error:
                facts = {"preset": preset, "encoder": encoder, "error": error}
                absent.append(Notice("absent-preset", **facts))
            else:
                encoders[preset] = (*encoders.get(preset, ()), encoder)
    return Plan(
        replace(suite, sources=sources, encoders=tuple(able)),
        tuple(categories),
        request.support_sets(categories, caches),
        encoders,
        count * sum(len(category.test) for category in categories),
        figures,
        tuple(absent),
    )
