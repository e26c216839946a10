"""The views of what was inspected: history, one inspection, trends, live."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.browser import until
from tests.serve.conftest import png
from tests.serve.page.conftest import Opener
from tests.serve.page.past import add_past, taught, views
from tests.serve.stations import Running, Stations


@pytest.fixture(scope="module")
def full(stations: Stations, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A station with 60 inspections of bolt, 5 of them anomalous, and 3 of nut."""
    with stations.running(tmp_path_factory.mktemp("full")) as found:
        client = found.client()
        nut = client.create_product("nut", [png(0)])["id"]
        client.inspect(nut, [png(seed) for seed in range(3)])
        bolt = client.create_product("bolt", [png(seed) for seed in range(3)])["id"]
        client.calibrate_product(bolt, threshold=99.0)
        parts = [(f"part {n}.png", png(n % 8)[1]) for n in range(55)]
        client.inspect(bolt, parts[:30])
        client.inspect(bolt, parts[30:])
        client.calibrate_product(bolt, threshold=1e-6)
        client.inspect(bolt, [(f"bad {n}.png", png(20 + n)[1]) for n in range(5)])
        yield found


def product(station: Running, name: str) -> str:
    return next(str(one["id"]) for one in station.client().products() if one["name"] == name)


def names(page: Any) -> list[str]:
    return list(page.locator(".history-table tbody th").all_inner_texts())


def test_filters_pages_and_downloads(full: Running, visit: Opener) -> None:
    page = visit(full.url, "#/history")
    page.wait_for_selector(".history-table tbody tr")
    assert len(names(page)) == 50
    assert names(page)[0] == "bad 4.png"
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("text=Inspections 51 to 63")
    assert page.get_by_role("button", name="Older").is_disabled()
    page.get_by_role("button", name="Newer").click()
    page.wait_for_selector("text=Inspections 1 to 50")
    page.get_by_label("All verdicts").select_option("anomalous")
    page.get_by_label("All products").select_option(label="bolt")
    page.wait_for_selector("text=Inspections 1 to 5,")
    assert set(page.locator(".history-table .badge").all_inner_texts()) == {"Anomalous"}
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") != ""
    # the address is a link to the same, and the downloads hold the same
    again = visit(full.url, page.url.removeprefix(f"{full.url}/"))
    again.wait_for_selector("text=Inspections 1 to 5,")
    assert names(again) == names(page)
    with again.expect_download() as loading:
        again.get_by_role("link", name="Download as CSV").click()
    assert len(Path(loading.value.path()).read_text().splitlines()) == 6
    again.get_by_role("button", name="Show all").click()
    again.wait_for_selector("text=Inspections 1 to 50")
    assert again.url.endswith("#/history")
    beyond = sum((one["level"] or 0) >= 1.5 for one in full.client().history())
    again.get_by_label("Reaches from, %").fill("150")
    again.keyboard.press("Tab")
    again.wait_for_selector(f"text=Inspections 1 to {beyond},")
    assert again.url.endswith("?min_level=1.5")
    again.get_by_label("Reaches to, %").fill("149")
    again.keyboard.press("Tab")
    again.wait_for_selector("text=No inspection is like that.")


def test_times_are_those_of_the_browser(full: Running, visit: Opener) -> None:
    rows = list(full.client().history())
    page = visit(full.url, f"#/history?since={rows[4]['time'][:19]}Z", timezone_id="Asia/Tokyo")
    page.wait_for_selector(".history-table tbody tr")
    shown = page.get_by_label("From", exact=True).input_value()
    hour = (int(rows[4]["time"][11:13]) + 9) % 24
    assert shown[11:13] == f"{hour:02d}"


def test_one_inspection_is_a_link_and_a_page_to_print(full: Running, visit: Opener) -> None:
    bad = next(full.client().history(verdict="anomalous"))
    page = visit(full.url, f"#/inspections/{bad['id']}")
    page.wait_for_selector(".evidence img")
    head = page.locator(".sheet-head").inner_text()
    assert "Anomalous" in head
    assert f"bolt · {bad['name']}" in head
    assert page.title() == f"bolt – {bad['name']} – Anomalous"
    page.keyboard.press("b")
    page.wait_for_selector("text=A person says: bad.")
    page.keyboard.press("u")
    page.wait_for_selector(".label-bad")
    page.emulate_media(media="print")
    for hidden in ("#bar", ".stage", ".label-bad", ".sheet-tools"):
        assert not page.locator(hidden).is_visible(), hidden
    for shown in ("img.print-only", ".gauge", ".evidence .crops", "footer.print-only"):
        assert page.locator(shown).is_visible(), shown
    until(page, "document.querySelector('img.print-only').naturalWidth > 100")
    assert bad["image"] in page.locator("footer").inner_text()
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) == 1
    page.evaluate("window.print = () => { window.printed = true; }")
    page.keyboard.press("p")
    until(page, "window.printed === true")


def test_trends_have_charts_and_a_table(full: Running, visit: Opener) -> None:
    page = visit(full.url, f"#/trends/{product(full, 'bolt')}")
    page.wait_for_selector(".chart.spread svg .box")
    told = page.locator(".chart.shares g title").first.text_content()
    assert "anomalous (" in told
    page.locator(".trends summary").click()
    rows = page.locator(".trends tbody tr")
    counts = [row.locator("td").first.inner_text() for row in rows.all()]
    assert sum(map(int, counts)) == 60
    page.get_by_label("How far back").select_option("trend.month")
    until(page, "document.querySelectorAll('.chart.spread .box').length > 0")
    assert page.locator(".drift").count() == 1
    # the table is where the charts have nothing for a screen reader
    labels = page.locator(".chart svg").evaluate_all("found => found.map(n => n.ariaLabel)")
    *charts, shifts = labels
    assert all("the table below" in label for label in charts)
    assert "parts, " in shifts  # which says its figures itself


def test_a_moved_normal_is_told(
    stations: Stations, browser: Any, visit: Opener, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    with stations.running(store) as station:
        taught(station, tmp_path, size=64)
    add_past(store, every=600.0)
    with stations.running(store) as station:
        page = visit(station.url, "#/trends")
        page.wait_for_selector(".drift.moved >> text=Normal has moved")
        assert page.locator(".chart.spread .box").count() > 40
        page.locator(".drift .goods a").first.click()
        page.wait_for_selector(".sheet-head.good")  # a part in the middle, not a defect
        for path in views(browser, station.url, tmp_path):
            with Image.open(path) as picture:
                assert len(picture.convert("L").resize((64, 64)).getcolors() or []) > 5
        page.close()  # before the station ends, or the page would miss it


def test_verdicts_appear_by_themselves(full: Running, visit: Opener) -> None:
    client = full.client()
    page = visit(full.url, f"#/live/{product(full, 'bolt')}", locale="de-DE")
    page.wait_for_selector("text=Verbunden")
    until(page, "document.querySelectorAll('.wall-list li').length === 12")  # what came before
    client.inspect(product(full, "nut"), [("other.png", png(3)[1])])
    client.inspect(product(full, "bolt"), [("now.png", png(3)[1])])
    page.wait_for_selector(".verdict-word >> text=Auffällig")
    assert page.locator(".wall-list li .wall-name").first.inner_text() == "now.png"
    assert "1 geprüft, 1 auffällig" in page.locator(".wall").inner_text()
    assert page.locator(".wall-list >> text=other.png").count() == 0
    fits = "(node) => getComputedStyle(node).objectFit"
    assert page.locator(".wall-list img").first.evaluate(fits) == "contain"  # nothing is cut off
    assert "des Grenzwerts" in page.locator(".wall-list li").first.inner_text()
