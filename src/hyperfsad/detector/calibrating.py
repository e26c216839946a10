"""Thresholds from further good parts, with what a person would say about these parts."""

from collections.abc import Sequence

from ..decisions.thresholds import Calibration, from_good_parts, odd_parts, one_decides
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
