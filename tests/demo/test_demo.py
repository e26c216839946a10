"""The demo: the main job with the real default encoder, from drawing to pictures."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperfsad.cli import main
from hyperfsad.demo.drawing import PRODUCTS, draw
from tests.conftest import read_results

FAST = ("--engine", "openvino")
"""What users have on a CPU; other tests run the same encoder with torch."""


def test_the_demo_tells_good_parts_from_bad_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also the plate without its hole, though what is left there is like the rest of the plate."""
    assert main(["demo", "-o", str(tmp_path), *FAST]) == 0
    table, said = capsys.readouterr()
    sentences = [row for row in said.splitlines() if row]
    assert len(sentences) == len(set(sentences)) > 0  # what holds for both products is said once
    assert len(re.findall(r" % +anomalous\n", table)) == 8
    assert table.count(" good\n") == 4
    assert "(wrong)" not in table
    assert "12 of 12 right" in table
    assert f"Pictures: {tmp_path / 'plate' / 'heatmaps'}" in table
    for product in ("plate", "fabric"):
        lines = read_results(tmp_path / product)
        assert len(lines) == 6
        assert all((tmp_path / product / str(line["heatmap"])).is_file() for line in lines)
    (lacking,) = (
        line for line in read_results(tmp_path / "plate") if "missing hole" in str(line["image"])
    )
    seed = int(Path(str(lacking["image"])).name[:3])
    rows, columns = np.nonzero(draw("plate", seed=seed, defect="missing hole").mask)
    regions: Any = lacking["regions"]
    there = [
        region["kind"]
        for region in regions
        if columns.min() <= region["peak"]["x"] <= columns.max() + 1
        and rows.min() <= region["peak"]["y"] <= rows.max() + 1
    ]
    assert there == ["missing"]
    assert regions[0]["kind"] == "missing"  # the highest peak of all


def test_the_papers_algorithm_sees_the_missing_hole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(PRODUCTS, "fabric")  # every part costs seconds, and the hole is the plate's
    assert main(["demo", "-o", str(tmp_path), "--recipe", "paper-offline", *FAST]) == 0
    assert "6 of 6 right" in capsys.readouterr().out
