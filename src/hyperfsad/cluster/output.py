"""What a run writes: the results of each chunk as one Parquet file."""

import io
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..report.records import Record, make_record
from ..results.result import AnomalyResult
from .storage import StorageFolder

PARTS_FOLDER = "results"
RUN_KEY = b"hyperfsad.run"
"""In a part: which detector and options made it."""
STAMP = "stamp"
"""The one column that is not a field of a record: it tells whether an image has changed."""


def part_name(key: str) -> str:
    """The path of a part in the output folder."""
    return f"{PARTS_FOLDER}/part-{key}.parquet"


@cache
def part_schema() -> Any:
    """The columns: all fields of a record, in its order, then the stamp of the image."""
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
        **dict.fromkeys((*texts, "heatmap", "map", "error", STAMP), text),
        **dict.fromkeys(("anomalous", "unknown_product", "foreign"), truth),
        "size": pa.list_(pa.int64()),
        "regions": pa.list_(pa.struct(list(region.items()))),
    }
    record = make_record(AnomalyResult.failed("", ""), {"heatmap": None, "map": None})
    return pa.schema([(name, types.get(name, number)) for name in (*record, STAMP)])


def part_content(records: Sequence[Record], stamps: Sequence[str | None], run: str) -> bytes:
    """The content of a part."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {**{name: as_unicode(value) for name, value in record.items()}, STAMP: stamp}
        for record, stamp in zip(records, stamps, strict=True)
    ]
    schema = part_schema().with_metadata({RUN_KEY: run.encode()})
    content = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), content, compression="zstd")
    return content.getvalue()


def read_part(folder: StorageFolder, name: str) -> tuple[str, dict[str, Record]]:
    """The run of a part, and its rows by image; nothing where there is none that can be read."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(pa.BufferReader(folder.read(name) or b""))
    except pa.ArrowInvalid:  # not there, or cut off by a file system that does not rename
        return "", {}
    if table.schema.names != part_schema().names:
        return "", {}
    run = (table.schema.metadata or {}).get(RUN_KEY, b"").decode()
    return run, {row["image"]: row for row in table.to_pylist()}


def as_unicode(value: Any) -> Any:
    """A name of a file as a table holds it: Parquet knows Unicode alone, file systems know more."""
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", errors="backslashreplace").decode()
