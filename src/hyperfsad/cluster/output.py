"""What a run writes: the results of each chunk as one Parquet file."""

import io
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..report.parquet import in_unicode, record_schema
from ..report.records import Record
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
    """The columns: those of a record, then the stamp of the image."""
    import pyarrow as pa

    return record_schema().append(pa.field(STAMP, pa.string()))


def part_content(records: Sequence[Record], stamps: Sequence[str | None], run: str) -> bytes:
    """The content of a part."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {**in_unicode(record), STAMP: stamp} for record, stamp in zip(records, stamps, strict=True)
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
