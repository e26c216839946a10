"""The history: inspections by time, the latest first, in pages that stay stable as rows arrive."""

import base64
import binascii
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeAlias

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from ...errors import UsageError
from ...report.records import csv_table
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
    question = _joined(wanted).order_by(Inspection.time.desc(), Inspection.id.desc())
    if cursor is not None:
        question = question.where(tuple_(Inspection.time, Inspection.id) < tuple_(*_place(cursor)))
    found = session.execute(question.limit(limit + 1)).all()
    rows = [row_of(inspection, name) for inspection, name in found[:limit]]
    more = len(found) > limit
    last = found[limit - 1][0] if more else None
    return rows, None if last is None else _cursor(last.time, last.id)


def pages(database: Database, wanted: Filter) -> Iterator[list[Row]]:
    """All of them, some at a time, in bounded memory."""
    cursor = None
    while True:
        with database.reading() as session:
            found, cursor = page(session, wanted, cursor, EXPORTED)
        yield [{name: row[name] for name in COLUMNS} for row in found]
        if cursor is None:
            return


def exported(database: Database, wanted: Filter) -> Iterator[str]:
    """All of them as CSV, row by row."""
    return csv_table(COLUMNS, itertools.chain.from_iterable(pages(database, wanted)))


def following(session: Session, wanted: Filter, cursor: str, limit: int) -> list[tuple[str, Row]]:
    """The inspections that came after a place, the first ones first, each with its own cursor."""
    place = tuple_(Inspection.time, Inspection.id)
    question = _joined(wanted).where(place > tuple_(*_place(cursor)))
    found = session.execute(question.order_by(Inspection.time, Inspection.id).limit(limit))
    return [(_cursor(one.time, one.id), row_of(one, name)) for one, name in found]


def newest(session: Session) -> str:
    """The cursor of the latest inspection, or one before all."""
    question = select(Inspection.time, Inspection.id)
    ordered = question.order_by(Inspection.time.desc(), Inspection.id.desc()).limit(1)
    found = session.execute(ordered).one_or_none()
    return _cursor(*found) if found is not None else _cursor(0, "0" * 32)


def row_of(inspection: Inspection, product: str) -> Row:
    """An inspection as lists show it."""
    own = {name: getattr(inspection, name) for name in COLUMNS if name not in ("time", "product")}
    return {**own, "time": iso(inspection.time), "product": product}


def _joined(wanted: Filter) -> Any:
    question = select(Inspection, Product.name).join(Product, Product.id == Inspection.product_id)
    return question.where(*wanted.conditions())


def _cursor(time: int, name: str) -> str:
    return base64.urlsafe_b64encode(f"{time}.{name}".encode()).decode()


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
