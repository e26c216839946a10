"""Trends: what a product's inspections looked like over time, and whether normal has moved.

Sums of every hour and every day are kept in the transaction of the inspections themselves, so a
trend never reads the inspections. A period counts levels in narrow bins, not single ones:
quantiles from them are right to within 1 %, and a period takes no more room after a million
inspections than after a few.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from ..decisions.thresholds import Calibration
from ..detector.file import open_file
from ..errors import UsageError
from ..quality.drift import MIN_CALIBRATION, monitor_scores
from .schemas import DriftOut, TrendOut, TrendPoint
from .store.models import Inspection, Period, ProductRow, insert, now
from .store.store import Store, product_of

Step: TypeAlias = Literal["hour", "day"]
HOUR = 3_600_000_000
"""In microseconds."""
PERIODS = {"hour": HOUR, "day": 24 * HOUR}
DEFAULT_PERIODS = {"hour": 48, "day": 30}
MAX_PERIODS = {"hour": 744, "day": 800}
BINS = 50
"""For a factor e; so a bin is 2 % wide."""
SMALLEST = 1e-9
"""Levels below it, such as 0, count as it: bins are logarithmic."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
DRIFT_RUN = 500
"""The test covers the latest 500 to 1000 inspections since the product changed. Each such run has
its own chance of a false alarm."""
REFERENCE = 40
"""Inspections after a change that stand for normal, where the product was calibrated without
further good parts."""
PROPOSED_AFTER_DRIFT = 5
"""Inspections that are named for a person to check and teach."""
DRIFT_FALSE_ALARMS = 0.01
DRIFT_DEFECTS = 0.05
"""Share of bad parts that raise no alarm. Simulated with moves of 1.5 deviations after 200
inspections: known at the 18th (median); without any the 15th."""


@dataclass
class Sums:
    """What a period holds; bins are named by text, since JSON has no other keys."""

    count: int = 0
    anomalous: int = 0
    unjudged: int = 0
    levels: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: str, level: float | None) -> None:
        self.count += 1
        self.anomalous += verdict == "anomalous"
        self.unjudged += verdict == "unjudged"
        if level is not None:
            self.levels[str(math.floor(BINS * math.log(max(level, SMALLEST))))] += 1


def quantiles(counts: Mapping[str, int]) -> list[float] | None:
    """The quantiles of binned values; None where there is none."""
    if not counts:
        return None
    bins = np.array(sorted(map(int, counts)))
    passed = np.cumsum([counts[str(number)] for number in bins])
    places = np.searchsorted(passed, np.multiply(QUANTILES, passed[-1]))
    return [math.exp((number + 0.5) / BINS) for number in bins[places]]


def count_inspections(session: Session, inspections: Iterable[Inspection]) -> None:
    """Adds inspections to the sums of their hour and day (UTC); the last thing of a transaction.

    Stations that share a database wait for each other at a period's row, always in this order.
    """
    found: dict[tuple[str, int, int], Sums] = {}
    for one in inspections:
        for length in PERIODS.values():
            key = one.product_id, length, one.time - one.time % length
            found.setdefault(key, Sums()).add(one.verdict, one.level)
    for (product, length, start), more in sorted(found.items(), key=lambda item: item[0]):
        place = {"product_id": product, "length": length, "start": start}
        new = insert(session, Period).values(**place, **vars(Sums()))
        session.execute(new.on_conflict_do_nothing())
        period = session.get_one(Period, place, with_for_update=True, populate_existing=True)
        period.count += more.count
        period.anomalous += more.anomalous
        period.unjudged += more.unjudged
        period.levels = dict(Counter(period.levels) + more.levels)
        session.flush()


def product_trend(
    store: Store, product_id: str, step: Step, since: int | None, until: int | None
) -> TrendOut:
    """The quantiles of levels in every hour or day, shares of anomalous parts, and drift; the
    first and the last period are whole."""
    length = PERIODS[step]
    until = now() + 1 if until is None else until
    since = max(0, until - DEFAULT_PERIODS[step] * length) if since is None else since
    if since >= until:
        raise UsageError("trend-reversed")
    if until - since > MAX_PERIODS[step] * length:
        raise UsageError("trend-too-long", step=step, limit=MAX_PERIODS[step])
    periods = (
        select(Period)
        .where(Period.product_id == product_id, Period.length == length)
        .where(Period.start >= since - since % length, Period.start < until)
        .order_by(Period.start)
    )
    with store.database.reading() as session:
        product = product_of(session, product_id)
        known = _calibrated(store.files.detector(product.detector or ""))
        places = [min(len(known) - 1, math.floor(share * len(known))) for share in QUANTILES]
        times: Any = {"since": since, "until": until}
        return TrendOut(
            step=step,
            **times,
            calibration=[known[place] for place in places] if known else None,
            points=[_point(period) for period in session.scalars(periods)],
            drift=_drift(session, product, known),
        )


def _point(period: Period) -> TrendPoint:
    judged = period.count - period.unjudged
    return TrendPoint(
        time=period.start,  # type: ignore[arg-type]
        count=period.count,
        anomalous=period.anomalous,
        share=period.anomalous / judged if judged else None,
        level=quantiles(period.levels),
    )


@lru_cache(maxsize=64)
def _calibrated(detector: Path) -> tuple[float, ...]:
    """How far good parts reached that were not learnt, where the product has seen such parts; a
    detector file never changes under its name."""
    stored = open_file(detector).first["calibration"]
    calibration = None if stored is None else Calibration.from_dict(stored)
    return () if calibration is None or calibration.stale else calibration.scores


def _drift(session: Session, product: ProductRow, known: tuple[float, ...]) -> DriftOut | None:
    """The test of `hyperfsad drift` over levels; None while there is nothing to compare."""
    own = [Inspection.product_id == product.id, Inspection.revision == product.revision]
    count = session.scalar(select(func.count()).select_from(Inspection).where(*own)) or 0
    calibrated = len(known) >= MIN_CALIBRATION
    first = 0 if calibrated else REFERENCE
    reference = known if calibrated else [one[2] for one in _values(session, own, 0, REFERENCE)]
    start = first + DRIFT_RUN * max(0, (count - first) // DRIFT_RUN - 1)
    found = _values(session, own, start, 2 * DRIFT_RUN)
    if not found or len(reference) < MIN_CALIBRATION:
        return None
    stream = [(name, value) for _, name, value in found]
    report = monitor_scores(
        reference, stream, false_alarms=DRIFT_FALSE_ALARMS, defects=DRIFT_DEFECTS
    )
    times: dict[str, Any] = {"since": report.moved_at, "known": report.alarm_at}
    add: list[str] = []
    if report.moved_at is not None:  # the most ordinary ones since then: hardly defects
        since = report.score_cls[report.moved_at :]
        order = np.abs(since - np.median(since)).argsort(kind="stable")
        add = [found[report.moved_at + place][1] for place in order[:PROPOSED_AFTER_DRIFT]]
    return DriftOut(
        moved=report.alarm_at is not None,
        evidence=math.exp(min(700.0, max(report.log_capital))),
        needed=1 / DRIFT_FALSE_ALARMS,
        reference="calibration" if calibrated else "first inspections",
        compared_with=len(reference),
        inspections=len(stream),
        add=add,
        **{name: None if at is None else found[at][0] for name, at in times.items()},
    )


def _values(
    session: Session, own: "list[ColumnElement[bool]]", start: int, count: int
) -> list[tuple[int, str, float]]:
    """Time, id and level of some inspections in their order, without those labelled bad; where
    there is no threshold, the score."""
    numbers = select(Inspection.number).where(*own).order_by(Inspection.number)
    first = session.scalar(numbers.offset(start).limit(1))  # in the index alone
    if first is None:
        return []
    value = func.coalesce(Inspection.level, Inspection.score)
    columns = Inspection.time, Inspection.id, value, Inspection.label
    query = select(*columns).where(*own, Inspection.number >= first)
    rows = session.execute(query.order_by(Inspection.number).limit(count))
    return [(time, name, value) for time, name, value, label in rows if label != "bad"]
