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
    for number in range(8):
        cell.part(number)
    cell.catch_up()
    cell.cut_off(lambda: [cell.part(number) for number in range(8, 14)] and None)
    for number in range(14, 20):
        cell.part(number)
    cell.kill()
    for number in range(20, 30):
        cell.part(number)
    cell.check()
    assert len(cell.verdicts) >= 30
    assert {"good", "anomalous", "error"} == set(cell.verdicts)
    assert len(cell.shown) == 30
