"""What the defect is, by one key."""

from pathlib import Path

from hyperfsad.serve.client import StationClient
from tests.serve.conftest import png
from tests.serve.page.conftest import Opener
from tests.serve.page.test_inspecting import inspect
from tests.serve.page.test_looks import complaints
from tests.serve.stations import Running


def test_bad_a_name_and_the_next_one_by_a_key(
    station: Running, client: StationClient, pictures: list[Path], visit: Opener
) -> None:
    product = client.create_product("named", [png(0), png(1)])["id"]
    client.calibrate_product(product, threshold=1e-4)
    page = visit(station.url, f"#/inspect/{product}")
    inspect(page, pictures[4:5])
    assert page.locator(".names-list").is_hidden()  # nothing to choose from yet
    page.keyboard.press("b")
    page.wait_for_selector("text=A person says: bad.")
    box = page.locator(".stage").bounding_box()
    page.locator(".stage").click(position={"x": box["width"] / 4, "y": box["height"] / 2})
    page.wait_for_selector(".crops")
    page.keyboard.press("n")
    page.keyboard.type("bent lead")
    page.keyboard.press("Enter")
    page.wait_for_selector(".toast >> text=Kept as bent lead, at the place that you marked.")
    page.wait_for_selector(".verdict-defect >> text=bent lead")
    assert complaints(page) == []
    inspect(page, pictures[4:5])  # now the product says so itself
    page.wait_for_selector(".verdict-defect >> text=bent lead")
    (row,) = client.page(limit=1)["inspections"]
    assert (row["label"], row["defect"]) == (None, "bent lead")
    inspect(page, pictures[5:6])
    page.keyboard.press("1")  # bad, and the first name: one key
    page.wait_for_selector(".names-list [aria-pressed=true] >> text=bent lead")
    (row,) = client.page(limit=1)["inspections"]
    assert (row["label"], row["defect"]) == ("bad", "bent lead")
    assert client.product(product)["defects"] == [{"name": "bent lead", "examples": 2}]
    page.locator(".toast").get_by_role("button", name="Undo").click()
    page.wait_for_selector("text=Taken back.")
    assert client.product(product)["defects"] == [{"name": "bent lead", "examples": 1}]
    page.goto(f"{station.url}/#/history")
    page.get_by_label("All defects").select_option("bent lead")
    page.wait_for_selector("text=Inspections 1 to")
    cells = page.locator(".history-table td[data-title='Defect']").all_inner_texts()
    assert set(cells) == {"bent lead"}
    assert page.url.endswith("?defect=bent+lead")
