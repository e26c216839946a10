"""The history: inspections, the latest first, in pages that stay stable as rows arrive."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ...errors import UsageError
from ...report.records import csv_table
from ..schemas import InspectionRow
from .database import Database
from .models import Identity, Inspection, ProductRow, TraceValue

EXPORT_PAGE = 2000
"""Rows that an export reads at a time; between two pages, others may write."""
LAST_SIGN = "\U0010ffff"
_HISTORY_COLUMNS = [
    ProductRow.name.label(name) if name == "product" else getattr(Inspection, name)
    for name in InspectionRow.model_fields
]


@dataclass(frozen=True)
class Filter:
    """Which inspections; None means all."""

    product: str | None = None
    verdict: str | None = None
    label: str | None = None
    since: int | None = None
    until: int | None = None
    """Times in microseconds; `until` itself is left out."""
    min_level: float | None = None
    max_level: float | None = None
    value: str | None = None
    """With which a value of a field begins, in upper or lower case; of `field`, or of any."""
    field: str | None = None
    defect: str | None = None

    def query(self) -> Any:
        """Selects the columns of `InspectionRow`, and the number."""
        conditions = (
            (Inspection.product_id.__eq__, self.product),
            (Inspection.verdict.__eq__, self.verdict),
            (Inspection.label.__eq__, self.label),
            (Inspection.time.__ge__, self.since),
            (Inspection.time.__lt__, self.until),
            (Inspection.level.__ge__, self.min_level),
            (Inspection.level.__le__, self.max_level),
            (Inspection.defect.__eq__, self.defect),
        )
        query = select(*_HISTORY_COLUMNS, Inspection.number).join(
            ProductRow, ProductRow.id == Inspection.product_id
        )
        if self.value:
            begin = self.value.casefold()
            hits = select(TraceValue.inspection_id).where(
                TraceValue.value >= begin, TraceValue.value < begin + LAST_SIGN
            )
            hits = hits.where(TraceValue.name == self.field) if self.field else hits
            query = query.where(Inspection.id.in_(hits))
        return query.where(*(hold(value) for hold, value in conditions if value is not None))


def page(
    session: Session, wanted: Filter, cursor: str | None, limit: int
) -> tuple[list[InspectionRow], str | None]:
    """Some inspections, and the cursor of those that follow; None at the end.

    The cursor is the place of the last row: rows that arrive later come before the first page.
    """
    query = wanted.query().order_by(Inspection.number.desc())
    if cursor is not None:
        query = query.where(Inspection.number < place(cursor))
    found = session.execute(query.limit(limit + 1)).all()
    last = found[limit - 1] if len(found) > limit else None
    return rows_of(found[:limit]), None if last is None else str(last.number)


def following(
    session: Session, wanted: Filter, number: int, limit: int
) -> list[tuple[int, InspectionRow]]:
    """The inspections that came after one, the first ones first, each with its number."""
    query = wanted.query().where(Inspection.number > number)
    found = session.execute(query.order_by(Inspection.number).limit(limit)).all()
    return [(row.number, one) for row, one in zip(found, rows_of(found), strict=True)]


def newest(database: Database) -> int:
    """The number of the latest inspection; 0 where there is none."""
    with database.reading() as session:
        return session.scalars(select(Identity.inspections)).one()


def rows_of(found: Any) -> list[InspectionRow]:
    return [InspectionRow(**row._mapping) for row in found]


def place(cursor: str) -> int:
    """The number that a cursor stands for."""
    if not (cursor.isascii() and cursor.isdecimal() and int(cursor) < 1 << 62):
        raise UsageError("cursor-unknown")
    return int(cursor)


def as_csv(database: Database, wanted: Filter) -> Iterator[str]:
    """The history as a table, with a column for each field of one's own."""
    with database.reading() as session:
        query = select(TraceValue.name).distinct().order_by(TraceValue.name)
        own = session.scalars(query).all()
    columns = [name for name in InspectionRow.model_fields if name != "fields"]
    rows = (
        {name: getattr(row, name) for name in columns}
        | {name: row.fields.get(name) for name in own}
        for row in _all(database, wanted)
    )
    return csv_table((*columns, *own), rows)


def as_json_lines(database: Database, wanted: Filter) -> Iterator[str]:
    for row in _all(database, wanted):
        yield f"{row.model_dump_json()}\n"


def _all(database: Database, wanted: Filter) -> Iterator[InspectionRow]:
    """Row by row, in bounded memory."""
    cursor, more = None, True
    while more:
        with database.reading() as session:
            found, cursor = page(session, wanted, cursor, EXPORT_PAGE)
        yield from found
        more = cursor is not None
