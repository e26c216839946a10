"""The history: inspections by time, the latest first, in pages that stay stable as rows arrive."""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from ...errors import UsageError
from ...report.records import csv_table
from ..schemas import InspectionRow
from .database import Database
from .models import Inspection, ProductRow

PLACE = Inspection.time, Inspection.id
"""What the history is ordered by."""
LATEST_FIRST = tuple(column.desc() for column in PLACE)
EXPORT_PAGE = 2000
"""Rows that an export reads at a time; between two pages, others may write."""
_ID = re.compile("[0-9a-f]{32}")
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
    min_score: float | None = None
    max_score: float | None = None

    def query(self) -> Any:
        """Selects the columns of `InspectionRow`."""
        conditions = (
            (Inspection.product_id.__eq__, self.product),
            (Inspection.verdict.__eq__, self.verdict),
            (Inspection.label.__eq__, self.label),
            (Inspection.time.__ge__, self.since),
            (Inspection.time.__lt__, self.until),
            (Inspection.score.__ge__, self.min_score),
            (Inspection.score.__le__, self.max_score),
        )
        query = select(*_HISTORY_COLUMNS).join(ProductRow, ProductRow.id == Inspection.product_id)
        return query.where(*(hold(value) for hold, value in conditions if value is not None))


def page(
    session: Session, wanted: Filter, cursor: str | None, limit: int
) -> tuple[list[InspectionRow], str | None]:
    """Some inspections, and the cursor of those that follow; None at the end.

    The cursor is the place of the last row: rows that arrive later come before the first page.
    """
    query = wanted.query().order_by(*LATEST_FIRST)
    if cursor is not None:
        query = query.where(tuple_(*PLACE) < tuple_(*_place(cursor)))
    found = session.execute(query.limit(limit + 1)).all()
    last = found[limit - 1] if len(found) > limit else None
    return rows_of(found[:limit]), None if last is None else _cursor(last.time, last.id)


def following(
    session: Session, wanted: Filter, cursor: str, limit: int
) -> list[tuple[str, InspectionRow]]:
    """The inspections that came after a place, the first ones first, each with its own cursor."""
    query = wanted.query().where(tuple_(*PLACE) > tuple_(*_place(cursor)))
    found = session.execute(query.order_by(*PLACE).limit(limit)).all()
    cursors = [_cursor(row.time, row.id) for row in found]
    return list(zip(cursors, rows_of(found), strict=True))


def newest(database: Database) -> str:
    """The cursor of the latest inspection, or one before all."""
    with database.reading() as session:
        found = session.execute(select(*PLACE).order_by(*LATEST_FIRST).limit(1)).one_or_none()
    return _cursor(*found) if found is not None else _cursor(0, "0" * 32)


def rows_of(found: Any) -> list[InspectionRow]:
    return [InspectionRow(**row._mapping) for row in found]


def _cursor(time: int, name: str) -> str:
    return base64.urlsafe_b64encode(f"{time}.{name}".encode()).decode()


def _place(cursor: str) -> tuple[int, str]:
    try:
        time, _, name = base64.urlsafe_b64decode(cursor.encode()).decode("ascii").partition(".")
        found = int(time)
        if not _ID.fullmatch(name) or not 0 <= found < 1 << 62:
            raise ValueError
    except (ValueError, binascii.Error) as error:
        raise UsageError("cursor-unknown") from error
    return found, name


def as_csv(database: Database, wanted: Filter) -> Iterator[str]:
    """The history as a table, row by row, in bounded memory."""

    def rows() -> Iterator[dict[str, Any]]:
        cursor, more = None, True
        while more:
            with database.reading() as session:
                found, cursor = page(session, wanted, cursor, EXPORT_PAGE)
            yield from map(InspectionRow.model_dump, found)
            more = cursor is not None

    return csv_table(tuple(InspectionRow.model_fields), rows())
