"""What a person would say about good parts: one sentence, or None where there is none to say."""

from collections.abc import Sequence

from ..decisions.odd import odd_learnt
from ..decisions.thresholds import LeaveOneOut

LISTED = 5
"""Parts that a sentence names."""

Reach = tuple[str, float]
"""The name of a good part, and how far it reaches against the estimated thresholds."""


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
    told = listed([f"{name} ({reach})" for name, reach in parts])
    return f"Anomalous until now: {told}. Learnt as asked; make sure that they are good."


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def about_odd(odd: Sequence[Reach], rest: Sequence[Reach], kept: bool) -> str:
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


def about_strangers(names: Sequence[str]) -> str | None:
    """Of good parts that look like another product: they would spoil the thresholds."""
    if not names:
        return None
    look, them = ("looks", "it") if len(names) == 1 else ("look", "them")
    return (
        f"{', '.join(names)} {look} like another product than the good parts that were learnt; if"
        f" so, leave {them} out."
    )


def about_support(found: LeaveOneOut) -> str | None:
    """Of good parts from which little can be estimated."""
    if found.total == 1:
        return (
            "One good picture says little of how good parts differ, so small defects may be"
            " missed; two to four pictures of different parts are better."
        )
    if found.near_copies:
        return (
            f"The {found.total} good pictures are almost the same, so they say little of how good"
            " parts differ; take pictures of other parts."
        )
    return None
