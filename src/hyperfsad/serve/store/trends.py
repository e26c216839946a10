"""Sums for trends: what was inspected in every hour and every day, product by product.

They are kept in the transaction of the inspections themselves, so a trend never reads the
inspections. A period has counts of scores in narrow bins, not the scores: quantiles from them are
right to within 1 %, and a period takes as little room after a million inspections as after some.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from .models import Inspection, Period

HOUR = 3_600_000_000
"""In microseconds."""
SPANS = {"hour": HOUR, "day": 24 * HOUR}
BINS = 50
"""For a factor e; so a bin is 2 % wide."""
SMALLEST = 1e-9
"""Scores below it, such as 0, count as it: bins are logarithmic."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

Counts: TypeAlias = Mapping[str, int]
"""How many values each bin has; JSON knows only texts as keys."""
Key: TypeAlias = tuple[str, int, int]
"""Product, length and start of a period."""


@dataclass
class Sums:
    """What a period holds."""

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
        self.scores[bin_of(score)] += 1
        if strength is not None:
            self.strengths[bin_of(strength)] += 1


def bin_of(value: float) -> str:
    """The bin of a score or strength."""
    return str(math.floor(BINS * math.log(max(value, SMALLEST))))


def quantiles(counts: Counts) -> list[float] | None:
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


def periods_of(product: str, time: int) -> Iterator[Key]:
    """The hour and the day of an inspection, UTC."""
    for length in SPANS.values():
        yield product, length, time - time % length


def summed(inspections: Iterable[Inspection]) -> dict[Key, Sums]:
    """What some inspections add to their periods."""
    found: dict[Key, Sums] = {}
    for one in inspections:
        for key in periods_of(one.product_id, one.time):
            found.setdefault(key, Sums()).add(one.verdict, one.score, one.strength)
    return found


def count_in(session: Session, inspections: Iterable[Inspection]) -> None:
    """Adds inspections to the sums; the last thing of a transaction.

    Stations that share a database wait for each other at a period's row, always in this order.
    """
    kind = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    for (product, length, start), more in sorted(summed(inspections).items(), key=lambda at: at[0]):
        key = {"product_id": product, "length": length, "start": start}
        nothing = {"count": 0, "anomalous": 0, "unjudged": 0, "scores": {}, "strengths": {}}
        new = kind.insert(Period).values(**key, **nothing)
        session.execute(new.on_conflict_do_nothing())
        period = session.get_one(Period, key, with_for_update=True, populate_existing=True)
        period.count += more.count
        period.anomalous += more.anomalous
        period.unjudged += more.unjudged
        period.scores = dict(Counter(period.scores) + more.scores)
        period.strengths = dict(Counter(period.strengths) + more.strengths)
        session.flush()


def trend(session: Session, product: str, step: str, since: int, until: int) -> list[Any]:
    """The periods of a product that have inspections, by time; the first and last one whole."""
    length = SPANS[step]
    columns = [getattr(Period, name) for name in ("start", "count", "anomalous", "unjudged")]
    question = (
        select(*columns, Period.scores, Period.strengths)
        .where(Period.product_id == product, Period.length == length)
        .where(Period.start >= since - since % length, Period.start < until)
        .order_by(Period.start)
    )
    return list(session.execute(question))
