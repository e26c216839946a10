"""The report on a shift, on the page."""

from pathlib import Path

from hyperfsad.serve.client import StationClient
from tests.browser import until
from tests.serve.conftest import png
from tests.serve.page.conftest import Opener
from tests.serve.stations import Running


def test_a_shift_is_seen_and_printed(
    station: Running, client: StationClient, product: str, visit: Opener, tmp_path: Path
) -> None:
    client.calibrate_product(product, threshold=1e-6)
    found = [client.inspect(product, [png(seed)])["inspections"][0] for seed in (2, 3, 4)]
    for one, name in zip(found, ("scratch", "dent", "scratch"), strict=True):
        client.label(one["id"], "bad", defect=name)
    page = visit(station.url, f"#/shift?product={product}", allowed=("422",))
    page.wait_for_selector(".pareto")
    rows = page.locator(".pareto tbody th").all_inner_texts()
    assert rows == ["scratch", "dent"]
    assert page.locator("dd strong").nth(1).inner_text() == "0%"
    page.locator("text=When shifts begin").click()
    page.get_by_label("Begins, such as").fill("5:30 14:00")
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector(".toast.bad >> text=06:00")
    page.get_by_label("Begins, such as").fill("00:00")
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector("text=The shifts are saved.")
    until(page, "document.querySelector('.pareto') !== null")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("text=No part was bad.")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".pareto")
    page.emulate_media(media="print")
    assert not page.locator(".product-select").is_visible()
    assert page.locator(".pareto").is_visible()
    page.emulate_media(media="screen")
    page.goto(f"{station.url}/#/trends/{product}")
    page.wait_for_selector("h2 >> text=Parts per shift")
