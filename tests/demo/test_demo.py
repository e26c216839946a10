"""The demo: the main job with the real default encoder, from drawing to pictures."""

from pathlib import Path

import pytest

from hyperfsad.cli.main import main
from hyperfsad.demo.drawing import PRODUCTS
from tests.conftest import read_results

FAST = ("--engine", "openvino")
"""What users have on a CPU; other tests run the same encoder with torch."""


def test_the_demo_tells_good_parts_from_bad_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default does not see a missing hole: what is left is like the rest of the plate."""
    assert main(["demo", "-o", str(tmp_path), *FAST]) == 0
    table = capsys.readouterr().out
    assert table.count(" anomalous\n") == 7
    assert table.count(" good\n") == 4
    wrong = [line for line in table.splitlines() if "(wrong)" in line]
    assert len(wrong) == 1
    assert "missing hole" in wrong[0]
    assert "11 of 12 right" in table
    assert f"Pictures: {tmp_path / 'plate' / 'heatmaps'}" in table
    for product in ("plate", "fabric"):
        lines = read_results(tmp_path / product)
        assert len(lines) == 6
        assert all((tmp_path / product / str(line["heatmap"])).is_file() for line in lines)


def test_the_papers_algorithm_sees_the_missing_hole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(PRODUCTS, "fabric")  # every part costs seconds, and the hole is the plate's
    assert main(["demo", "-o", str(tmp_path), "--recipe", "paper-offline", *FAST]) == 0
    assert "6 of 6 right" in capsys.readouterr().out
