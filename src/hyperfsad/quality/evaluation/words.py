"""How figures are written, in the text and in the page."""

import shlex

from .figures import OperatingPoint, Rate, scaled
from .findings import Judge

CAUTION = (
    "A threshold that was chosen on these images flatters itself on them. Check it on other parts"
    " before you trust it."
)

WIDE = (
    "Colours begin at half the value where they begin elsewhere, since most errors lie close to the"
    " threshold."
)


def percent(share: float | None) -> str:
    """A share in percent."""
    return "–" if share is None else f"{100 * share:.1f} %"


def of(rate: Rate) -> str:
    """A count out of a total."""
    return f"{rate.count:,} of {rate.total:,}" if rate.total else "–"


def between(rate: Rate) -> str:
    """The interval of a rate."""
    if rate.interval is None:
        return "–"
    low, high = rate.interval
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def score(value: float | None) -> str:
    """A figure from 0 to 1 with as many digits as scores have elsewhere."""
    return "–" if value is None else f"{value:.3f}"


def threshold(point: OperatingPoint, judge: Judge) -> str:
    """The threshold of an operating point, or by what to multiply those of several products."""
    if judge.threshold is None:
        return f"× {point.factor:.6g}"
    return f"{scaled(judge.threshold, point.factor):{'.4g' if point.current else '.12g'}}"


def better(point: OperatingPoint, judge: Judge) -> str:
    """What a threshold would do that judges these images better, and how to set it."""
    alarms, found = point.confusion.alarms, point.confusion.found
    at = "With all thresholds" if judge.threshold is None else "At a threshold of"
    text = (
        f"{at} {threshold(point, judge)} it would find {of(found)} defects with"
        f" {alarms.count:,} of {alarms.total:,} good parts called anomalous"
    )
    told = command(point, judge)
    return f"{text}: `{told}`." if told else f"{text}."


def command(point: OperatingPoint, judge: Judge) -> str | None:
    """What sets this threshold; None for the current one, and where products have several."""
    if judge.threshold is None or point.current:
        return None
    value = f"{scaled(judge.threshold, point.factor):.12g}"
    return shlex.join(["hyperfsad", "calibrate", judge.file, "--threshold", value])
