"""Trends: what a product's inspections looked like over time, and whether normal has moved."""

import math
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from sqlalchemy import ColumnElement, func, select, tuple_
from sqlalchemy.orm import Session

from ..decisions.thresholds import Calibration
from ..detector.file import open_file
from ..errors import UsageError
from ..quality.drift import MIN_CALIBRATION, DriftReport, monitor_scores
from .schemas import CalibrationOut, DriftOut, Moment, TrendOut, TrendPoint
from .store.history import PLACE, iso
from .store.models import Inspection, ProductRow, now
from .store.store import Store, product_of
from .store.trends import PERIODS, QUANTILES, quantiles, trend

Step: TypeAlias = Literal["hour", "day"]
DEFAULT_PERIODS = {"hour": 48, "day": 30}
MAX_PERIODS = {"hour": 744, "day": 800}
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


def product_trend(
    store: Store,
    product_id: str,
    step: Literal["hour", "day"],
    since: int | None,
    until: int | None,
) -> TrendOut:
    """The quantiles of scores in every hour or day, shares of anomalous parts, and drift."""
    length = PERIODS[step]
    until = now() + 1 if until is None else until
    since = max(0, until - DEFAULT_PERIODS[step] * length) if since is None else since
    if since >= until:
        raise UsageError("trend-reversed")
    if until - since > MAX_PERIODS[step] * length:
        raise UsageError("trend-too-long", step=step, limit=MAX_PERIODS[step])
    with store.database.reading() as session:
        product = product_of(session, product_id)
        calibration = _calibration(store.files.detector(product.detector or ""))
        return TrendOut(
            product=product.name,
            product_id=product.id,
            step=step,
            since=iso(since),
            until=iso(until),
            threshold=product.summary["threshold"],
            calibration=_described(calibration),
            points=[_point(row) for row in trend(session, product_id, step, since, until)],
            drift=_drift(session, product, calibration),
        )


def _point(row: Any) -> TrendPoint:
    judged = row.count - row.unjudged
    return TrendPoint(
        time=iso(row.start),
        count=row.count,
        anomalous=row.anomalous,
        unjudged=row.unjudged,
        share=row.anomalous / judged if judged else None,
        score=quantiles(row.scores),
        strength=quantiles(row.strengths),
    )


@lru_cache(maxsize=64)
def _calibration(detector: Path) -> Calibration | None:
    """How the thresholds came about; a detector file never changes under its name."""
    stored = open_file(detector).first["calibration"]
    return None if stored is None else Calibration.from_dict(stored)


def _strengths(calibration: Calibration | None) -> tuple[float, ...]:
    """How far good parts reached that were not learnt, where the product has seen such parts."""
    if calibration is None or calibration.stale:
        return ()
    return calibration.scores


def _described(calibration: Calibration | None) -> CalibrationOut | None:
    if calibration is None:
        return None
    known = _strengths(calibration)
    places = [min(len(known) - 1, math.floor(share * len(known))) for share in QUANTILES]
    return CalibrationOut(
        words=calibration.words,
        images=calibration.images,
        false_alarm_rate=calibration.rate,
        stale=calibration.stale,
        strength=[known[place] for place in places] if known else None,
    )


def _drift(
    session: Session, product: ProductRow, calibration: Calibration | None
) -> DriftOut | None:
    """The test of `hyperfsad drift` over strengths; None while there is nothing to compare."""
    known: list[float] = list(_strengths(calibration))
    own = [Inspection.product_id == product.id, Inspection.revision == product.revision]
    count = session.scalar(select(func.count()).select_from(Inspection).where(*own)) or 0
    calibrated = len(known) >= MIN_CALIBRATION
    first = 0
    if not calibrated:
        first = REFERENCE
        known = [value for _, _, value in _values(session, own, 0, REFERENCE)]
    start = first + DRIFT_RUN * max(0, (count - first) // DRIFT_RUN - 1)
    found = _values(session, own, start, 2 * DRIFT_RUN)
    if not found or len(known) < MIN_CALIBRATION:
        return None
    stream = [(name, value) for name, _, value in found]
    report = monitor_scores(known, stream, false_alarms=DRIFT_FALSE_ALARMS, defects=DRIFT_DEFECTS)
    times = {name: iso(time) for name, time, _ in found}

    def moment(place: int | None) -> Moment | None:
        if place is None:
            return None
        name = report.images[place]
        return Moment(inspection=name, time=times[name])

    return DriftOut(
        moved=report.alarm_at is not None,
        evidence=math.exp(min(700.0, max(report.log_capital))),
        needed=1 / DRIFT_FALSE_ALARMS,
        reference="calibration" if calibrated else "first inspections",
        compared_with=len(known),
        inspections=len(stream),
        since=moment(report.moved_at),
        known=moment(report.alarm_at),
        add=_ordinary(report),
    )


def _ordinary(report: DriftReport) -> list[str]:
    """The most ordinary inspections since normal moved: those in the middle, so hardly defects."""
    if report.moved_at is None:
        return []
    since = report.score_cls[report.moved_at :]
    order = np.abs(since - np.median(since)).argsort(kind="stable")
    return [report.images[report.moved_at + place] for place in order[:PROPOSED_AFTER_DRIFT]]


def _values(
    session: Session, own: "list[ColumnElement[bool]]", start: int, count: int
) -> list[tuple[str, int, float]]:
    """Id, time and strength of some inspections in their order, without those labelled bad; where
    there is no threshold, the score."""
    first = session.execute(
        select(*PLACE).where(*own).order_by(*PLACE).offset(start).limit(1)  # in the index alone
    ).one_or_none()
    if first is None:
        return []
    value = func.coalesce(Inspection.strength, Inspection.score)
    query = select(*PLACE, value, Inspection.label).where(*own, tuple_(*PLACE) >= tuple_(*first))
    rows = session.execute(query.order_by(*PLACE).limit(count))
    return [(name, time, value) for time, name, value, label in rows if label != "bad"]
