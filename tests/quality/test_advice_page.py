"""The page of the advice, and the command that writes it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hyperfsad.cli import main
from hyperfsad.demo.drawing import draw


@pytest.fixture(scope="module")
def written(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command writes for four good parts on a backdrop."""
    folder = tmp_path_factory.mktemp("advice")
    good = folder / "good <parts>"
    good.mkdir()
    for seed in range(4):
        draw("plate", seed=seed, size=128).image.save(good / f"{seed}.png")
    out = folder / "out"
    words = ["advise", str(good), "-o", str(out), "--backbone", tiny, "--device", "cpu"]
    assert main([*words, "--max-cost", "1.2"]) == 0
    return out


def test_the_figures_are_those_of_the_page(written: Path) -> None:
    figures = json.loads((written / "advice.json").read_text(encoding="utf-8"))
    assert figures["format"] == 1
    assert figures["drawn"] is True
    assert figures["good_parts"] == 4
    usual = figures["settings"][0]
    assert usual["defects"] == 64
    level = usual["level"]
    bad = [sample for sample in usual["samples"] if sample["bad"]]
    assert usual["found"] == sum(sample["strength"] > level for sample in bad)
    assert {sample["pixels"] for sample in bad} == {3, 5, 10, 20}
    kinds = usual["kinds"]
    assert [total for _, total in kinds.values()] == [16] * 4
    assert sum(found for found, _ in kinds.values()) == usual["found"]
    costly = [row for row in figures["left_out"] if "at most 1.2 times" in row["reason"]]
    assert [row["setting"] for row in costly] == ["at 70 pixels", "in tiles of 56 pixels"]
    page = (written / "advice.html").read_text(encoding="utf-8")
    assert all(f"{found} of 16 found</h3>" in page for found, _ in kinds.values())
    assert "Left out: in tiles of 56 pixels." in page
    assert f"{usual['found']} of 64" in page
    assert "good &lt;parts&gt;" in page  # names are escaped
    assert "<parts>" not in page


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1200, "light")])
def test_the_page_in_a_browser(
    opened: Callable[..., Any], written: Path, width: int, scheme: str
) -> None:
    page = opened(written / "advice.html", width, scheme=scheme)
    assert page.locator("h1").inner_text() == "hyperfsad advice"
    assert page.locator(".drawn img").count() == 32
    settings = page.locator(".compared").first.locator("tbody tr").count()
    assert page.locator("polyline").count() == settings
    assert page.locator(".compared.kinds tbody tr").count() == settings
    outside = """(width) => [...document.querySelectorAll("td, th")]
      .filter((node) => node.getBoundingClientRect().right > width).map((node) => node.outerHTML)"""
    assert page.evaluate(outside, width) == []  # nothing has to be scrolled sideways
    labels = page.locator(".compared thead").first.is_visible()
    assert labels == (width > 736)  # on a phone each figure has its own
    scale = page.evaluate("document.querySelector('.chart').getScreenCTM().a")
    assert 10 <= 12 * scale <= 14  # pixels of the chart's text
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown = "[...document.images].every(image => image.complete && image.naturalWidth > 0)"
    assert page.evaluate(shown)


def test_bad_parts_instead_of_drawn_ones(
    tiny: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    Image.new("RGB", (96, 80), (0, 255, 0)).save(bad / "green.png")
    (bad / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    words = ["advise", str(photos), "--bad", str(bad), "-o", str(tmp_path / "out")]
    assert main([*words, "--backbone", tiny, "--device", "cpu", "--max-cost", "1"]) == 3
    told = capsys.readouterr()
    assert "1 bad parts" not in told.out
    assert "broken.png" in told.err
    assert "--backbone" in told.out


def test_no_good_part_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--bad", "bad/"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
