"""Who sees what."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperfsad.serve.client import StationClient
from tests.browser import until
from tests.serve.conftest import ADMIN, INSPECT, png, token_file
from tests.serve.page.conftest import Opener
from tests.serve.stations import Running, Stations


@pytest.fixture(scope="module")
def guarded(stations: Stations, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("guarded")
    with stations.running(folder / "store", *token_file(folder)) as found:
        found.client(ADMIN).create_product("bolt", [png(0), png(1)])
        yield found


def test_an_operator_signs_in_and_only_inspects(
    guarded: Running, visit: Opener, pictures: list[Path]
) -> None:
    page = visit(guarded.url, "#/products", allowed=("401",))
    token = page.get_by_label("Token")
    token.fill("wrong-token-0123456789")
    token.press("Enter")
    page.wait_for_selector(".toast.bad >> text=not known")
    assert token.input_value() == ""
    token.fill(INSPECT)
    token.press("Enter")
    page.wait_for_selector(".source .drop")  # not the products, which the address asks for
    assert page.locator("nav a", has_text="Products").count() == 0
    page.locator(".source .drop input").set_input_files(pictures[4])
    page.wait_for_selector(".verdict-word")
    page.keyboard.press("f")
    page.wait_for_selector("text=Kept as fine.")
    (row,) = guarded.client(ADMIN).page(limit=1)["inspections"]
    assert guarded.client(ADMIN).inspection(row["id"])["learnt"] is False
    kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    assert INSPECT not in kept
    page.locator(".menu summary").click()
    assert page.get_by_label("View", exact=True).count() == 0
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").wait_for()


def test_an_engineer_chooses_the_view(guarded: Running, visit: Opener) -> None:
    page = visit(guarded.url)
    page.get_by_label("Token").fill(ADMIN)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Products").click()
    page.wait_for_selector(".product-card")
    page.locator(".menu summary").click()
    page.get_by_label("View", exact=True).select_option("operator")
    page.wait_for_selector(".source .drop")
    assert page.locator("nav a", has_text="Products").count() == 0
    page.reload()
    page.wait_for_selector(".source .drop")
    assert page.locator("nav a", has_text="Products").count() == 0


def test_the_operator_view_teaches_nothing_without_tokens_either(
    station: Running, client: StationClient, product: str, visit: Opener, pictures: list[Path]
) -> None:
    page = visit(station.url, f"#/inspect/{product}")
    page.locator(".menu summary").click()
    page.get_by_label("View", exact=True).select_option("operator")
    page.locator(".source .drop input").set_input_files(pictures[4])
    page.wait_for_selector(".verdict-word")
    before = client.download_product(product)
    with page.expect_request(lambda one: one.method == "PUT") as sent:
        page.keyboard.press("f")
    page.wait_for_selector("text=Kept as fine.")
    assert sent.value.headers["x-role"] == "inspect"
    assert sent.value.post_data_json == {"kind": "fine", "learn": False}
    assert client.download_product(product) == before
    page.get_by_label("View", exact=True).select_option("engineer")
    page.keyboard.press("Escape")  # the menu lies over the panel
    page.get_by_role("button", name="Teach").click()  # what the operator called fine
    until(page, "document.querySelector('.labels').textContent.includes('has learnt it')")
    assert client.product(product)["good_parts"] == 3


def test_a_session_that_ended_leads_to_the_login(guarded: Running, visit: Opener) -> None:
    page = visit(guarded.url, allowed=("401",))
    page.get_by_label("Token").fill(ADMIN)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector(".source .drop")
    page.context.clear_cookies()
    page.get_by_role("link", name="Products").click()
    page.get_by_label("Token").wait_for()
