"""Results as tables of other libraries."""

import csv
import sys
from pathlib import Path

import pandas
import polars
import pyarrow.parquet
import pytest

from hyperfsad import HyperFSAD, UsageError, inspect, to_frame
from tests.codes import raises
from tests.conftest import read_results


@pytest.fixture
def fitted(detector: HyperFSAD, photos: Path) -> HyperFSAD:
    (photos / "2.png").write_bytes(b"broken")
    return detector.fit([photos / "0.png", photos / "1.png"])


def test_frames_have_the_columns_of_the_table(
    fitted: HyperFSAD, photos: Path, tmp_path: Path
) -> None:
    inspect(fitted, photos, tmp_path / "out", heatmaps=False)
    with (tmp_path / "out" / "results.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    results = list(fitted.predict_many(photos))
    frame, other = to_frame(results), to_frame(iter(results), "polars")
    assert isinstance(frame, pandas.DataFrame)
    assert isinstance(other, polars.DataFrame)
    columns = [name for name in rows[0] if name not in ("heatmap", "map")]
    assert list(frame.columns) == other.columns == columns
    assert frame["image"].tolist() == other["image"].to_list() == [row["image"] for row in rows]
    for score, again, row in zip(frame["score"], other["score"], rows, strict=True):
        if row["error"]:
            assert pandas.isna(score)
            assert again is None
        else:
            assert score == again == float(row["score"])
    assert [int(count) for count in frame["regions"].dropna()] == [
        len(each.regions) for each in results if each.error is None
    ]
    assert to_frame([]).empty


def test_frames_are_of_a_library_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with raises(UsageError, "setting-invalid", name="library"):
        to_frame([], "excel")  # type: ignore[call-overload]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with raises(UsageError, "frame-library-missing", library="pandas"):
        to_frame([])


def test_parquet_holds_the_records(fitted: HyperFSAD, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    inspect(fitted, photos, out, heatmaps=False, parquet=True)
    rows = pyarrow.parquet.read_table(out / "results.parquet").to_pylist()
    assert rows == read_results(out)
    inspect(fitted, photos, out, heatmaps=False)  # a table of an earlier run would be wrong
    assert not (out / "results.parquet").exists()


def test_parquet_needs_its_library_before_the_work_begins(
    fitted: HyperFSAD, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperfsad.report.parquet.find_spec", lambda name: None)
    with raises(UsageError, "parquet-package"):
        inspect(fitted, photos, tmp_path / "out", parquet=True)
    assert not (tmp_path / "out").exists()
