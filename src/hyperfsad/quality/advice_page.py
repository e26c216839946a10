"""Advice for readers: the text for a terminal, and a page that needs nothing else."""

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from ..images.loading import load_image
from ..report import pages
from ..report.pages import write_page
from ..results.heatmap import thumbnail
from ..wording import as_rows, count
from .advise import CLEARLY_MORE, Advice
from .drawn_defects import DEFECT_KINDS, DEFECT_SIZES, draw_defect
from .trials import Trial, TrialSample

_ADVICE_PAGE, _ADVICE_FIGURES = "advice.html", "advice.json"
ADVICE_FORMAT = 1
"""Of the figures; raised when a field changes its meaning."""
CLOSE_UP = 2.0
"""A close-up shows this many times the size of a drawn defect, and at least MIN_CLOSE_UP pixels."""
MIN_CLOSE_UP = 96
MAX_MISSED = 12
"""Bad parts that are shown because the advised setting misses them."""
KIND_PLURALS = {
    "scratch": "scratches",
    "stain": "stains",
    "cut-and-paste": "pasted pieces",
    "missing piece": "missing pieces",
}


def advice_text(advice: Advice, arguments: Sequence[str] = ("good/",)) -> str:
    """All of it for a terminal; `arguments` name the good parts on the command line."""
    lines = [_comparison(advice), "", *_table(advice), ""]
    if advice.drawn:
        lines += [*_kinds_table(advice), ""]
    lines += [f"Left out: {setting.name}. {why}" for setting, why in advice.skipped]
    lines += [_conclusion(advice), f"  {_command(advice, arguments)}"]
    lines += [f"  {line}" for line in _sizes(advice)]
    return as_rows([*lines, _caution(advice)])


def save_advice(advice: Advice, folder: Path, arguments: Sequence[str] = ("good/",)) -> Path:
    """Writes advice.html and advice.json; returns the path of the page."""
    figures = json.dumps(advice_figures(advice, arguments), indent=2, ensure_ascii=False)
    write_page(folder / _ADVICE_FIGURES, [figures, "\n"])
    template = pages.environment(__package__).get_template("advice.html.j2")
    page = template.generate(
        **pages.head(__package__, "advice.css"),
        advice=advice,
        verdict=_conclusion(advice),
        command=_command(advice, arguments),
        compared=_comparison(advice),
        sizes=list(_sizes(advice)),
        caution=_caution(advice),
        shares=DEFECT_SIZES if advice.drawn else (),
        kinds=list(DEFECT_KINDS) if advice.drawn else (),
        plurals=KIND_PLURALS,
        cells=_cells(advice) if advice.drawn else {},
        missed=[] if advice.drawn else list(_missed(advice.advised)),
    )
    write_page(folder / _ADVICE_PAGE, page)
    return folder / _ADVICE_PAGE


def advice_figures(advice: Advice, arguments: Sequence[str] = ("good/",)) -> dict[str, Any]:
    """All figures, as advice.json holds them."""
    return {
        "format": ADVICE_FORMAT,
        "advised": advice.advised.setting.name,
        "command": _command(advice, arguments),
        "drawn": advice.drawn,
        "good_parts": advice.parts,
        "settings": [_trial_figures(advice, trial) for trial in advice.trials],
        "left_out": [
            {"setting": setting.name, "reason": reason} for setting, reason in advice.skipped
        ],
    }


def _trial_figures(advice: Advice, trial: Trial) -> dict[str, Any]:
    kinds = DEFECT_KINDS if advice.drawn else ()
    return {
        "setting": trial.setting.name,
        "flags": list(trial.setting.flags),
        "cost": trial.setting.cost,
        "level": trial.level,
        "found": trial.found_count,
        "defects": len(trial.defects),
        "kinds": {kind: list(trial.found(kind=kind)) for kind in kinds},
        "found_by_own_threshold": trial.found_by_itself,
        "false_alarms": trial.false_alarms,
        "samples": [
            {
                "image": sample.path,
                "bad": sample.bad,
                "kind": sample.defect and sample.defect.kind,
                "pixels": sample.defect and advice.pixels(sample.defect.share),
                "clear": sample.defect and sample.defect.clear,
                "strength": strength,
            }
            for sample, strength in zip(trial.samples, trial.strengths, strict=True)
        ],
    }


def _comparison(advice: Advice) -> str:
    """What was compared with what."""
    counts = (
        count(len(advice.trials), "setting"),
        count(advice.parts, "good part"),
        count(len(advice.usual.defects), "drawn defect" if advice.drawn else "bad part"),
    )
    return (
        f"{', '.join(counts)}. Each picture is judged by a detector that has not learnt its part,"
        " and counts as found above the level that 5 % of good parts may exceed, the same for all."
    )


def _conclusion(advice: Advice) -> str:
    """What to do, and why."""
    usual, advised = advice.usual, advice.advised
    found = f"{advised.found_count} of {len(advised.defects)} defects"
    own = f" With the threshold that fit sets, it finds {advised.found_by_itself}."
    if advised is usual:
        others = max((trial.share_found for trial in advice.trials[1:]), default=0.0)
        more = "more"
        if others > usual.share_found:
            more = f"clearly more, by {100 * CLEARLY_MORE:.0f} % of all"
        return f"Keep what fit chooses: it finds {found}, and no other setting finds {more}.{own}"
    return (
        f"Look at the parts {advised.setting.name}: that finds {found}, where fit by itself finds"
        f" {usual.found_count}. An image takes about {advised.setting.cost:.1f} times the plain"
        f" time.{own}"
    )


def _command(advice: Advice, arguments: Sequence[str]) -> str:
    """The command line that fits a detector as advised."""
    flags = advice.advised.setting.flags
    return shlex.join(["hyperfsad", "fit", *arguments, "-o", "part.hfsad", *flags])


def _sizes(advice: Advice) -> Iterator[str]:
    """From which size on the advised setting finds drawn defects."""
    for kind in DEFECT_KINDS if advice.drawn else ():
        smallest = advice.smallest(advice.advised, kind)
        found, total = advice.advised.found(kind=kind)
        lead = f"{KIND_PLURALS[kind].capitalize()}: {found} of {total} found"
        if smallest is None:
            largest = advice.pixels(max(DEFECT_SIZES))
            yield f"{lead}; even those of {largest} pixels, the largest drawn, are often missed."
        elif smallest == min(DEFECT_SIZES):
            yield f"{lead}, down to {advice.pixels(smallest)} pixels, the smallest drawn."
        else:
            yield f"{lead}; those shorter than {advice.pixels(smallest)} pixels often go unseen."


def _caution(advice: Advice) -> str:
    """What the figures do not say."""
    few = " Take more good parts to be surer." if advice.parts < 4 else ""
    if advice.drawn:
        return (
            "Drawn defects only stand in for real ones; with pictures of bad parts, --bad compares"
            f" the settings on those.{few}"
        )
    if len(advice.usual.defects) < 10:
        return f"With so few bad parts, a difference of one or two may be chance.{few}"
    return f"A difference of one or two parts may be chance.{few}"


def _table(advice: Advice) -> Iterator[str]:
    width = max(len(trial.setting.name) for trial in advice.trials)
    head = f"{'setting':{width}}  time  found  "
    if advice.drawn:
        head += "".join(f"{advice.pixels(share):>5} px" for share in DEFECT_SIZES) + "  "
    yield head + "by its own threshold: defects, false alarms"
    for trial in advice.trials:
        setting, mark = trial.setting, "*" if trial is advice.advised else " "
        row = f"{setting.name:{width}}  {setting.cost:4.1f}  {trial.found_count:5}{mark} "
        if advice.drawn:
            cells = [trial.found(share=share) for share in DEFECT_SIZES]
            row += "".join(f"{f'{found}/{total}':>8}" for found, total in cells) + "  "
        yield row + f"{trial.found_by_itself}, {trial.false_alarms} of {advice.parts} good parts"
    yield "* advised; time: of an image, as a multiple of the plain one"


def _kinds_table(advice: Advice) -> Iterator[str]:
    """How many drawn defects of each kind each setting finds."""
    width = max(len("found, by kind"), *(len(trial.setting.name) for trial in advice.trials))
    names = [KIND_PLURALS[kind] for kind in DEFECT_KINDS]
    yield f"{'found, by kind':{width}}  {'  '.join(names)}"
    for trial in advice.trials:
        row = f"{trial.setting.name:{width}}"
        for kind, name in zip(DEFECT_KINDS, names, strict=True):
            found, total = trial.found(kind=kind)
            row += f"  {f'{found}/{total}':>{len(name)}}"
        yield row


class ShownDefect(NamedTuple):
    """One drawn defect as the page shows it."""

    picture: str
    """A JPEG as base64."""
    found: bool
    label: str


def _cells(advice: Advice) -> dict[tuple[str, float], list[ShownDefect]]:
    """The drawn defects of the first round, by kind and size: a faint one and a clear one."""
    cells: dict[tuple[str, float], list[ShownDefect]] = {}
    for sample, found in advice.advised.defects:
        defect = sample.defect
        assert defect is not None
        cell = cells.setdefault((defect.kind, defect.share), [])
        if len(cell) < 2:
            contrast = "clear" if defect.clear else "faint"
            label = f"{contrast} {defect.kind}, {advice.pixels(defect.share)} pixels"
            cell.append(ShownDefect(thumbnail(_close_up(sample)), found, label))
    return cells


def _close_up(sample: TrialSample) -> Image.Image:
    """A drawn defect and what lies around it."""
    assert sample.defect is not None
    image = load_image(sample.path).rgb()
    drawn = draw_defect(image, sample.defect)
    left, top, right, bottom = drawn.box
    width, height = image.size
    side = min(max(CLOSE_UP * drawn.size, MIN_CLOSE_UP), width, height)
    x = min(max((left + right - side) / 2, 0), width - side)
    y = min(max((top + bottom - side) / 2, 0), height - side)
    close = drawn.image.crop((int(x), int(y), int(x + side), int(y + side)))
    return close.resize((192, 192), Image.Resampling.BICUBIC)


def _missed(trial: Trial) -> Iterator[tuple[str, str]]:
    """Bad parts that the advised setting misses, with their pictures."""
    missed = [sample for sample, found in trial.defects if not found]
    for sample in missed[:MAX_MISSED]:
        yield sample.path, thumbnail(sample.picture())
