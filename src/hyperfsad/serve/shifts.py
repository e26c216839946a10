"""Shifts: when they begin, and the report on one of them."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from datetime import time as clock_time
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.orm import Session

from ..decisions.defects import UNKNOWN
from ..errors import UsageError
from ..report.records import csv_table
from .labels import BAD, FINE
from .schemas import DefectCount, HourCount, ShiftCount, ShiftPlan, ShiftReport, Stop
from .store.audit import Actor, audit
from .store.database import Database
from .store.models import Detail, Identity, Inspection, LabelRow, now
from .store.store import product_of
from .trends import HOUR

MOST_SHIFTS = 12
"""A day has at most so many."""
SHIFTS_BEFORE = 8
"""Which the report compares with."""
_START = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


@dataclass
class Count:
    """What happened in a shift."""

    start: int
    end: int
    count: int = 0
    good: int = 0
    anomalous: int = 0
    unjudged: int = 0
    called_bad: int = 0
    called_fine: int = 0
    parts: dict[str, bool] = field(default_factory=dict)
    """Those that came for the first time, and whether they were good."""
    hours: dict[int, list[int]] = field(default_factory=dict)
    stop: tuple[int, int] | None = None


def plan_of(session: Session) -> ShiftPlan:
    return ShiftPlan(**session.scalars(select(Identity.shifts)).one())


def set_plan(database: Database, actor: Actor, wanted: ShiftPlan) -> ShiftPlan:
    """When shifts begin from now on, and in which time zone."""
    starts = sorted(set(wanted.starts))
    usable = all(_START.fullmatch(start) for start in starts)
    if not usable or not 1 <= len(starts) <= MOST_SHIFTS:
        raise UsageError("shift-starts", most=MOST_SHIFTS)
    if wanted.zone is not None:
        _zone(wanted.zone)
    found = ShiftPlan(starts=starts, zone=wanted.zone)
    with database.writing() as session:
        session.execute(update(Identity).values(shifts=found.model_dump()))
        audit(session, actor, "shifts changed", "", f"{', '.join(starts)} {wanted.zone or ''}")
    return found


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):  # of a name that is a path, too
        raise UsageError("shift-zone", given=name[:60]) from None


def begins(plan: ShiftPlan, since: int, until: int) -> list[int]:
    """When shifts begin between two times, a day more on both sides; by the clock on the wall."""
    zone = None if plan.zone is None else _zone(plan.zone)
    first = (datetime.fromtimestamp(since / 1e6, zone) - timedelta(1)).date()
    days = (until - since) // (24 * HOUR) + 3
    times = [clock_time.fromisoformat(start) for start in plan.starts]
    return sorted(
        {
            # without a zone: the machine's own
            int(datetime.combine(first + timedelta(day), at, zone).timestamp()) * 1_000_000
            for day in range(days)
            for at in times
        }
    )


def shifts_until(plan: ShiftPlan, moment: int, before: int) -> list[tuple[int, int]]:
    """The shift of a moment, and those before it, the first one first."""
    days = before // len(plan.starts) + 2
    found = list(itertools.pairwise(begins(plan, moment - days * 24 * HOUR, moment)))
    last = max(place for place, (start, _) in enumerate(found) if start <= moment)
    return found[max(0, last - before) : last + 1]


def shift_report(database: Database, moment: int | None, product_id: str | None) -> ShiftReport:
    """What happened in the shift of a moment (default: now), of one product or of all."""
    moment = now() if moment is None else moment
    with database.reading() as session:
        name = None if product_id is None else product_of(session, product_id).name
        plan = plan_of(session)
        try:
            spans = shifts_until(plan, moment, SHIFTS_BEFORE)
        except (OverflowError, ValueError, OSError):
            raise UsageError("time-range", given=str(moment)) from None
        counts = [_count(session, start, end, product_id) for start, end in spans]
        found = counts[-1]
        named = _defects(session, found, product_id)
    total = sum(named.values())
    hours: Any = found.hours.items()
    own: Any = vars(_shown(found))
    while len(counts) > 1 and not counts[0].count:  # it begins with the first datum
        del counts[0]
    return ShiftReport(
        **own,
        product=name,
        zone=plan.zone,
        called_bad=found.called_bad,
        called_fine=found.called_fine,
        defects=[
            DefectCount(name=name, count=count, share=count / total)
            for name, count in sorted(named.items(), key=lambda one: (-one[1], one[0]))
        ],
        hours=[HourCount(time=time, count=n, anomalous=bad) for time, (n, bad) in hours],
        longest_stop=_stop(found.stop),
        shifts=list(map(_shown, counts)),
    )


def _stop(span: tuple[Any, Any] | None) -> Stop | None:
    return span and Stop(start=span[0], end=span[1], seconds=(span[1] - span[0]) / 1e6)


def _shown(found: Count) -> ShiftCount:
    own: Any = {name: value for name, value in asdict(found).items() if name in _SHOWN}
    passed = sum(found.parts.values())
    share = passed / len(found.parts) if found.parts else None
    return ShiftCount(**own, parts=len(found.parts), first_pass=passed, first_pass_yield=share)


_SHOWN = ShiftCount.model_fields.keys() - {"parts"}


def _count(session: Session, start: int, end: int, product_id: str | None) -> Count:
    """Goes through a shift once. What a person said of a part counts before the verdict."""
    found, before = Count(start, end), start
    columns = (Inspection.time, Inspection.id, Inspection.verdict, Inspection.label)
    query = select(*columns, Inspection.part, Inspection.first).where(
        *_within(start, end, product_id)
    )
    rows = session.execute(query.order_by(Inspection.time).execution_options(yield_per=2000))
    for time, name, verdict, label, part, first in rows:
        found.count += 1
        found.good += verdict == "good"
        found.anomalous += verdict == "anomalous"
        found.unjudged += verdict == "unjudged"
        found.called_bad += label == BAD
        found.called_fine += label == FINE
        hour = found.hours.setdefault(start + (time - start) // HOUR * HOUR, [0, 0])
        hour[0] += 1
        hour[1] += verdict == "anomalous"
        if first and (label is not None or verdict != "unjudged"):
            fine = label == FINE or (label is None and verdict == "good")
            key = part or name
            found.parts[key] = found.parts.get(key, True) and fine
        found.stop, before = _longer(found.stop, before, time), time
    if found.count:
        found.stop = _longer(found.stop, before, min(end, max(now(), before)))
    return found


def _longer(stop: tuple[int, int] | None, start: int, end: int) -> tuple[int, int]:
    return stop if stop is not None and stop[1] - stop[0] >= end - start else (start, end)


def _within(start: int, end: int, product_id: str | None) -> Sequence[Any]:
    own = () if product_id is None else (Inspection.product_id == product_id,)
    return Inspection.time >= start, Inspection.time < end, *own


def _defects(session: Session, found: Count, product_id: str | None) -> dict[str, int]:
    """How often each defect came: as a person called it, otherwise as the product did. The empty
    name is for those without one."""
    name = func.coalesce(LabelRow.defect, Detail.record["defect"].as_string())
    unsaid = and_(Inspection.label.is_(None), Inspection.verdict == "anomalous")
    query = (
        select(name, func.count())
        .select_from(Inspection)
        .join(Detail, Detail.inspection_id == Inspection.id)
        .outerjoin(LabelRow, LabelRow.inspection_id == Inspection.id)
        .where(*_within(found.start, found.end, product_id))
        .where(or_(Inspection.label == BAD, unsaid))
        .group_by(name)
    )
    named: dict[str, int] = {}
    for called, count in session.execute(query):
        key = "" if called in (None, UNKNOWN) else called
        named[key] = named.get(key, 0) + count
    return named


COLUMNS = ("part", "name", "start", "end", "count", "anomalous", "share")


def shift_csv(report: ShiftReport) -> Iterator[str]:
    """The report as a table: which part of it a row belongs to stands in `part`."""

    def row(part: str, name: str = "", **values: Any) -> dict[str, Any]:
        return {**dict.fromkeys(COLUMNS), "part": part, "name": name, **values}

    def shift(part: str, one: ShiftCount) -> dict[str, Any]:
        share = one.anomalous / (one.count - one.unjudged) if one.count > one.unjudged else None
        times = {"start": one.start, "end": one.end}
        return row(part, count=one.count, anomalous=one.anomalous, share=share, **times)

    rows = [shift("shift", report)]
    passed: dict[str, Any] = {"count": report.first_pass, "share": report.first_pass_yield}
    rows.append(row("first pass", **passed))
    rows += [row("called", "bad", count=report.called_bad)]
    rows += [row("called", "fine", count=report.called_fine)]
    rows += [
        row("defect", one.name or "without a name", count=one.count, share=one.share)
        for one in report.defects
    ]
    if (stop := report.longest_stop) is not None:
        rows.append(row("longest stop", f"{stop.seconds:.0f} s", start=stop.start, end=stop.end))
    rows += [
        row("hour", start=one.time, count=one.count, anomalous=one.anomalous)
        for one in report.hours
    ]
    rows += [shift("shift before", one) for one in report.shifts[:-1]]
    return csv_table(COLUMNS, rows)
