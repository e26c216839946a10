"""The page of a reproduction: the paper's tables and figures in its order, in one HTML file that
needs nothing else.

Names of files, encoders and data sets are other people's input; the template escapes them.
"""

import base64
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from ...disk.files import atomic_path
from ...messages import Notice
from ...report import pages
from ...wording import COMMAND_LINE, worded
from ..comparisons import build_tables, subset_notes
from ..datasets import Category
from ..drawing.figures import ACCURACY_EFFICIENCY, TSNE
from ..presets import PRESETS
from ..records import short_name
from ..run import Outcome, Suite
from ..supports import SupportSets, file_name
from ..tables import Table, cell_text, mark

EFFICIENCY = "efficiency"
FIRST_SETS = ("mvtec", "visa")
"""The paper's ablations are on these; the other sets stand in tables of its appendix."""

PRESET_TITLES = {name: preset.title for name, preset in PRESETS.items()} | {
    EFFICIENCY: "Efficiency"
}
_WIDEST, _QUALITY = 1600, 82
"""Pixels of a picture with photographs, and its quality; the file itself is beside the page."""

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


@dataclass(frozen=True)
class ReproductionPage:
    """What the page shows."""

    suite: Suite
    categories: Sequence[Category]
    sets: SupportSets
    presets: Sequence[str]
    """In the order of their sections."""
    outcomes: Mapping[str, Outcome]
    efficiency: Table | None
    absent: Sequence[Notice]
    left_out: Sequence[str]
    """Titles of presets that were not asked for."""
    command: str


def write_page(page: ReproductionPage, out: Path) -> Path:
    """Writes `index.html` and returns its path."""
    notes = (note for each in page.outcomes.values() for note in subset_notes(each.records))
    chunks = (
        pages.environment(__package__)
        .get_template("index.html.j2")
        .generate(
            **pages.head(__package__, "reproduce.css"),
            absent=[_lasting(each) for each in page.absent],
            left_out=page.left_out,
            subsets=list(dict.fromkeys(notes)),
            counts=_counts(page),
            sections=list(_sections(page)),
            row_groups=_row_groups,
            picture=_picture,
            provenance=_provenance(page),
            supports=[
                (f"{dataset}/{category}", run, shots, ", ".join(map(file_name, paths)))
                for (dataset, category), sets in page.sets.supports.items()
                for (run, shots), paths in sets.items()
            ],
            command=page.command,
        )
    )
    path = out / "index.html"
    with atomic_path(path, parents=True) as temporary, temporary.open("wb") as file:
        for chunk in chunks:
            file.write(chunk.encode("utf-8", errors="replace"))
    return path


def _lasting(notice: Notice) -> str:
    """The sentence of a notice for the page, which does not change from run to run as the answers
    of a network do."""
    facts, error = dict(notice.facts), notice.facts.get("error")
    if error is not None and "reasons" in error.facts:
        tried = dict.fromkeys(error.facts["reasons"], "not available")
        facts["error"] = type(error)(error.code, **{**error.facts, "reasons": tried})
    return worded(notice.code, facts, COMMAND_LINE)


def _counts(page: ReproductionPage) -> dict[str, str]:
    """Name and figure of what was run."""
    return {
        "data sets": f"{len(page.suite.sources):,}",
        "categories": f"{len(page.categories):,}",
        "test images": f"{sum(len(category.test) for category in page.categories):,}",
        "encoders": f"{len(page.suite.encoders):,}",
        "shots": ", ".join(map(str, page.sets.shots)),
        "runs": f"{len(page.sets.runs):,}",
    }


def _sections(page: ReproductionPage) -> Iterator[Section]:
    """The sections of what was run, in the order of the paper."""
    shots, outcomes = min(page.sets.shots), page.outcomes
    for preset in page.presets:
        title, text = PRESET_TITLES[preset], _TEXTS[preset]
        if preset == EFFICIENCY and page.efficiency:
            tables = _placed({EFFICIENCY: page.efficiency}, _TABLES[EFFICIENCY])
            yield Section(EFFICIENCY, title, text, tables)
        if preset not in outcomes:
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


def _placed(tables: Mapping[str, Table], numbers: tuple[int, ...]) -> tuple[tuple[Table, str], ...]:
    places = [f"Table {number} of the paper" for number in numbers]
    pairs = itertools.zip_longest(
        tables.values(), places[: len(tables)], fillvalue="not in the paper"
    )
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


def _row_groups(table: Table) -> list[dict[str, Any]]:
    """The rows as the page shows them: published and measured ones apart, each cell as its text,
    its deviation, and best, second or nothing."""
    marks, found = mark(table), []
    for (group, published), rows in itertools.groupby(
        enumerate(table.rows), key=lambda pair: (pair[1].group, pair[1].published)
    ):
        shown = []
        for number, row in rows:
            pairs = zip(row.cells, table.columns, strict=True)
            cells = [
                (*cell_text(cell, column), marks.get((number, place), ""))
                for place, (cell, column) in enumerate(pairs)
            ]
            shown.append((row.label, row.ours, cells))
        found.append({"title": group, "published": published, "rows": shown})
    return found


def _picture(figure: PaperFigure) -> dict[str, Any]:
    """What the template needs of a picture: its address, which is its content, and its size."""
    content, kind = figure.png.read_bytes(), "png"
    with Image.open(io.BytesIO(content)) as image:
        size = image.size
        if figure.photographs:
            small = image.convert("RGB")
            small.thumbnail((_WIDEST, 4 * _WIDEST))
            size, buffer, kind = small.size, io.BytesIO(), "jpeg"
            small.save(buffer, "JPEG", quality=_QUALITY)
            content = buffer.getvalue()
    data = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    return {"data": data, "width": size[0], "height": size[1]}


def _provenance(page: ReproductionPage) -> dict[str, Any]:
    """What the figures depend on, gathered from the entries of all presets."""
    entries = [entry for outcome in page.outcomes.values() for entry in outcome.entries.values()]
    encoders: dict[tuple[str, ...], list[str]] = {}
    versions: dict[str, str] = {}
    imports = {}
    for entry in entries:
        versions |= entry["versions"]
        if "imported" in entry:
            imports[entry["imported"]] = entry["scores_sha256"]
            continue
        machine = f"{entry['engine']} in {entry['precision']} on {entry['device']}"
        layers = ", ".join(map(str, entry["layers"]))
        key = (short_name(entry["encoder"]), entry["weights"], layers, machine)
        encoders.setdefault(key, []).append(str(entry["resolution"]))
    return {
        "seed": page.sets.seed,
        "versions": versions,
        "imports": imports,
        "encoders": [(*key, sorted(set(sizes), key=int)) for key, sizes in encoders.items()],
    }
