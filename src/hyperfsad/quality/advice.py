"""What to do about wrong verdicts: one place for `evaluate`, the station and its page.

Advice is right or silent: it follows from counted verdicts on parts whose truth is known, never
from how parts look to the encoder. Its order is that of what helps most: more good parts of the
kind that was missed, then unlabelled parts of the line, then another view, then another threshold.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..messages import Notice

ENOUGH_PARTS = 10
"""Good parts from which more of them are no longer the first thing to try."""
SURE = 1.645
"""Standard deviations beyond chance, of one chance in twenty."""
MOST_NAMED = 3


@dataclass(frozen=True)
class Judged:
    """Verdicts on known parts."""

    learnt: int
    """Good parts that the detector has learnt."""
    good: int
    bad: int
    """How many known parts were judged."""
    alarms: Sequence[str]
    """The good ones among them that were called anomalous."""
    missed: int
    """The bad ones that were called good."""
    auroc: float | None
    """How well the levels rank them."""
    adapted: bool = False
    """Whether the detector has learnt from the line."""
    threshold_helps: bool = False
    """Whether another threshold would have judged these parts better."""


def advice(found: Judged) -> list[Notice]:
    """What to do, the first thing first; nothing where no verdict was wrong."""
    if not found.alarms and not found.missed:
        return []
    steps: list[Notice] = []
    apart = tells_apart(found.auroc, found.good, found.bad)
    if apart is False:
        steps.append(Notice("advice-cannot-tell", auroc=found.auroc))
    if found.alarms:
        names = list(found.alarms[:MOST_NAMED])
        steps.append(Notice("advice-learn", names=names, more=len(found.alarms) - len(names)))
    elif found.learnt < ENOUGH_PARTS:
        steps.append(Notice("advice-more-good", learnt=found.learnt, enough=ENOUGH_PARTS))
    if not found.adapted:
        steps.append(Notice("advice-line"))
    if found.missed:
        steps.append(Notice("advice-view", missed=found.missed))
    if apart and found.threshold_helps:
        steps.append(Notice("advice-threshold"))
    return steps


def tells_apart(auroc: float | None, good: int, bad: int) -> bool | None:
    """Whether good and bad parts are ranked better than by chance; None where nobody can know.

    By the deviation of the Mann-Whitney statistic where both come from one distribution.
    """
    if auroc is None or not good or not bad:
        return None
    needed = 0.5 + SURE * math.sqrt((good + bad + 1) / (12 * good * bad))
    return None if needed > 1 else auroc >= needed
