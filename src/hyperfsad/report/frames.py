"""Many results as one data frame."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, overload

from ..errors import UsageError, brief
from ..results.result import AnomalyResult
from .records import make_record, table_row

if TYPE_CHECKING:
    import pandas
    import polars


@overload
def to_frame(
    results: Iterable[AnomalyResult], library: Literal["pandas"] = "pandas"
) -> "pandas.DataFrame": ...
@overload
def to_frame(
    results: Iterable[AnomalyResult], library: Literal["polars"]
) -> "polars.DataFrame": ...
def to_frame(results: Iterable[AnomalyResult], library: str = "pandas") -> Any:
    """A row for each result, with the columns of results.csv and the number of its regions.

    to_frame(detector.predict_many("photos/")).sort_values("level")
    """
    if library not in ("pandas", "polars"):
        choices = ("pandas", "polars")
        raise UsageError("setting-invalid", name="library", given=brief(library), choices=choices)
    unwritten = {"heatmap": None, "map": None}
    rows = [table_row(make_record(result, unwritten)) for result in results]
    for row in rows:
        for name in unwritten:
            del row[name]
    try:
        if library == "polars":
            import polars

            return polars.DataFrame(rows, infer_schema_length=None)
        import pandas

        return pandas.DataFrame(rows)
    except ImportError as error:
        raise UsageError("frame-library-missing", library=library) from error
