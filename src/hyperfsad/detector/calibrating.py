"""Thresholds from further good parts, with what a person would say about good parts."""

from collections.abc import Sequence

from ..decisions.odd import odd_learnt, odd_parts
from ..decisions.thresholds import Calibration, LeaveOneOut, from_good_parts, one_decides
from ..evidence.patch import against
from ..messages import Notify

LISTED = 5
"""Parts that a sentence names."""

Reach = tuple[str, float]
"""The name of a good part, and how far it reaches against the estimated thresholds."""


def calibrated(
    parts: Sequence[Reach], rate: float, support: Calibration, keep_odd: bool, notify: Notify
) -> Calibration:
    """The thresholds; odd parts are named, and left out unless they shall be kept."""
    odd = odd_parts([strength for _, strength in parts])
    rest = [part for place, part in enumerate(parts) if place not in odd]
    if odd:
        notify(_about_odd([parts[place] for place in odd], rest, keep_odd))
    used = list(parts) if keep_odd else rest
    if above := [name for name, strength in used if strength > 1]:
        what = "this part is" if len(above) == 1 else "these parts are"
        notify(
            f"Above the threshold that was estimated from the learnt parts: {_listed(above)}. Make"
            f" sure that {what} good."
        )
    found = from_good_parts(
        [strength for _, strength in used], rate, support, odd=len(parts) - len(used)
    )
    enough = one_decides(len(used), rate)
    if enough is not None:
        largest = max(used, key=lambda part: part[1])[0]
        notify(
            f"At {100 * rate:g} % with {len(used)} good parts, one part sets the threshold:"
            f" {largest}. With {enough} parts or more, one part no longer decides."
        )
    return found


def about_learnt(found: LeaveOneOut, names: Sequence[str]) -> str | None:
    """What to say of a learnt part that stands far out of the others; None: nothing.

    Near-copies score next to nothing against each other, so chance would choose one of them.
    """
    place = None if found.near_copies else odd_learnt(found.scores)
    if place is None:
        return None
    others = [score for at, score in enumerate(found.scores) if at != place]
    return (
        f"{names[place]} stands far apart from the other good parts: compared with them it scores"
        f" {found.scores[place]:.3f}, each of them at most {max(others):.3f}. If it is a bad part,"
        " learn without it, since it raises the threshold."
    )


def about_anomalous(parts: Sequence[tuple[str, str]]) -> str | None:
    """What to say of parts that were anomalous before they were learnt; None: there are none.

    Each has its name, and how far it reached.
    """
    if not parts:
        return None
    if len(parts) == 1:
        ((name, reach),) = parts
        return f"{name} was anomalous until now ({reach}): learnt as asked; make sure it is good."
    told = _listed([f"{name} ({reach})" for name, reach in parts])
    return f"Anomalous until now: {told}. Learnt as asked; make sure that they are good."


def reach_beyond(
    score: float, peak: float, threshold: float | None, map_threshold: float | None
) -> str | None:
    """How far an image is beyond a threshold, by its score or else by its map; None: it is not."""
    if threshold is not None and score > threshold:
        return f"score {score:.3f}, {against(score, threshold)}"
    if map_threshold is not None and peak > map_threshold:
        return f"map {peak:.3f}, {against(peak, map_threshold)}"
    return None


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def _about_odd(odd: Sequence[Reach], rest: Sequence[Reach], kept: bool) -> str:
    names = ", ".join(name for name, _ in odd)
    farthest, usual = max(strength for _, strength in odd), max(strength for _, strength in rest)
    one = len(odd) == 1
    lead = f"{names} {'scores' if one else 'score'} {farthest / usual:.1f} times as high as any"
    lead += " other good part, "
    if kept:
        return lead + f"and {'has' if one else 'have'} a say in the threshold."
    return (
        f"{lead}so the threshold leaves {'it' if one else 'them'} out: look at"
        f" {'it' if one else 'them'} with `hyperfsad explain`, or use --keep-odd."
    )
