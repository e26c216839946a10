"""Sums for trends: what was inspected in every hour and every day, product by product.

They are kept in the transaction of the inspections themselves, so a trend never reads the
inspections. A period counts scores in narrow bins, not single scores: quantiles from them are
right to within 1 %, and a period takes no more room after a million inspections than after a few.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from .models import Inspection, Period, insert

HOUR = 3_600_000_000
"""In microseconds."""
PERIODS = {"hour": HOUR, "day": 24 * HOUR}
BINS = 50
"""For a factor e; so a bin is 2 % wide."""
SMALLEST = 1e-9
"""Scores below it, such as 0, count as it: bins are logarithmic."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass
class Sums:
    """What a period holds; bins are named by text, since JSON has no other keys."""

    count: int = 0
    anomalous: int = 0
    unjudged: int = 0
    scores: Counter[str] = field(default_factory=Counter)
    strengths: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: str, score: float, strength: float | None) -> None:
        """Counts one inspection."""
        self.count += 1
        self.anomalous += verdict == "anomalous"
        self.unjudged += verdict == "unjudged"
        self.scores[_bin(score)] += 1
        if strength is not None:
            self.strengths[_bin(strength)] += 1


def _bin(value: float) -> str:
    return str(math.floor(BINS * math.log(max(value, SMALLEST))))


def quantiles(counts: Mapping[str, int]) -> list[float] | None:
    """The quantiles of binned values; None where there is none."""
    ordered = sorted((int(number), count) for number, count in counts.items())
    total = sum(count for _, count in ordered)
    if not total:
        return None
    found: list[float] = []
    passed = 0
    for number, count in ordered:
        passed += count
        while len(found) < len(QUANTILES) and passed >= QUANTILES[len(found)] * total:
            found.append(math.exp((number + 0.5) / BINS))
    return found


def count_inspections(session: Session, inspections: Iterable[Inspection]) -> None:
    """Adds inspections to the sums of their hour and day (UTC); the last thing of a transaction.

    Stations that share a database wait for each other at a period's row, always in this order.
    """
    found: dict[tuple[str, int, int], Sums] = {}
    for one in inspections:
        for length in PERIODS.values():
            key = one.product_id, length, one.time - one.time % length
            found.setdefault(key, Sums()).add(one.verdict, one.score, one.strength)
    for (product, length, start), more in sorted(found.items(), key=lambda item: item[0]):
        place = {"product_id": product, "length": length, "start": start}
        new = insert(session, Period).values(**place, **vars(Sums()))
        session.execute(new.on_conflict_do_nothing())
        period = session.get_one(Period, place, with_for_update=True, populate_existing=True)
        period.count += more.count
        period.anomalous += more.anomalous
        period.unjudged += more.unjudged
        period.scores = dict(Counter(period.scores) + more.scores)
        period.strengths = dict(Counter(period.strengths) + more.strengths)
        session.flush()


def trend(session: Session, product: str, step: str, since: int, until: int) -> list[Any]:
    """The periods of a product that have inspections, by time; the first and last one whole."""
    length = PERIODS[step]
    columns = Period.start, Period.count, Period.anomalous, Period.unjudged
    query = (
        select(*columns, Period.scores, Period.strengths)
        .where(Period.product_id == product, Period.length == length)
        .where(Period.start >= since - since % length, Period.start < until)
        .order_by(Period.start)
    )
    return list(session.execute(query))
