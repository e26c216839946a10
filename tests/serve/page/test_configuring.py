"""A region of interest drawn on the picture, tried, and saved."""

import pytest

from hyperfsad.serve.client import StationClient
from tests.browser import until
from tests.serve.conftest import png
from tests.serve.page.conftest import Opener
from tests.serve.page.test_looks import complaints
from tests.serve.stations import Running


def test_draw_undo_try_and_save(
    station: Running, client: StationClient, product: str, visit: Opener
) -> None:
    client.inspect(product, [png(seed) for seed in range(2, 9)])
    before = client.download_product(product)
    page = visit(station.url, f"#/products/{product}")
    page.get_by_label("Where to inspect").select_option("drawn")
    until(page, "document.querySelector('.drawing img').naturalWidth > 0")
    trying = page.get_by_role("button", name="Try it")
    assert trying.is_disabled()  # nothing is drawn
    stage = page.locator(".drawing")
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()

    def at(x: float, y: float) -> tuple[float, float]:
        return box["x"] + x * box["width"], box["y"] + y * box["height"]

    page.mouse.move(*at(0.1, 0.1))
    page.mouse.down()
    page.mouse.move(*at(0.5, 0.6), steps=3)
    page.mouse.up()
    page.wait_for_selector("text=One shape.")
    page.get_by_role("button", name="Polygon").click()
    for x, y in ((0.6, 0.7), (0.9, 0.7), (0.9, 0.9), (0.6, 0.7)):
        page.mouse.click(*at(x, y))
    page.wait_for_selector("text=2 shapes.")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector("text=One shape.")
    page.get_by_role("button", name="Rectangle").click()
    stage.focus()  # the same with keys
    for key in ("ArrowRight", "Enter", "ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector("text=2 shapes.")
    page.keyboard.press("Backspace")
    page.wait_for_selector("text=One shape.")
    assert complaints(page) == []
    trying.click()
    page.locator(".trial tr", has_text="Latest parts, judged again").get_by_text("7").wait_for()
    share = page.locator(".trial tr", has_text="Of the picture").locator("td").inner_text()
    assert float(share.rstrip("%")) == pytest.approx(20, abs=1)
    assert client.download_product(product) == before
    page.locator(".settings").get_by_role("button", name="Save").click()
    page.wait_for_selector(".toast >> text=with the new settings")
    region = client.product(product)["settings"]["region"]
    assert isinstance(region, list)
    corner, _, opposite, _ = region[0]
    assert [*corner, *opposite] == pytest.approx([0.1, 0.1, 0.5, 0.6], abs=0.02)
    assert page.get_by_label("Where to inspect").input_value() == "drawn"
    page.locator(".toast").get_by_role("button", name="Undo").click()
    page.wait_for_selector(".toast >> text=Version 1 is back.")
    assert client.download_product(product) == before
    assert page.locator(".versions td.names").nth(1).inner_text().startswith("settings changed")


def test_a_rate_outside_is_refused_in_percent(
    station: Running, product: str, visit: Opener
) -> None:
    page = visit(station.url, f"#/products/{product}")
    rate = page.locator(".settings").get_by_label("False alarms to aim at")
    rate.fill("0")
    page.get_by_role("button", name="Try it").click()
    assert "0.1" in rate.evaluate("(node) => node.validationMessage")
