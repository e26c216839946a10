"""What a reproduction runs, and what it cannot run here."""

import importlib.util
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ...detector.recipes import PAPER_OFFLINE, find_recipe
from ...errors import HyperfsadError, UsageError
from ..datasets import Category
from ..drawing.illustrate import Drawn
from ..presets import PRESETS, Pass, passes
from ..run import Source, Suite
from ..sizes import source_of
from ..supports import Draws, draw, draw_category, read_draws
from ..token_cache import DEFAULT_LIMIT, TokenCaches

EFFICIENCY = "efficiency"
PAPER_PRESETS = (
    *("main", "peers", "lookup", "layers", "resolution"),
    *(EFFICIENCY, "lambda", "pooling"),
)
"""What the paper's tables and figures need, in its order. Its qualitative comparison shows several
methods; `peers` are those that run here."""

METHODS = ("main", "peers", "authors")
"""The presets whose rows are methods: beside these, imported scores stand."""

QUALITATIVE_ROWS = 16
TILES = 300
"""Five pages, as many as the paper has."""
_NONE = Drawn(qualitative=False, truth_over_map=False, tsne=False, accuracy_efficiency=False)
FIGURES = {
    "main": Drawn(qualitative=False, tiles=TILES),
    "peers": replace(_NONE, qualitative=True, rows=QUALITATIVE_ROWS),
}
"""What each preset draws; curves are drawn wherever there are any."""


_ANSWERS = re.compile(r" and could not be downloaded \(.*\)(?=\. To get them)")


@dataclass(frozen=True)
class Request:
    """What the user asked for besides the suite."""

    shots: tuple[int, ...] = (1, 2, 4)
    runs: int = 5
    seed: int = 0
    supports: Path | None = None
    presets: tuple[str, ...] = PAPER_PRESETS
    imports: tuple[tuple[str, Path], ...] = ()
    device: str = "auto"
    engine: str = "torch"
    cache_limit: int = DEFAULT_LIMIT
    recipe: str = PAPER_OFFLINE
    """The paper's algorithm, on whatever encoders the suite names."""

    def __post_init__(self) -> None:
        known = (*PRESETS, EFFICIENCY)
        for name in self.presets:
            if name not in known:
                raise UsageError(f"The presets are {', '.join(known)}, not {name!r}.")
        if not self.presets:
            raise UsageError(f"Name at least one preset of {', '.join(known)}.")
        if not self.shots or min(self.shots) < 1 or self.runs < 1:
            raise UsageError("Shots and runs are at least 1.")

    def command(self, suite: str) -> str:
        """A command that asks for the same; what changes no figure is left out."""
        words = ["hyperfsad", "lab", "reproduce", "--suite", suite]
        if self.supports:
            words += ["--supports", str(self.supports)]
        else:
            words += ["--shots", ",".join(map(str, self.shots)), "--runs", str(self.runs)]
            words += ["--seed", str(self.seed)]
        if self.presets != PAPER_PRESETS:
            words += ["--presets", ",".join(self.presets)]
        for name, folder in self.imports:
            words += ["--import", f"{name}={folder}"]
        words += ["--device", self.device, "--engine", self.engine, "-o", "out/"]
        return shlex.join(words)


@dataclass(frozen=True)
class Absent:
    """Something that the suite names and that cannot be run here."""

    what: str
    error: str
    """The sentence that it failed with."""
    way: str = ""
    """What to do, where the error does not say it."""

    def __str__(self) -> str:
        return f"Not done, {self.what}: {f'{self.error} {self.way}'.strip()}"

    @property
    def why(self) -> str:
        """Error and way for the page, without what the network answered: that changes from run to
        run, and the page does not."""
        text = _ANSWERS.sub("", self.error).replace("`", "")
        return f"{text} {self.way}".strip()


@dataclass(frozen=True)
class Plan:
    """What can be run, and what cannot."""

    request: Request
    suite: Suite
    """The data sets that are here."""
    categories: tuple[Category, ...]
    draws: Draws
    encoders: dict[str, tuple[str, ...]]
    """Those that can be run, by preset."""
    figures: bool
    absent: tuple[Absent, ...] = field(default=())

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
            for each in passes(preset, encoder, size, self.request.recipe, rotations=1)
        ]

    def drawn(self, preset: str) -> Drawn | None:
        """The figures of a preset; none where they cannot be drawn."""
        return FIGURES.get(preset, _NONE) if self.figures else None


def make_plan(suite: Suite, request: Request, caches: TokenCaches, file: str) -> Plan:
    """Tries every data set and every encoder of a suite; `file` is where it was read.

    An encoder is loaded, as nothing else shows that it can be: its weights are fetched if needed.
    """
    absent: list[Absent] = []
    sources, categories = {}, []
    for name, source in suite.sources.items():
        try:
            found = _loaded(name, source, suite, request, caches)
        except HyperfsadError as error:
            absent.append(Absent(f"data set {name}", str(error), _data_way(name, file)))
            continue
        sources[name] = source
        categories += found
    able = []
    for encoder in dict.fromkeys(suite.encoders):
        try:
            caches.of(find_recipe(request.recipe).settings(encoder))
        except HyperfsadError as error:
            absent.append(Absent(f"encoder {encoder}", str(error)))
        else:
            able.append(encoder)
    if not categories or not able:
        what = "data sets" if not categories else "encoders"
        reasons = " ".join(map(str, absent)) or f"It names no {what}."
        raise UsageError(f"None of the {what} of {file} can be used. {reasons}")
    if request.supports:
        draws = read_draws(request.supports, categories)
    else:
        drawn = request.shots, request.runs, request.seed, caches.content_hash
        draws = draw(categories, *drawn)
    encoders, refused = _by_preset(able, request)
    lacking = [name for name in ("matplotlib", "sklearn") if not importlib.util.find_spec(name)]
    if lacking:
        way = "matplotlib or scikit-learn is not installed; pip install 'hyperfsad[bench]'."
        absent.append(Absent("figures", way))
    usable = replace(suite, sources=sources, encoders=tuple(able))
    everything = (*absent, *refused)
    return Plan(request, usable, tuple(categories), draws, encoders, not lacking, everything)


def _loaded(
    name: str, source: Source, suite: Suite, request: Request, caches: TokenCaches
) -> list[Category]:
    found = replace(suite, sources={name: source}).load()
    if not request.supports:
        for category in found:  # so that a category with too few good images is told now
            draw_category(category, request.shots, request.runs, request.seed, caches.content_hash)
    return found


def _data_way(name: str, file: str) -> str:
    source = source_of(name)
    whence = f"Get it from its authors ({source}), and" if source else "To measure it,"
    return f"{whence} name its folder in {file}."


def _by_preset(
    encoders: Sequence[str], request: Request
) -> tuple[dict[str, tuple[str, ...]], list[Absent]]:
    """The encoders that each preset can run: some resolutions do not fit some patches."""
    found: dict[str, tuple[str, ...]] = {}
    refused = []
    for preset in dict.fromkeys(request.presets):
        able = []
        for encoder in encoders:
            try:
                for size in PRESETS[preset].resolutions if preset in PRESETS else ():
                    passes(preset, encoder, size, request.recipe, rotations=1)
            except HyperfsadError as error:
                refused.append(Absent(f"{preset} with {encoder}", str(error)))
            else:
                able.append(encoder)
        if able:
            found[preset] = tuple(able)
    return found, refused
