"""The history: inspections by time, the latest first, in pages that stay stable as rows arrive."""

import base64
import binascii
import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeAlias

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from ...errors import UsageError
from ...report.records import csv_table
from .database import Database
from .models import Inspection, ProductRow

HistoryRow: TypeAlias = dict[str, Any]

HISTORY_COLUMNS = {
    "id": "string",
    "time": "time",
    "product": "category",
    "name": "string",
    "verdict": "category",
    "score": "double",
    "threshold": "double",
    "strength": "double",
    "p_value": "double",
    "regions": "int32",
    "label": "category",
    "product_id": "category",
    "revision": "int32",
    "image": "string",
}
"""The columns of lists and exports, with their types in Parquet."""
PLACE = Inspection.time, Inspection.id
"""What the history is ordered by."""
EXPORT_PAGE = 2000
"""Rows that an export reads at a time; between two pages, others may write."""
_ID = re.compile("[0-9a-f]{32}")


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
        """Selects the inspections, each with the name of its product."""
        conditions = (
            (Inspection.product_id.__eq__, self.product),
            (Inspection.verdict.__eq__, self.verdict),
            (Inspection.label.__eq__, self.label),
            (Inspection.time.__ge__, self.since),
            (Inspection.time.__lt__, self.until),
            (Inspection.score.__ge__, self.min_score),
            (Inspection.score.__le__, self.max_score),
        )
        query = select(Inspection, ProductRow.name).join(
            ProductRow, ProductRow.id == Inspection.product_id
        )
        return query.where(*(hold(value) for hold, value in conditions if value is not None))


def page(
    session: Session, wanted: Filter, cursor: str | None, limit: int
) -> tuple[list[HistoryRow], str | None]:
    """Some inspections, and the cursor of those that follow; None at the end.

    The cursor is the place of the last row: rows that arrive later come before the first page.
    """
    query = wanted.query().order_by(*(column.desc() for column in PLACE))
    if cursor is not None:
        query = query.where(tuple_(*PLACE) < tuple_(*_place(cursor)))
    found = session.execute(query.limit(limit + 1)).all()
    rows = [row_of(inspection, name) for inspection, name in found[:limit]]
    last = found[limit - 1][0] if len(found) > limit else None
    return rows, None if last is None else _cursor(last.time, last.id)


def following(
    session: Session, wanted: Filter, cursor: str, limit: int
) -> list[tuple[str, HistoryRow]]:
    """The inspections that came after a place, the first ones first, each with its own cursor."""
    query = wanted.query().where(tuple_(*PLACE) > tuple_(*_place(cursor)))
    found = session.execute(query.order_by(*PLACE).limit(limit))
    return [(_cursor(one.time, one.id), row_of(one, name)) for one, name in found]


def newest(session: Session) -> str:
    """The cursor of the latest inspection, or one before all."""
    query = select(*PLACE).order_by(*(column.desc() for column in PLACE)).limit(1)
    found = session.execute(query).one_or_none()
    return _cursor(*found) if found is not None else _cursor(0, "0" * 32)


def row_of(inspection: Inspection, product: str) -> HistoryRow:
    """An inspection as lists show it."""
    computed = {"time": iso(inspection.time), "product": product}
    return {name: computed.get(name) or getattr(inspection, name) for name in HISTORY_COLUMNS}


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


def iso(time: int) -> str:
    """A time in microseconds as text, UTC."""
    return datetime.fromtimestamp(time / 1e6, timezone.utc).isoformat(timespec="milliseconds")


def pages(database: Database, wanted: Filter) -> Iterator[list[HistoryRow]]:
    """All of them, some at a time, in bounded memory."""
    cursor = None
    while True:
        with database.reading() as session:
            found, cursor = page(session, wanted, cursor, EXPORT_PAGE)
        yield found
        if cursor is None:
            return


def as_csv(database: Database, wanted: Filter) -> Iterator[str]:
    """The history as a table, row by row."""
    rows = itertools.chain.from_iterable(pages(database, wanted))
    return csv_table(tuple(HISTORY_COLUMNS), rows)


def as_parquet(database: Database, wanted: Filter) -> Iterator[bytes]:
    """The history as Parquet, one row group for each page."""
    try:
        import pyarrow as arrow
        from pyarrow.parquet import ParquetWriter
    except ModuleNotFoundError as error:  # said before the first byte
        raise UsageError("parquet-missing", module=error.name) from error
    special = {
        "time": arrow.timestamp("ms", tz="UTC"),
        "category": arrow.dictionary(arrow.int32(), arrow.string()),
    }
    # each column has a type of its own, also where an export has no row or no value
    schema = arrow.schema(
        [(name, special.get(kind, kind)) for name, kind in HISTORY_COLUMNS.items()]
    )

    def written() -> Iterator[bytes]:
        sent = _SentFile()
        with ParquetWriter(sent, schema) as writer:
            for found in filter(None, pages(database, wanted)):
                rows = [{**row, "time": datetime.fromisoformat(row["time"])} for row in found]
                writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
                yield sent.taken()
        yield sent.taken()  # the footer

    return written()


class _SentFile(io.BytesIO):
    """A file whose beginning is sent away while the rest is written."""

    _sent = 0

    def close(self) -> None:
        """Its writer closes it before the footer is taken."""

    def tell(self) -> int:
        """The place in the whole file; the footer has places in it."""
        return self._sent + super().tell()

    def taken(self) -> bytes:
        """What was written since the last time."""
        found = self.getvalue()
        self._sent += len(found)
        self.seek(0)
        self.truncate()
        return found
