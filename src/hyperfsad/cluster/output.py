"""The results of a chunk as one Parquet file, with the fields of the records in results.jsonl."""

import io
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ..report.exports import Record
from .places import Place

FOLDER = "results"
RUN = b"hyperfsad.run"
"""In a part: which detector and options made it."""

STAMP = "stamp"
"""The one column that is no field of a record: whether an image has changed."""


def part_name(key: str) -> str:
    """The path of a part in the output folder."""
    return f"{FOLDER}/part-{key}.parquet"


@cache
def schema() -> Any:
    """The columns: all fields of a record, in its order, then the stamp of the image."""
    import pyarrow as pa

    text, number, truth = pa.string(), pa.float64(), pa.bool_()
    place = pa.struct([("x", number), ("y", number), ("value", number)])
    region = pa.struct(
        [
            ("bbox", pa.list_(pa.int64())),
            ("area", number),
            ("score", number),
            ("peak", place),
            ("polygon", pa.list_(pa.list_(number))),
            ("kind", text),
        ]
    )
    return pa.schema(
        [
            ("image", text),
            ("score", number),
            ("score_map", number),
            ("score_cls", number),
            ("score_missing", number),
            ("threshold", number),
            ("anomalous", truth),
            ("size", pa.list_(pa.int64())),
            ("map_threshold", number),
            ("threshold_from", text),
            ("p_value", number),
            ("regions", pa.list_(region)),
            ("product", text),
            ("unknown_product", truth),
            ("nearest_product", text),
            ("product_similarity", number),
            ("product_margin", number),
            ("foreign", truth),
            ("looked", text),
            ("heatmap", text),
            ("map", text),
            ("error", text),
            (STAMP, text),
        ]
    )


def part_file(records: Sequence[Record], stamps: Sequence[str | None], run: str) -> bytes:
    """The content of a part."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {**{name: _unicode(value) for name, value in record.items()}, STAMP: stamp}
        for record, stamp in zip(records, stamps, strict=True)
    ]
    named = schema().with_metadata({RUN: run.encode()})
    content = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows, schema=named), content, compression="zstd")
    return content.getvalue()


def read_part(place: Place, key: str) -> tuple[str, dict[str, Record]]:
    """The run of a part, and its rows by image; nothing where there is none that can be read."""
    import pyarrow as pa
    from pyarrow import parquet

    content = place.read(part_name(key))
    if content is None:
        return "", {}
    try:
        table = parquet.read_table(pa.BufferReader(content))
    except pa.ArrowInvalid:  # cut off, by a file system that does not rename
        return "", {}
    if table.schema.names != schema().names:
        return "", {}
    run = (table.schema.metadata or {}).get(RUN, b"").decode()
    return run, {row["image"]: row for row in table.to_pylist()}


def plain_name(name: str) -> str:
    """The name of an image as a table holds it: Parquet knows Unicode alone, and file systems
    know more."""
    return name.encode("utf-8", errors="backslashreplace").decode()


def files_named(row: Mapping[str, Any]) -> set[str]:
    """The heat map and the map of a row, as far as it has them; never files elsewhere."""
    named = {row[kind] for kind in ("heatmap", "map") if row.get(kind)}
    return {name for name in named if os.path.dirname(name) in ("heatmaps", "maps")}


def _unicode(value: Any) -> Any:
    return plain_name(value) if isinstance(value, str) else value
