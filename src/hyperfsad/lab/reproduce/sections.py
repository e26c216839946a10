"""What stands where: the paper's tables and figures in its order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from ..drawing.figures import ACCURACY_EFFICIENCY, TSNE
from ..preset_tables import build_tables, subset_notes
from ..presets import PRESETS
from ..run import Outcome
from ..tables import Table
from .plan import EFFICIENCY, Plan

FIRST_SETS = ("mvtec", "visa")
"""The paper's ablations are on these; the other sets stand in tables of its appendix."""

PRESET_TITLES = {name: preset.title for name, preset in PRESETS.items()} | {
    EFFICIENCY: "Efficiency"
}

_TABLES = {
    "main": (1, 6, 7),
    "lookup": (2,),
    "layers": (3,),
    "resolution": (4,),
    EFFICIENCY: (5,),
    "lambda": (10,),
    "pooling": (11,),
}
"""The numbers of the paper's tables; the tables of a preset that have none are not in the paper."""

_APPENDIX = {"lookup": (8,), "layers": (9,)}
"""The same rows on the other data sets."""

_TEXTS = {
    "main": "The paper's algorithm on the encoders of the suite, beside the figures that the paper"
    " prints for itself and for others.",
    "peers": "Other training-free methods that run here, on the same tokens and the same support"
    " images: only the method differs. The published rows stand above.",
    "authors": "Peers on the shared tokens, and once more with their authors' settings.",
    "lookup": "How similarities become weights: sparsemax, and what might stand in its place.",
    "layers": "Which layers of the encoder are compared.",
    "resolution": "The side of the encoder's square input, and its cost.",
    EFFICIENCY: "What an image costs. The two kinds of rows are from different machines.",
    "lambda": "λ weights the map against the CLS token: 0 is the CLS token alone, 1 the map alone.",
    "pooling": "How the map becomes one number.",
}
_CAPTIONS = {
    ACCURACY_EFFICIENCY: "{shots}-shot accuracy against time, as Figure 1 of the paper. Discs are"
    " published; rings were measured here, on other data and another machine where the legend says"
    " so.",
    "peers-qualitative": "Qualitative comparison of {shots}-shot anomaly maps, as Figure 3 of the"
    " paper: image, truth, and the map of each method on its own scale, which is the same for all"
    " images.",
    TSNE: "t-SNE of the CLS tokens, layer by layer and all layers together, as Figure 4 of the"
    " paper: good and anomalous test images.",
    "main-truth-over-map": "{shots}-shot anomaly maps of Hyper-FSAD under the outline of the truth,"
    " as Figures 5 to 9 of the paper.",
}


@dataclass(frozen=True)
class PaperFigure:
    """A figure that was drawn."""

    png: Path
    caption: str
    photographs: bool = False
    """Whether it shows photographs, which are smaller as JPEG."""
    small: bool = False
    """Whether it is a curve, of which several fit side by side."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    key: str
    title: str
    text: str
    tables: tuple[tuple[Table, str], ...] = ()
    """Each with the place where the paper has it."""
    figures: tuple[PaperFigure, ...] = ()
    sentences: tuple[str, ...] = ()
    """Which method leads."""


def make_sections(
    plan: Plan, outcomes: Mapping[str, Outcome], efficiency: Table | None
) -> Iterator[Section]:
    """The sections of what was run, in the order of the paper."""
    shots = min(plan.sets.shots)
    for preset in plan.presets:
        title, text = PRESET_TITLES[preset], _TEXTS[preset]
        if preset == EFFICIENCY:
            tables = _placed({EFFICIENCY: efficiency} if efficiency else {}, _TABLES[EFFICIENCY])
            yield Section(EFFICIENCY, title, text, tables)
            continue
        outcome = outcomes[preset]
        said = outcome.sentences
        if preset in _APPENDIX:
            first = [record for record in outcome.records if record.dataset in FIRST_SETS]
            rest = [record for record in outcome.records if record.dataset not in FIRST_SETS]
            if first:
                tables = _placed(build_tables(preset, first), _TABLES[preset])
                yield Section(preset, title, text, tables, (), said)
            if rest:
                key, heading = f"{preset}-cross", f"{title}, across data sets"
                tables = _placed(build_tables(preset, rest), _APPENDIX[preset])
                yield Section(key, heading, text, tables, (), () if first else said)
            continue
        shown = outcome.tables
        if preset == "peers":
            shown = {
                name: replace(table, rows=tuple(row for row in table.rows if not row.published))
                for name, table in shown.items()
            }
        stem = {"main": ACCURACY_EFFICIENCY, "peers": "peers-qualitative"}.get(preset)
        figures = _pictures(outcome, stem, shots) if stem else _curves(preset, outcome)
        tables = _placed(shown, _TABLES.get(preset, ()))
        yield Section(preset, title, text, tables, figures, said)
    if "main" in outcomes:
        if figures := _pictures(outcomes["main"], TSNE, shots):
            text = "How far the CLS tokens of the encoder separate good from bad by themselves."
            yield Section("tsne", "CLS tokens in the plane", text, figures=figures)
        if figures := _pictures(outcomes["main"], "main-truth-over-map", shots):
            text = "Defects at even distances through all categories, found or missed."
            yield Section("maps", "More anomaly maps", text, figures=figures)


def subset_sentences(outcomes: Mapping[str, Outcome]) -> list[str]:
    """A sentence on each data set of which only a part was measured."""
    found = (note for outcome in outcomes.values() for note in subset_notes(outcome.records))
    return list(dict.fromkeys(found))


def _placed(tables: Mapping[str, Table], numbers: tuple[int, ...]) -> tuple[tuple[Table, str], ...]:
    places = [f"Table {number} of the paper" for number in numbers]
    pairs = zip_longest(tables.values(), places[: len(tables)], fillvalue="not in the paper")
    return tuple(pairs)  # type: ignore[arg-type]


def _pictures(outcome: Outcome, stem: str, shots: int) -> tuple[PaperFigure, ...]:
    """The figures whose names begin so; the folder of each names its encoder and resolution."""
    found = []
    for path in outcome.figures:
        if path.suffix == ".png" and path.stem.startswith(stem):
            encoder, _, pixels = path.parent.name.rpartition("-")
            caption = _CAPTIONS[stem].format(shots=shots)
            caption += f" Measured here with {encoder}, {pixels} px."
            found.append(
                PaperFigure(path, caption, photographs=stem not in (ACCURACY_EFFICIENCY, TSNE))
            )
    return tuple(found)


def _curves(preset: str, outcome: Outcome) -> tuple[PaperFigure, ...]:
    axis = {"resolution": "resolution", "lambda": "λ"}.get(preset, "")
    return tuple(
        PaperFigure(png, f"{metric} over {axis}, measured here with {encoder}.", small=True)
        for png in outcome.figures
        for metric in PRESETS[preset].tables[0]
        if png.name.endswith(f"-{metric.lower()}.png")
        and (encoder := png.stem.removeprefix(f"{preset}-").removesuffix(f"-{metric.lower()}"))
    )
