"""What stands where: the paper's tables and figures in its order, for the page and for LaTeX."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..presets import PRESETS, build_tables, cut_notes
from ..protocol import Record
from ..run import Outcome
from ..tables import Table
from .plan import EFFICIENCY, Plan

FIRST_SETS = ("mvtec", "visa")
"""The paper's ablations are on these; the other sets stand in tables of its appendix."""

PRESET_TITLES = {name: preset.title for name, preset in PRESETS.items()} | {
    EFFICIENCY: "Efficiency"
}


@dataclass(frozen=True)
class Figure:
    """A picture that was drawn, as PNG and PDF."""

    png: Path
    caption: str
    photographs: bool = False
    """Whether it shows photographs, which are smaller as JPEG."""
    small: bool = False
    """Whether it is a curve, of which several fit side by side."""

    @property
    def pdf(self) -> Path:
        return self.png.with_suffix(".pdf")


@dataclass(frozen=True)
class ShownTable:
    """A table, and where the paper has it."""

    table: Table
    place: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    key: str
    title: str
    text: str
    tables: tuple[ShownTable, ...] = ()
    figures: tuple[Figure, ...] = ()
    sentences: tuple[str, ...] = ()
    """Who is ahead of whom."""


def make_sections(
    plan: Plan, outcomes: Mapping[str, Outcome], efficiency: Table | None
) -> list[Section]:
    """The sections of what was run, in the order of the paper."""
    found = []
    for preset in plan.presets:
        if preset == EFFICIENCY and efficiency is not None:
            text = "What an image costs. The two kinds of rows are from different machines."
            tables = (ShownTable(efficiency, "Table 5 of the paper"),)
            found.append(Section(EFFICIENCY, "Efficiency", text, tables))
        elif preset in outcomes:
            found += _SECTIONS.get(preset, _plain)(preset, plan, outcomes[preset])
    if "main" in outcomes:
        found += list(_closing(plan, outcomes["main"]))
    return found


def _main(preset: str, plan: Plan, outcome: Outcome) -> Iterator[Section]:
    places = ("Table 1 of the paper", "Table 6 of the paper", "Table 7 of the paper")
    tables = [
        ShownTable(table, place)
        for table, place in zip(outcome.tables.values(), places, strict=True)
    ]
    fewest = min(plan.draws.shots)
    caption = (
        f"{fewest}-shot accuracy against time, as Figure 1 of the paper. Discs are published; rings"
        " were measured here, on other data and another machine where the legend says so."
    )
    text = (
        "The paper's algorithm on the encoders of the suite, beside the figures that the paper"
        " prints for itself and for others."
    )
    yield Section(
        preset,
        PRESET_TITLES[preset],
        text,
        tuple(tables),
        _figures(outcome, "accuracy-efficiency", caption),
        outcome.sentences,
    )


def _peers(preset: str, plan: Plan, outcome: Outcome) -> Iterator[Section]:
    tables = tuple(
        ShownTable(_measured(table), "measured here alone; the published rows stand above")
        for table in outcome.tables.values()
    )
    fewest = min(plan.draws.shots)
    caption = (
        f"Qualitative comparison of {fewest}-shot anomaly maps, as Figure 3 of the paper: image,"
        " truth, and the map of each method on its own scale, which is the same for all images."
    )
    text = (
        "Other training-free methods that run here, on the same tokens and the same support"
        " images: what differs is the method alone."
    )
    figures = _figures(outcome, f"{preset}-qualitative", caption, photographs=True)
    yield Section(preset, PRESET_TITLES[preset], text, tables, figures, outcome.sentences)


def _crossed(preset: str, plan: Plan, outcome: Outcome) -> Iterator[Section]:
    """MVTec AD and VisA first, the other sets in a section of their own, as in the appendix."""
    numbers = {"lookup": (2, 8), "layers": (3, 9)}[preset]
    texts = {
        "lookup": "How similarities become weights: sparsemax, and what might stand in its place.",
        "layers": "Which layers of the encoder are compared.",
    }
    title = PRESET_TITLES[preset]
    first = [record for record in outcome.records if record.dataset in FIRST_SETS]
    rest = [record for record in outcome.records if record.dataset not in FIRST_SETS]
    parts = (
        (preset, title, first, f"Table {numbers[0]} of the paper"),
        (
            f"{preset}-cross",
            f"{title}, across data sets",
            rest,
            f"Table {numbers[1]} of the paper",
        ),
    )
    said = outcome.sentences
    for key, heading, records, place in parts:
        if records:
            yield Section(key, heading, texts[preset], _split(preset, records, place), (), said)
            said = ()  # they are over all data sets, and said once


def _split(preset: str, records: Sequence[Record], place: str) -> tuple[ShownTable, ...]:
    tables = build_tables(preset, records).values()
    more = "the same rows in metrics that the paper does not print"
    return tuple(
        ShownTable(table, place if number == 0 else more) for number, table in enumerate(tables)
    )


def _curves(preset: str, plan: Plan, outcome: Outcome) -> Iterator[Section]:
    number, text, axis = {
        "resolution": (4, "The side of the encoder's square input, and its cost.", "resolution"),
        "lambda": (
            10,
            "λ weights the map against the CLS token: 0 is the CLS token alone, 1 the map alone.",
            "λ",
        ),
    }[preset]
    tables = tuple(
        ShownTable(table, f"Table {number} of the paper") for table in outcome.tables.values()
    )
    figures = [
        Figure(png, f"{metric} over {axis}, measured here with {encoder}.", small=True)
        for png in outcome.figures
        for metric in PRESETS[preset].tables[0]
        if png.name.endswith(f"-{metric.lower()}.png")
        and (encoder := png.stem.removeprefix(f"{preset}-").removesuffix(f"-{metric.lower()}"))
    ]
    yield Section(preset, PRESET_TITLES[preset], text, tables, tuple(figures), outcome.sentences)


def _plain(preset: str, plan: Plan, outcome: Outcome) -> Iterator[Section]:
    place = {"pooling": "Table 11 of the paper"}.get(preset, "not in the paper")
    text = {
        "pooling": "How the map becomes one number.",
        "authors": "Peers on the shared tokens, and once more with their authors' settings.",
    }[preset]
    tables = tuple(ShownTable(table, place) for table in outcome.tables.values())
    yield Section(preset, PRESET_TITLES[preset], text, tables, (), outcome.sentences)


_SECTIONS = {
    "main": _main,
    "peers": _peers,
    "lookup": _crossed,
    "layers": _crossed,
    "resolution": _curves,
    "lambda": _curves,
}


def _closing(plan: Plan, outcome: Outcome) -> Iterator[Section]:
    caption = (
        "t-SNE of the CLS tokens, layer by layer and all layers together, as Figure 4 of the"
        " paper: good and anomalous test images."
    )
    if figures := _figures(outcome, "tsne-cls", caption):
        text = "How far the CLS tokens of the encoder tell good from bad by themselves."
        yield Section("tsne", "CLS tokens in the plane", text, figures=figures)
    caption = (
        f"{min(plan.draws.shots)}-shot anomaly maps of Hyper-FSAD under the outline of the truth,"
        " as Figures 5 to 9 of the paper."
    )
    if figures := _figures(outcome, "main-truth-over-map", caption, photographs=True):
        text = "Defects at even distances through all categories, found or missed."
        yield Section("maps", "More anomaly maps", text, figures=figures)


def _figures(
    outcome: Outcome, stem: str, caption: str, photographs: bool = False
) -> tuple[Figure, ...]:
    """The pictures whose names begin so; each says which encoder, as its folder does."""
    return tuple(
        Figure(path, f"{caption} Measured here with {_with(path.parent.name)}.", photographs)
        for path in outcome.figures
        if path.suffix == ".png" and path.stem.startswith(stem)
    )


def _with(label: str) -> str:
    """Encoder and resolution, from the name of a folder such as dinov2-vits14-448."""
    encoder, _, pixels = label.rpartition("-")
    return f"{encoder}, {pixels} px"


def _measured(table: Table) -> Table:
    """A table without what is published."""
    return replace(table, rows=tuple(row for row in table.rows if not row.published))


def cuts(outcomes: Mapping[str, Outcome]) -> list[str]:
    """A sentence on each data set of which only a part was measured."""
    found = (note for outcome in outcomes.values() for note in cut_notes(outcome.records))
    return list(dict.fromkeys(found))


def short(encoder: str) -> str:
    """An encoder's name; of a folder the last part."""
    return os.path.basename(os.path.normpath(encoder))
