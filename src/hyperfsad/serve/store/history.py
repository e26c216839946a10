"""The history: inspections by time, the latest first, in pages that stay stable as rows arrive."""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeAlias

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from ...errors import UsageError
from ...output.exports import csv_table
from .database import Database
from .models import Inspection, Product

Row: TypeAlias = dict[str, Any]

COLUMNS = (
    *("id", "time", "product", "name", "verdict", "score", "threshold", "strength", "p_value"),
    *("regions", "label", "product_id", "revision", "image"),
)
_ID = re.compile("[0-9a-f]{32}")
EXPORTED = 2000
"""Rows that an export reads at a time; between, others may write."""


@dataclass(frozen=True)
class Filter:
    """Which inspections; None means all."""

    product: str | None = None
    verdict: str | None = None
    label: str | None = None
    since: int | None = None
    until: int | None = None
    """Times in microseconds; `until` itself is left out."""
    least: float | None = None
    most: float | None = None
    """Scores."""

    def conditions(self) -> Iterator[Any]:
        """What SQL has to hold."""
        for column, value in (
            (Inspection.product_id, self.product),
            (Inspection.verdict, self.verdict),
            (Inspection.label, self.label),
        ):
            if value is not None:
                yield column == value
        if self.since is not None:
            yield Inspection.time >= self.since
        if self.until is not None:
            yield Inspection.time < self.until
        if self.least is not None:
            yield Inspection.score >= self.least
        if self.most is not None:
            yield Inspection.score <= self.most


def page(
    session: Session, wanted: Filter, cursor: str | None, limit: int
) -> tuple[list[Row], str | None]:
    """Some inspections, and the cursor of those that follow; None at the end.

    The cursor is the place of the last row: rows that arrive later come before the first page.
    """
    question = _ordered(wanted)
    if cursor is not None:
        question = question.where(tuple_(Inspection.time, Inspection.id) < tuple_(*_place(cursor)))
    found = session.execute(question.limit(limit + 1)).all()
    rows = [row_of(inspection, name) for inspection, name in found[:limit]]
    more = len(found) > limit
    return rows, _cursor(found[limit - 1][0]) if more else None


def exported(database: Database, wanted: Filter) -> Iterator[str]:
    """All of them as CSV, row by row, in bounded memory."""

    def rows() -> Iterator[Row]:
        cursor = None
        while True:
            with database.reading() as session:
                found, cursor = page(session, wanted, cursor, EXPORTED)
            yield from ({name: row[name] for name in COLUMNS} for row in found)
            if cursor is None:
                return

    return csv_table(COLUMNS, rows())


def row_of(inspection: Inspection, product: str) -> Row:
    """An inspection as lists show it."""
    own = {name: getattr(inspection, name) for name in COLUMNS if name not in ("time", "product")}
    return {**own, "time": iso(inspection.time), "product": product}


def _ordered(wanted: Filter) -> Any:
    question = select(Inspection, Product.name).join(Product, Product.id == Inspection.product_id)
    return question.where(*wanted.conditions()).order_by(
        Inspection.time.desc(), Inspection.id.desc()
    )


def _cursor(last: Inspection) -> str:
    return base64.urlsafe_b64encode(f"{last.time}.{last.id}".encode()).decode()


def _place(cursor: str) -> Sequence[Any]:
    try:
        time, _, name = base64.urlsafe_b64decode(cursor.encode()).decode("ascii").partition(".")
        found = int(time)
        if not _ID.fullmatch(name) or not 0 <= found < 1 << 62:
            raise ValueError
    except (ValueError, binascii.Error) as error:
        raise UsageError("The cursor is none that this station gave; begin without one.") from error
    return found, name


def iso(time: int) -> str:
    """A time in microseconds as text, UTC."""
    return datetime.fromtimestamp(time / 1e6, timezone.utc).isoformat(timespec="milliseconds")
