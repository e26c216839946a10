"""Thresholds from further good parts, and what a person should know about good parts."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..decisions.odd import odd_learnt, odd_parts
from ..decisions.thresholds import Calibration, LeaveOneOut, from_good_parts, one_decides
from ..messages import Notice, Notify
from ..method.memory import MemoryBank
from ..views import View

GoodPart: TypeAlias = tuple[str, float]
"""The name of a good part, and its level against the estimated thresholds; above 1 it would be
called anomalous."""


def calibrate_from(
    parts: Sequence[GoodPart],
    rate: float,
    support: Calibration,
    keep_outliers: bool,
    notify: Notify,
) -> Calibration:
    """The thresholds; outliers are named, and left out unless they shall be kept."""
    outliers = odd_parts([level for _, level in parts])
    rest = [part for place, part in enumerate(parts) if place not in outliers]
    if outliers:
        odd = [parts[place] for place in outliers]
        times = max(level for _, level in odd) / max(level for _, level in rest)
        names = [name for name, _ in odd]
        if keep_outliers:
            notify(Notice("good-parts-outliers-kept", names=names, times=times))
        else:
            notify(Notice("good-parts-outliers", names=names, times=times))
    used = list(parts) if keep_outliers else rest
    if above := [name for name, level in used if level > 1]:
        notify(Notice("good-parts-above", names=above))
    found = from_good_parts([level for _, level in used], rate, support, odd=len(parts) - len(used))
    enough = one_decides(len(used), rate)
    if enough is not None:
        largest = max(used, key=lambda part: part[1])[0]
        notify(Notice("one-part-decides", rate=rate, parts=len(used), name=largest, enough=enough))
    return found


def notify_about_learnt(found: LeaveOneOut, names: Sequence[str], notify: Notify) -> None:
    """Names a learnt part that stands far apart from the others.

    Near-copies score next to nothing against each other, so chance would choose one of them.
    """
    place = None if found.near_copies else odd_learnt(found.scores)
    if place is not None:
        others = max(score for at, score in enumerate(found.scores) if at != place)
        score = found.scores[place]
        notify(Notice("learnt-part-outlier", name=names[place], score=score, others=others))


def notify_about_support(found: LeaveOneOut, notify: Notify) -> None:
    """Says when the good parts tell little about how good parts differ."""
    if found.total == 1:
        notify(Notice("one-good-part"))
    elif found.near_copies:
        notify(Notice("good-parts-alike", count=found.total))


def notify_about_foreign(names: Sequence[str], notify: Notify) -> None:
    """Names good parts that look like another product: they would spoil the thresholds."""
    if names:
        notify(Notice("good-parts-foreign", names=list(names)))


def anomalous_before(
    view: View, memory: MemoryBank, level_of: Callable[[float, float], float]
) -> list[GoodPart]:
    """Good parts of `memory` that are new and were anomalous while `view` knew the others alone.

    `level_of` tells from score and map peak how far an image reaches against the thresholds.
    """
    known = {image.sha256 for image in view.bank.images}
    found = []
    for entry, *_ in memory.entries:
        image = memory.images[entry]
        if image.sha256 not in known:
            one = view.score_entry(memory, entry)
            if (level := level_of(one.score, one.peak)) > 1:
                found.append((image.name, level))
    return found
