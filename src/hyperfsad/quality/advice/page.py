"""The page of the advice: one HTML file that needs nothing else."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from ...disk.files import atomic_path, encoded
from ...images.loading import load_image
from ...report import pages
from ...results.heatmap import thumbnail
from . import text
from .chart import size_chart
from .comparing import Advice
from .defects import KINDS, SIZES, draw_defect
from .trial import Sample, Trial

PAGE, FIGURES = "advice.html", "advice.json"

FORMAT = 1
"""Of the figures; raised when a field changes its meaning."""

SHOWN_AROUND = 2.0
"""A picture of a drawn defect shows so many times its size, and at least LEAST_SHOWN pixels."""
LEAST_SHOWN = 96
MOST_MISSED = 12
"""Bad parts that are shown because the advised setting misses them."""


class Cell(NamedTuple):
    """One drawn defect as the page shows it."""

    picture: str
    """A JPEG as base64."""
    found: bool
    label: str


def save_advice(advice: Advice, folder: Path, words: Sequence[str] = ("good/",)) -> Path:
    """Writes advice.html and advice.json; returns the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_path(folder / FIGURES) as temporary:
        figures = json.dumps(to_dict(advice, words), indent=2, ensure_ascii=False)
        temporary.write_bytes(encoded(figures + "\n"))
    template = pages.environment(__package__).get_template("advice.html.j2")
    with atomic_path(folder / PAGE) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(
            template.generate(
                **pages.head(__package__, "advice.css"),
                advice=advice,
                verdict=text.verdict(advice),
                command=text.command(advice, words),
                compared=text.compared(advice),
                sizes=list(text.sizes(advice)),
                caution=text.caution(advice),
                chart=size_chart(advice) if advice.drawn else None,
                shares=SIZES if advice.drawn else (),
                kinds=list(KINDS) if advice.drawn else (),
                plurals=text.PLURALS,
                cells=_cells(advice) if advice.drawn else {},
                missed=[] if advice.drawn else list(_missed(advice.advised)),
            )
        )
    return folder / PAGE


def to_dict(advice: Advice, words: Sequence[str] = ("good/",)) -> dict[str, Any]:
    """All figures."""
    return {
        "format": FORMAT,
        "advised": advice.advised.setting.name,
        "command": text.command(advice, words),
        "drawn": advice.drawn,
        "good_parts": advice.parts,
        "settings": [_figures(advice, trial) for trial in advice.trials],
        "left_out": [
            {"setting": setting.name, "reason": reason} for setting, reason in advice.left_out
        ],
    }


def _figures(advice: Advice, trial: Trial) -> dict[str, Any]:
    return {
        "setting": trial.setting.name,
        "flags": list(trial.setting.flags),
        "cost": trial.setting.cost,
        "level": trial.level,
        "found": sum(found for _, found in trial.defects),
        "defects": len(trial.defects),
        "kinds": {kind: list(trial.found(kind=kind)) for kind in KINDS} if advice.drawn else {},
        "found_by_own_threshold": trial.found_by_itself,
        "false_alarms": trial.false_alarms,
        "samples": [
            {
                "image": sample.path,
                "bad": sample.bad,
                "kind": sample.sketch and sample.sketch.kind,
                "pixels": sample.sketch and advice.pixels(sample.sketch.share),
                "clear": sample.sketch and sample.sketch.clear,
                "strength": strength,
            }
            for sample, strength in zip(trial.samples, trial.strengths, strict=True)
        ],
    }


def _cells(advice: Advice) -> dict[tuple[str, float], list[Cell]]:
    """The drawn defects of the first round, by kind and size: a faint one and a clear one."""
    cells: dict[tuple[str, float], list[Cell]] = {}
    for sample, found in advice.advised.defects:
        sketch = sample.sketch
        assert sketch is not None
        cell = cells.setdefault((sketch.kind, sketch.share), [])
        if len(cell) < 2:
            contrast = "clear" if sketch.clear else "faint"
            label = f"{contrast} {sketch.kind}, {advice.pixels(sketch.share)} pixels"
            cell.append(Cell(thumbnail(_close(sample)), found, label))
    return cells


def _close(sample: Sample) -> Image.Image:
    """A drawn defect and what lies around it."""
    sketch = sample.sketch
    assert sketch is not None
    image = load_image(sample.path).rgb()
    drawn = draw_defect(image, sketch.kind, sketch.share, sketch.clear, sketch.seed)
    left, top, right, bottom = drawn.box
    width, height = image.size
    side = min(max(SHOWN_AROUND * drawn.size, LEAST_SHOWN), width, height)
    x = min(max((left + right - side) / 2, 0), width - side)
    y = min(max((top + bottom - side) / 2, 0), height - side)
    close = drawn.image.crop((int(x), int(y), int(x + side), int(y + side)))
    return close.resize((192, 192), Image.Resampling.BICUBIC)


def _missed(trial: Trial) -> Iterator[tuple[str, str]]:
    """Bad parts that the advised setting misses, with their pictures."""
    missed = [sample for sample, found in trial.defects if not found]
    for sample in missed[:MOST_MISSED]:
        yield sample.path, thumbnail(sample.picture())
