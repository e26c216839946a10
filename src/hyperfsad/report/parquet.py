"""Records as Parquet, for tables of millions of images."""

from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..disk.files import atomic_path
from ..errors import UsageError
from ..images.loading import batched
from ..results.result import AnomalyResult
from .records import Record, make_record

ROWS = 10_000
"""Records in a row group, which are in memory at once."""


@cache
def record_schema() -> Any:
    """The columns: all fields of a record, in its order."""
    import pyarrow as pa

    number, text, truth = pa.float64(), pa.string(), pa.bool_()
    region = {
        "bbox": pa.list_(pa.int64()),
        "area": number,
        "score": number,
        "peak": pa.struct([("x", number), ("y", number), ("value", number)]),
        "polygon": pa.list_(pa.list_(number)),
        "kind": text,
    }
    texts = ("image", "threshold_from", "product", "nearest_product", "defect")
    types = {
        **dict.fromkeys((*texts, "heatmap", "map", "error"), text),
        **dict.fromkeys(("anomalous", "unknown_product", "foreign"), truth),
        "size": pa.list_(pa.int64()),
        "regions": pa.list_(pa.struct(list(region.items()))),
    }
    record = make_record(AnomalyResult.failed("", ""), {"heatmap": None, "map": None})
    return pa.schema([(name, types.get(name, number)) for name in record])


def check_parquet() -> None:
    """Refuses before the work begins, where Parquet cannot be written."""
    if find_spec("pyarrow") is None:
        raise UsageError("parquet-package")


def write_parquet(path: Path, records: Iterable[Record]) -> None:
    """All records as one file, whole or not at all."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = record_schema()
    with (
        atomic_path(path) as temporary,
        parquet.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for several in batched(records, ROWS):
            writer.write_table(pa.Table.from_pylist([*map(in_unicode, several)], schema=schema))


def in_unicode(record: Record) -> Record:
    """A record as a table holds it."""
    return {name: as_unicode(value) for name, value in record.items()}


def as_unicode(value: Any) -> Any:
    """A name of a file as a table holds it: Parquet knows Unicode alone, file systems know more."""
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", errors="backslashreplace").decode()
