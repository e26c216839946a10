"""Fields of one's own on the page: defined, scanned, and searched."""

from pathlib import Path

from hyperfsad.serve.client import StationClient
from tests.browser import until
from tests.serve.page.conftest import Opener
from tests.serve.stations import Running


def test_fields_are_defined_scanned_and_searched(
    station: Running, client: StationClient, product: str, visit: Opener, pictures: list[Path]
) -> None:
    page = visit(station.url, f"#/products/{product}")
    for place, name in enumerate(("serial", "lot")):
        page.get_by_role("button", name="Add a field").click()
        page.get_by_label("Name of the field").nth(place).fill(name)
    page.get_by_label("each part has its own").first.check()
    page.get_by_label("From the file name").fill("* {lot}")
    page.locator("form", has_text="Add a field").get_by_role("button", name="Save").click()
    page.wait_for_selector("text=The fields are saved.")

    page.goto(f"{station.url}/#/inspect/{product}")
    page.wait_for_selector(".entries")
    page.keyboard.press("s")
    page.keyboard.type("B\u00e417\n")  # as a reader sends it; no key of the page may act on it
    page.keyboard.type("L-3\n")
    page.locator(".source .drop input").set_input_files(pictures[4])
    page.wait_for_selector(".verdict-word")
    assert page.get_by_label("serial").input_value() == ""
    assert page.get_by_label("lot").input_value() == "L-3"
    page.get_by_label("lot").fill("")
    page.locator(".source .drop input").set_input_files(pictures[5])
    page.wait_for_selector(".strip-list li:nth-child(2)")
    found = [one["fields"] for one in client.page(product=product)["inspections"]]
    assert found == [{"lot": "5"}, {"serial": "B\u00e417", "lot": "L-3"}]
    assert all(one["label"] is None for one in client.page(product=product)["inspections"])

    page.goto(f"{station.url}/#/history?product={product}")
    page.wait_for_selector(".history-table tbody tr:nth-child(2)")
    page.get_by_label("Serial, lot, …").fill("b\u00c41")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=serial B\u00e417 · lot L-3")
    until(page, "document.querySelectorAll('.history-table tbody tr').length === 1")
    assert "value=" in page.url
    page.get_by_role("link", name="part 4.png").click()
    page.wait_for_selector(".sheet-head >> text=serial B\u00e417")
