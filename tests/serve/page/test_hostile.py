"""Names that want to be more than names: on every view they are text, and nothing else."""

from typing import Any

import pytest

from hyperfsad.serve.pictures import LONGEST_NAME
from hyperfsad.wording import visible
from tests.serve.conftest import png
from tests.serve.page.conftest import Opener
from tests.serve.stations import Running, refused

IMAGE, SCRIPT = "<img src=x onerror=alert(1)>", '"><script>alert(2)</script>'
QUOTES = """o'neill "bolt" `${alert(3)}` \\{name} {count} &lt;b&gt; =1+1"""
UMLAUTS, LONG, TURNED = "Größe ÄÖÜ 螺丝 🔩", "W" * 100, "photo\u202egnp.exe"
PRODUCTS = [IMAGE, SCRIPT, QUOTES, UMLAUTS, LONG]
NAMES = [name.replace("/", "").replace("\\", "") for name in PRODUCTS]  # they are a folder's
NAMES += [2 * LONG, TURNED, "two\nrows"]
FILES = {
    name: visible(name.replace('"', "%22").replace("\n", "%0A"))[:LONGEST_NAME] for name in NAMES
}
"""And how they are shown: browsers send quotes and ends of rows like this."""
FOREIGN = (
    """() => document.querySelectorAll("img[src=x], [onerror], main script, #said script").length"""
)


def plain(page: Any, width: int) -> str:
    """All that can be read; nothing became an element, and nothing is cut off."""
    assert page.evaluate(FOREIGN) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    words: str = page.locator("body").inner_text()
    return words


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 900)])
def test_names_are_text_on_every_view(
    station: Running, visit: Opener, width: int, height: int
) -> None:
    client = station.client()
    for known in client.products():
        client.delete_product(known["id"])
    with refused(422, "product-name-invalid"):
        client.create_product(TURNED, [png(0)])
    assert client.create_product("two\nrows", [png(0)])["name"] == "two rows"
    good = [(name, png(seed)[1]) for seed, name in enumerate(FILES)]
    made = [client.create_product(name, good)["id"] for name in PRODUCTS]
    for product in made:
        client.calibrate_product(product, threshold=1e-4)
    page = visit(
        station.url, f"#/inspect/{made[0]}", width=width, height=height, allowed=("status of 4",)
    )
    page.wait_for_selector(".source .drop")
    assert page.locator(".product-select option").all_inner_texts() == sorted(
        [*PRODUCTS, "two rows"]
    )
    sent = [
        {"name": name, "mimeType": "image/png", "buffer": png(20 + seed)[1]}
        for seed, name in enumerate(FILES)
    ]
    torn = [{**one, "buffer": b"no picture"} for one in sent]
    page.locator(".source .drop input").set_input_files([*sent, *torn])
    page.wait_for_selector(f".toast >> text={len(torn)} not readable")
    words = plain(page, width)
    for shown in FILES.values():
        assert f"{shown} is not an image" in words
    named = {row["name"] for row in client.history(product=made[0])}
    assert named == set(FILES.values())
    for found in client.history(product=made[0]):
        page.goto(f"{station.url}/#/inspections/{found['id']}")
        page.wait_for_selector(".sheet .gauge")
        assert found["name"] in plain(page, width)
        assert page.title().startswith(f"{IMAGE} – {found['name']}")
    page.keyboard.press("f")
    page.wait_for_selector("dialog")
    assert found["name"] in plain(page, width)
    page.locator("dialog").get_by_role("button", name="Teach it").click()
    page.wait_for_selector(".toast >> text=has learnt it")
    for name, product in zip(PRODUCTS, made, strict=True):
        page.goto(f"{station.url}/#/products/{product}")
        page.wait_for_selector(".goods li:nth-child(8) img")
        page.wait_for_selector(".versions tbody tr:nth-child(2)")
        assert name in plain(page, width)
        page.get_by_role("button", name="Delete").click()
        assert f"Delete {name}?" in page.locator("dialog").inner_text()
        plain(page, width)
        page.keyboard.press("Escape")
    for place, ready in (
        ("#/products", ".product-card"),
        ("#/history", ".history-table tbody tr"),
        (f"#/trends/{made[0]}", ".chart.shares svg"),
        ("#/live", ".wall"),
    ):
        page.goto(f"{station.url}/{place}")
        page.wait_for_selector(ready)
        assert IMAGE in plain(page, width)
