"""What operators stumbled over."""

from pathlib import Path

import pytest

from hyperfsad.serve.client import StationClient
from tests.browser import until
from tests.serve.conftest import png
from tests.serve.page.conftest import Opener
from tests.serve.page.test_inspecting import inspect
from tests.serve.stations import Running


def test_german_keys_are_those_of_the_german_words(
    station: Running, client: StationClient, product: str, visit: Opener, pictures: list[Path]
) -> None:
    page = visit(station.url, f"#/inspect/{product}", locale="de-DE")
    inspect(page, pictures[4:5])
    page.keyboard.press("f")
    page.wait_for_selector("text=Ein Mensch sagt: fehlerhaft.")
    (row,) = client.page(limit=1)["inspections"]
    assert row["label"] == "bad"
    page.keyboard.press("z")
    page.wait_for_selector("text=Zurückgenommen.")
    assert client.inspection(row["id"])["label"] is None


def test_two_tabs_see_what_the_other_says(
    station: Running, client: StationClient, product: str, visit: Opener
) -> None:
    found = client.inspect(product, [png(5)])["inspections"][0]["id"]
    page = visit(station.url, f"#/inspections/{found}", allowed=("409",))
    page.wait_for_selector(".label-bad")
    other = page.context.new_page()
    other.goto(f"{station.url}/#/inspections/{found}")
    other.wait_for_selector(".label-bad")
    other.keyboard.press("b")
    page.wait_for_selector("text=A person says: bad.")
    other.keyboard.press("u")
    page.wait_for_selector(".label-bad")
    client.label(found, "bad")  # on another machine
    page.keyboard.press("f")
    page.wait_for_selector(".toast.bad >> text=Somebody has said already")
    page.wait_for_selector("text=A person says: bad.")


def test_few_stops_of_the_tab_key_to_the_buttons(
    station: Running, product: str, visit: Opener, pictures: list[Path]
) -> None:
    page = visit(station.url, f"#/inspect/{product}")
    page.wait_for_selector(".source .drop")
    page.locator(".source .drop input").set_input_files(pictures)
    page.locator(".batch-item").nth(7).click()
    page.keyboard.press("Tab")
    page.evaluate("document.activeElement.blur(); document.querySelector('.skip').focus()")
    page.keyboard.press("Enter")
    stops = 0
    while page.evaluate("!document.activeElement.classList.contains('label-bad')"):
        page.keyboard.press("Tab")
        stops += 1
        assert stops <= 6
    page.keyboard.press("Enter")
    page.wait_for_selector("text=A person says: bad.")


def test_the_hint_follows_the_rate_and_0_is_refused_in_percent(
    station: Running, client: StationClient, product: str, visit: Opener
) -> None:
    page = visit(station.url, f"#/products/{product}")
    card = page.locator(".columns .card").filter(has_text="Set the threshold")
    assert "With 19 of them at most 5%" in card.inner_text()
    rate = card.get_by_label("False alarms to aim at")
    rate.fill("2")
    assert "With 49 of them at most 2%" in card.inner_text()
    rate.fill("0")
    card.get_by_role("button", name="Estimate again").click()
    assert "0.1" in rate.evaluate("(node) => node.validationMessage")
    assert client.product(product)["revision"] == 1


@pytest.mark.parametrize("language", ["en-US", "de-DE"])
def test_refusals_are_told_in_the_language_of_the_page(
    station: Running, product: str, visit: Opener, language: str
) -> None:
    page = visit(station.url, f"#/products/{product}", locale=language, allowed=("422",))
    page.locator(".columns .card").last.wait_for()
    page.get_by_role("button", name={"en-US": "Evaluate", "de-DE": "Auswerten"}[language]).click()
    told = page.locator(".toast.bad > span")
    told.wait_for()
    german = "Noch hat niemand" in told.inner_text()
    assert german == (language == "de-DE")
    assert "label some" not in told.inner_text()


def test_products_have_a_picture(station: Running, product: str, visit: Opener) -> None:
    page = visit(station.url, "#/products")
    until(
        page, "[...document.querySelectorAll('.product-picture img')].some((n) => n.naturalWidth)"
    )


def test_the_settings_stay_inside_their_panel(
    station: Running, product: str, visit: Opener
) -> None:
    for width in (390, 1280):
        page = visit(station.url, f"#/inspect/{product}", locale="de-DE", width=width)
        page.locator(".menu summary").click()
        panel = page.locator(".menu > div").bounding_box()
        assert panel["x"] >= 0
        for one in page.locator(".menu > div > *").all():
            box = one.bounding_box()
            assert box["x"] >= panel["x"]
            assert box["x"] + box["width"] <= panel["x"] + panel["width"]
