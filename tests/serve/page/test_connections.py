"""The engineer's view of machines: what is connected, and what is wrong."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connect.machines import free_port
from tests.serve.conftest import png
from tests.serve.page.conftest import Opener
from tests.serve.page.test_looks import complaints
from tests.serve.stations import Running, Stations


@pytest.fixture(scope="module")
def connected(stations: Stations, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A station with a server that works, and a broker that is not there."""
    folder: Path = tmp_path_factory.mktemp("connected")
    (folder / "line.toml").write_text(
        f"[modbus]\nport = {free_port()}\n[mqtt]\nhost = '127.0.0.1'\nport = {free_port()}\n"
    )
    options = ("--connect", str(folder / "line.toml"))
    with stations.running(folder / "store", *options) as found:
        client = found.client()
        product = client.create_product("bolt", [png(0), png(1)])["id"]
        client.inspect(product, [png(2)])
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "locale"), [(1280, "en-US"), (390, "de-DE")])
def test_each_says_how_it_is_and_can_be_tested(
    connected: Running, visit: Opener, scheme: str, width: int, locale: str
) -> None:
    options = {"width": width, "locale": locale, "color_scheme": scheme}
    page = visit(connected.url, **options)
    page.locator("#bar .menu summary").click()
    page.locator("#bar .menu a[href='#/connections']").click()
    cards = page.locator(".view-connections .card")
    page.wait_for_selector(".view-connections .card >> nth=1")
    for card, found in zip(cards.all(), (".shape.good", ".shape.anomalous"), strict=True):
        card.get_by_role("button").click()
        card.locator(found).wait_for()
    broken = cards.nth(1).inner_text()
    assert ("Gestört" if locale == "de-DE" else "Broken") in broken
    assert "mqtt://127.0.0.1:" in broken
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
    assert complaints(page) == []


def test_without_connections_it_says_how_to_make_some(station: Running, visit: Opener) -> None:
    page = visit(station.url, "#/connections")
    page.wait_for_selector("text=--connect FILE.toml")


def test_an_operator_does_not_see_it(connected: Running, visit: Opener) -> None:
    page = visit(connected.url)
    page.evaluate("""localStorage.setItem("hyperfsad", JSON.stringify({ view: "operator" }))""")
    page.goto(f"{connected.url}/#/connections")
    page.reload()
    page.wait_for_selector("#main > *")
    assert page.locator("text=Connections").count() == 0
