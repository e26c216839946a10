"""Shifts: when they begin, and what happened in one."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from ..schemas import ShiftPlan, ShiftReport
from ..shifts import plan_of, set_plan, shift_csv, shift_report
from .context import SIGNED_IN, Admin, Here, content
from .inspections import ProductId, microseconds

router = APIRouter(tags=["shifts"], dependencies=SIGNED_IN)
At = Annotated[datetime | None, Query(description="A moment of the shift; default: now.")]


@router.get("/shifts")
def plan(station: Here) -> ShiftPlan:
    """When shifts begin."""
    with station.store.database.reading() as session:
        return plan_of(session)


@router.put("/shifts")
def change_plan(wanted: ShiftPlan, station: Here, actor: Admin) -> ShiftPlan:
    """Says when shifts begin, such as 06:00, 14:00 and 22:00, and in which time zone."""
    return set_plan(station.store.database, actor, wanted)


@router.get("/shift")
def report(station: Here, at: At = None, product: ProductId = None) -> ShiftReport:
    """What happened in a shift: counts, first-pass yield, defects by their names, the longest
    stop, and the shifts before it. What a person said of a part counts before the verdict."""
    return shift_report(station.store.database, microseconds(at), product)


@router.get("/exports/shift.csv", **content("text/csv", "The table."))
def export_shift(station: Here, at: At = None, product: ProductId = None) -> Response:
    """The same as a table."""
    found = shift_report(station.store.database, microseconds(at), product)
    headers = {"content-disposition": 'attachment; filename="shift.csv"'}
    kind = "text/csv; charset=utf-8"
    return StreamingResponse(shift_csv(found), media_type=kind, headers=headers)
