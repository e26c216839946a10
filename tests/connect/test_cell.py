"""Thirty parts; `benchmarks/cell.py` runs a thousand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connect.cell import Cell
from tests.serve.stations import Stations


@pytest.fixture
def cell(tiny: str, tmp_path: Path) -> Iterator[Cell]:
    stations = Stations(tiny, tmp_path)
    found = Cell(stations, tmp_path)
    yield found
    found.close()
    stations.close()


def test_every_client_has_every_record_once_and_in_order(cell: Cell) -> None:
    cell.parts(0, 8)
    cell.catch_up()
    cell.cut_off(lambda: cell.parts(8, 14))
    cell.parts(14, 20)
    cell.kill()
    cell.parts(20, 30)
    cell.check()
    assert len(cell.verdicts) >= 30
    assert {"good", "anomalous", "error"} == set(cell.verdicts)
    assert len(cell.shown) > 25  # on a busy machine one may be late, and is then not shown
