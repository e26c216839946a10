"""Contrast, sizes, languages, and what stands there when the station cannot work."""

from pathlib import Path
from typing import Any

import pytest

from tests.serve.page.conftest import Opener
from tests.serve.stations import Running, Stations

SMALL = """() => [...document.querySelectorAll("button, select, summary, .button")]
  .filter((node) => node.offsetParent && node.getBoundingClientRect().height < 24)
  .map((node) => node.textContent)"""
"""What a finger would miss."""
SIZES = [(390, 844), (820, 1180), (1280, 900), (3840, 2160)]


def complaints(page: Any) -> list[str]:
    """What axe finds against WCAG 2.2 AA."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = axe.run(page, options={"runOnly": {"type": "tag", "values": tags}})
    assert "color-contrast" in {one["id"] for one in found.response["passes"]}
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found.response["violations"]
        for node in one["nodes"]
    ]


def inspected(page: Any, path: Path) -> Any:
    page.wait_for_selector(".source .drop")
    page.locator(".source .drop input").set_input_files(path)
    page.wait_for_selector(".verdict-word")
    page.keyboard.press("e")
    page.wait_for_selector(".evidence img")
    return page


def places(station: Running) -> dict[str, str]:
    """All views besides inspecting, and what stands there when they are ready."""
    (product,) = station.client().products()
    found = next(station.client().history())["id"]
    return {
        "#/products": ".product-card",
        f"#/products/{product['id']}": ".histogram svg",
        "#/new": "[data-step='3']",
        "#/history": ".history-table tbody tr",
        f"#/inspections/{found}": ".evidence img",
        f"#/trends/{product['id']}": ".chart.shares svg",
        "#/live": ".wall-list li",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(
    taught: Running, visit: Opener, pictures: list[Path], scheme: str
) -> None:
    page = inspected(visit(taught.url, color_scheme=scheme), pictures[5])
    assert complaints(page) == []
    page.keyboard.press("b")
    page.wait_for_selector("text=A person says: bad.")
    assert complaints(page) == []
    page.keyboard.press("u")
    page.wait_for_selector("text=Taken back.")
    for place, ready in places(taught).items():
        page.goto(f"{taught.url}/{place}")
        page.wait_for_selector(ready)
        page.locator(".menu summary").click()
        assert complaints(page) == [], place


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_nothing_is_cut_off(
    taught: Running, visit: Opener, pictures: list[Path], width: int, height: int
) -> None:
    touch = {"has_touch": width < 900, "is_mobile": width < 900}
    start = visit(taught.url, width=width, height=height, locale="de-DE", **touch)
    page = inspected(start, pictures[5])
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for place, ready in places(taught).items():
        page.goto(f"{taught.url}/{place}")
        page.wait_for_selector(ready)
        if page.locator(".filters:not([open])").count():
            page.locator(".filters summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, place
    page.goto(f"{taught.url}/")
    inspected(page, pictures[5])
    for language in ("de", "en"):
        page.locator(".menu summary").click()
        page.locator(".menu select").nth(1).select_option(language)
        page.keyboard.press("Escape")
        word, banner = (page.locator(name).bounding_box() for name in (".verdict-word", ".verdict"))
        assert banner["x"] <= word["x"]
        assert word["x"] + word["width"] <= banner["x"] + banner["width"]
        assert word["height"] >= 0.1 * min(width, height)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = page.evaluate(SMALL)
    assert small == []


def test_german_from_the_browser_and_english_by_choice(taught: Running, visit: Opener) -> None:
    page = visit(taught.url, locale="de-DE")
    page.wait_for_selector("text=Zeigen Sie mir ein Teil.")
    assert page.locator("html").get_attribute("lang") == "de"
    page.locator(".menu summary").click()
    page.get_by_label("Sprache").select_option("en")
    page.wait_for_selector("text=Show me a part.")
    page.reload()
    page.wait_for_selector("text=Show me a part.")


def test_a_full_disk_is_told(
    stations: Stations, tmp_path: Path, visit: Opener, pictures: list[Path]
) -> None:
    full = stations.start(tmp_path / "store", "--reserve-megabytes", str(10**9))
    try:
        page = visit(full.listening(), allowed=("503", "507"))
        page.wait_for_selector(".notice.bad >> text=The disk is nearly full.")
        page.locator("[data-step='1'] input[type=file]").first.set_input_files(pictures[0])
        page.get_by_role("button", name="Learn from this photo").click()
        page.wait_for_selector(".toast.bad")
        assert page.locator("[data-step='3'] .drop").count() == 0
    finally:
        full.stop()


def test_a_station_that_is_away_is_told(
    stations: Stations, tmp_path: Path, visit: Opener, pictures: list[Path]
) -> None:
    station = stations.start(tmp_path / "store").wait()
    page = visit(station.url, allowed=("ERR_CONNECTION_REFUSED",))
    page.wait_for_selector("[data-step='1']")
    station.stop()
    page.locator("[data-step='1'] input[type=file]").first.set_input_files(pictures[0])
    page.get_by_role("button", name="Learn from this photo").click()
    page.wait_for_selector(".notice.bad >> text=does not answer")
    page.wait_for_selector(".toast.bad >> text=does not answer")
    port = station.url.rsplit(":", 1)[1]
    with stations.running(tmp_path / "store", "--port", port):
        page.wait_for_selector(".notice", state="detached")
        page.wait_for_selector(".toast", state="detached")  # it is over
