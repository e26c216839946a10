"""The page of a reproduction: one HTML file with every table and figure, that needs nothing else.

Names of files, encoders and data sets are other people's input; the template escapes them.
"""

import base64
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from ...disk.files import atomic_path
from ...report import pages
from ..records import short_name
from ..run import Outcome
from ..supports import file_name
from ..tables import Table, cell_text, mark
from .plan import PAPER_PRESETS, Plan, lasting
from .sections import PRESET_TITLES, PaperFigure, Section, subset_sentences

PAGE = "index.html"
_WIDEST = 1600
"""Pixels of a picture with photographs; the file itself stands beside the page."""
_QUALITY = 82


def write_page(
    plan: Plan,
    outcomes: Mapping[str, Outcome],
    sections: Sequence[Section],
    out: Path,
    command: str,
) -> Path:
    """Writes `index.html` and returns its path."""
    environment = pages.environment(__package__)
    chunks = environment.get_template("index.html.j2").generate(
        **pages.head(__package__, "reproduce.css"),
        absent=[lasting(each) for each in plan.absent],
        left_out=[PRESET_TITLES[name] for name in PAPER_PRESETS if name not in plan.presets],
        subsets=subset_sentences(outcomes),
        counts=counts(plan),
        sections=sections,
        row_groups=row_groups,
        picture=picture,
        provenance=provenance(plan, outcomes),
        supports=list(_supports(plan)),
        command=command,
    )
    path = out / PAGE
    with atomic_path(path, parents=True) as temporary, temporary.open("wb") as file:
        for chunk in chunks:
            file.write(chunk.encode("utf-8", errors="replace"))
    return path


def counts(plan: Plan) -> list[tuple[str, str]]:
    """Name and figure of what was run."""
    images = sum(len(category.test) for category in plan.categories)
    return [
        ("data sets", f"{len(plan.suite.sources):,}"),
        ("categories", f"{len(plan.categories):,}"),
        ("test images", f"{images:,}"),
        ("encoders", f"{len(plan.suite.encoders):,}"),
        ("shots", ", ".join(map(str, plan.sets.shots))),
        ("runs", f"{len(plan.sets.runs):,}"),
    ]


def row_groups(table: Table) -> list[dict[str, Any]]:
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


def picture(figure: PaperFigure) -> dict[str, Any]:
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


def provenance(plan: Plan, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """What the figures depend on, gathered from the entries of all presets."""
    entries = [entry for outcome in outcomes.values() for entry in outcome.entries.values()]
    encoders: dict[tuple[str, ...], list[str]] = {}
    versions: dict[str, str] = {}
    imports = {}
    for entry in entries:
        versions |= entry["versions"]
        if "imported" in entry:
            imports[entry["imported"]] = entry["scores_sha256"]
            continue
        machine = f"{entry['engine']} on {entry['device']}"
        layers = ", ".join(map(str, entry["layers"]))
        key = (short_name(entry["encoder"]), entry["weights"], layers, machine)
        encoders.setdefault(key, []).append(str(entry["resolution"]))
    return {
        "seed": plan.sets.seed,
        "versions": versions,
        "imports": imports,
        "encoders": [(*key, sorted(set(sizes), key=int)) for key, sizes in encoders.items()],
    }


def _supports(plan: Plan) -> Iterator[tuple[str, int, int, str]]:
    for (dataset, category), sets in plan.sets.supports.items():
        for (run, shots), paths in sets.items():
            names = ", ".join(map(file_name, paths))
            yield f"{dataset}/{category}", run, shots, names
