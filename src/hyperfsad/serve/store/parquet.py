"""The history as Parquet, written while it is read: one row group for each page."""

import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ...errors import UsageError
from .database import Database
from .history import Filter, pages


def parquet(database: Database, wanted: Filter) -> Iterator[bytes]:
    """All inspections that are wanted; what cannot be done is said before the first byte."""
    try:
        import pyarrow as arrow
        from pyarrow.parquet import ParquetWriter
    except ModuleNotFoundError as error:
        raise UsageError(
            f"Parquet needs a further package on the station: pip install 'hyperfsad[serve]'"
            f" ({error.name} is not there); take CSV meanwhile."
        ) from error
    schema = _schema(arrow)

    def written() -> Iterator[bytes]:
        sink = _Sink()
        with ParquetWriter(sink, schema) as writer:
            for found in pages(database, wanted):
                if found:
                    rows = [{**row, "time": datetime.fromisoformat(row["time"])} for row in found]
                    writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
                    yield sink.taken()
        yield sink.taken()  # the footer

    return written()


def _schema(arrow: Any) -> Any:
    """Types of their own for every column, also where an export has no row or no value."""
    text, number = arrow.dictionary(arrow.int32(), arrow.string()), arrow.float64()
    return arrow.schema(
        [
            ("id", arrow.string()),
            ("time", arrow.timestamp("ms", tz="UTC")),
            ("product", text),
            ("name", arrow.string()),
            ("verdict", text),
            ("score", number),
            ("threshold", number),
            ("strength", number),
            ("p_value", number),
            ("regions", arrow.int32()),
            ("label", text),
            ("product_id", text),
            ("revision", arrow.int32()),
            ("image", arrow.string()),
        ]
    )


class _Sink(io.RawIOBase):
    """A file that is sent away in parts."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._place = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """What was written so far, also what is gone; the footer has places in the file."""
        return self._place

    def write(self, content: Any) -> int:
        """Takes some more."""
        self._content += content
        size = memoryview(content).nbytes
        self._place += size
        return size

    def taken(self) -> bytes:
        """What was written since the last time."""
        found = bytes(self._content)
        self._content.clear()
        return found
