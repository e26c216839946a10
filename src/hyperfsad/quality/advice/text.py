"""Advice in words: what a terminal prints, and the sentences of the page."""

import shlex
from collections.abc import Iterator, Sequence

from ...messages import as_rows, count
from .comparing import CLEARLY_MORE, Advice
from .defects import KINDS, SIZES
from .trial import Trial

PLURALS = {
    "scratch": "scratches",
    "stain": "stains",
    "cut-and-paste": "pasted pieces",
    "missing piece": "missing pieces",
}


def advice_text(advice: Advice, words: Sequence[str] = ("good/",)) -> str:
    """All of it for a terminal; `words` name the good parts on the command line."""
    lines = [compared(advice), "", *_table(advice), ""]
    if advice.drawn:
        lines += [*_kinds(advice), ""]
    lines += [f"Left out: {setting.name}. {why}" for setting, why in advice.left_out]
    lines += [verdict(advice), f"  {command(advice, words)}"]
    lines += [f"  {line}" for line in sizes(advice)]
    return as_rows([*lines, caution(advice)])


def compared(advice: Advice) -> str:
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


def verdict(advice: Advice) -> str:
    """What to do, and why."""
    usual, advised = advice.usual, advice.advised
    found = f"{_found(advised)} of {len(advised.defects)} defects"
    own = f" With the threshold that fit sets, it finds {advised.found_by_itself}."
    if advised is usual:
        others = max((trial.share_found for trial in advice.trials[1:]), default=0.0)
        if others <= usual.share_found:
            return f"Keep what fit chooses: it finds {found}, and no other setting finds more.{own}"
        return (
            f"Keep what fit chooses: it finds {found}, and no other setting finds clearly more, by"
            f" {100 * CLEARLY_MORE:.0f} % of all.{own}"
        )
    return (
        f"Look at the parts {advised.setting.name}: that finds {found}, where fit by itself finds"
        f" {_found(usual)}. An image takes about {advised.setting.cost:.1f} times the plain"
        f" time.{own}"
    )


def command(advice: Advice, words: Sequence[str] = ("good/",)) -> str:
    """The command line that fits a detector as advised."""
    return shlex.join(
        ["hyperfsad", "fit", *words, "-o", "part.hfsad", *advice.advised.setting.flags]
    )


def sizes(advice: Advice) -> Iterator[str]:
    """From which size on the advised setting finds drawn defects."""
    if not advice.drawn:
        return
    for kind in KINDS:
        smallest = advice.smallest(advice.advised, kind)
        found, total = advice.advised.found(kind=kind)
        lead = f"{PLURALS[kind].capitalize()}: {found} of {total} found"
        if smallest is None:
            largest = advice.pixels(max(SIZES))
            yield f"{lead}; even those of {largest} pixels, the largest drawn, are often missed."
        elif smallest == min(SIZES):
            yield f"{lead}, down to {advice.pixels(smallest)} pixels, the smallest drawn."
        else:
            yield f"{lead}; those shorter than {advice.pixels(smallest)} pixels often go unseen."


def caution(advice: Advice) -> str:
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


def _found(trial: Trial) -> int:
    return sum(found for _, found in trial.defects)


def _table(advice: Advice) -> Iterator[str]:
    width = max(len(trial.setting.name) for trial in advice.trials)
    head = f"{'setting':{width}}  time  found  "
    if advice.drawn:
        head += "".join(f"{advice.pixels(share):>5} px" for share in SIZES) + "  "
    yield head + "by its own threshold: defects, false alarms"
    for trial in advice.trials:
        mark = "*" if trial is advice.advised else " "
        row = f"{trial.setting.name:{width}}  {trial.setting.cost:4.1f}  {_found(trial):5}{mark} "
        if advice.drawn:
            cells = [trial.found(share=share) for share in SIZES]
            row += "".join(f"{f'{found}/{total}':>8}" for found, total in cells) + "  "
        yield row + f"{trial.found_by_itself}, {trial.false_alarms} of {advice.parts} good parts"
    yield "* advised; time: of an image, as a multiple of the plain one"


def _kinds(advice: Advice) -> Iterator[str]:
    """How many drawn defects of each kind each setting finds."""
    width = max(len("found, by kind"), *(len(trial.setting.name) for trial in advice.trials))
    names = [PLURALS[kind] for kind in KINDS]
    yield f"{'found, by kind':{width}}  {'  '.join(names)}"
    for trial in advice.trials:
        cells = (trial.found(kind=kind) for kind in KINDS)
        shown = (
            f"{f'{found}/{total}':>{len(name)}}"
            for name, (found, total) in zip(names, cells, strict=True)
        )
        yield f"{trial.setting.name:{width}}  {'  '.join(shown)}"
