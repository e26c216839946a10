"""What a reproduction runs, and what it cannot run here."""

import importlib.util
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ...detector.settings import find_recipe
from ...errors import HyperfsadError, UsageError
from ...messages import Notice
from ...wording import COMMAND_LINE, worded
from ..datasets import Category
from ..drawing.figures import ACCURACY_EFFICIENCY, QUALITATIVE, TRUTH_OVER_MAP, TSNE
from ..presets import PRESETS, Pass, passes
from ..protocol import missing_images, pass_label, work_folder
from ..published import source_of
from ..run import Request, Suite
from ..supports import SupportSets, draw_category
from ..token_cache import TokenCaches

EFFICIENCY = "efficiency"
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


def command(request: Request, presets: Sequence[str], suite: str) -> str:
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
    return shlex.join(
        [*words, "--device", request.device, "--engine", request.engine, "-o", "out/"]
    )


def lasting(notice: Notice) -> str:
    """The sentence of a notice for the page, which does not change from run to run as the answers
    of a network do."""
    facts, error = dict(notice.facts), notice.facts.get("error")
    if error is not None and "reasons" in error.facts:
        tried = dict.fromkeys(error.facts["reasons"], "not available")
        facts["error"] = type(error)(error.code, **{**error.facts, "reasons": tried})
    return worded(notice.code, facts, COMMAND_LINE)


@dataclass(frozen=True)
class Plan:
    """What can be run, and what cannot."""

    request: Request
    suite: Suite
    """The data sets that are here."""
    categories: tuple[Category, ...]
    sets: SupportSets
    encoders: dict[str, tuple[str, ...]]
    """Those that can be run, by preset."""
    figures: bool
    absent: tuple[Notice, ...] = ()
    """What the suite names and what cannot be run here."""

    @property
    def presets(self) -> tuple[str, ...]:
        """Those with something to run."""
        return tuple(self.encoders)

    @cached_property
    def passes(self) -> list[tuple[str, Pass]]:
        """Preset by preset, the variants that read the same tokens."""
        return [
            (preset, each)
            for preset, encoders in self.encoders.items()
            if preset != EFFICIENCY
            for encoder in encoders
            for size in PRESETS[preset].resolutions
            for each in passes(preset, encoder, size, self.request.recipe)
        ]


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
    sources, categories = {}, []
    for name, source in suite.sources.items():
        try:
            found = replace(suite, sources={name: source}).load()
            if not request.supports:
                for category in found:  # so that too few good images show now
                    rule = request.shots, request.runs, request.seed, caches.content_hash
                    draw_category(category, *rule)
        except HyperfsadError as error:
            facts = {"dataset": name, "error": error, "source": source_of(name), "file": file}
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
    sets = request.support_sets(categories, caches)
    encoders, refused = _by_preset(able, presets, request.recipe)
    drawable = all(map(importlib.util.find_spec, ("matplotlib", "sklearn")))
    if not drawable:
        absent.append(Notice("absent-figures"))
    usable = replace(suite, sources=sources, encoders=tuple(able))
    everything = (*absent, *refused)
    return Plan(request, usable, tuple(categories), sets, encoders, drawable, everything)


def images_left(plan: Plan, out: Path) -> int:
    """How many images are still to be scored, once for each pass over them."""
    left = 0
    for preset, (settings, _) in plan.passes:
        work = work_folder(out / preset, preset, pass_label(settings, plan.encoders[preset]))
        left += sum(missing_images(category, work) for category in plan.categories)
    return left


def _by_preset(
    encoders: Sequence[str], presets: Sequence[str], recipe: str
) -> tuple[dict[str, tuple[str, ...]], list[Notice]]:
    """The encoders that each preset can run: some resolutions do not fit some patches."""
    found: dict[str, tuple[str, ...]] = {}
    refused = []
    for preset in dict.fromkeys(presets):
        for encoder in encoders:
            try:
                for size in PRESETS[preset].resolutions if preset in PRESETS else ():
                    passes(preset, encoder, size, recipe)
            except HyperfsadError as error:
                facts = {"preset": preset, "encoder": encoder, "error": error}
                refused.append(Notice("absent-preset", **facts))
            else:
                found[preset] = (*found.get(preset, ()), encoder)
    return found, refused
