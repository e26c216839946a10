"""The engineer's view of products."""

from pathlib import Path
from typing import Any

import pytest

from hyperfsad.serve.client import StationClient
from tests.serve.page.conftest import Opener
from tests.serve.stations import Running


@pytest.fixture
def page(station: Running, visit: Opener, product: str) -> Any:
    found = visit(station.url, f"#/products/{product}")
    found.wait_for_selector(".columns .card")
    return found


def choose(page: Any, title: str, paths: list[Path]) -> None:
    card = page.locator(".columns .card").filter(has=page.get_by_role("heading", name=title))
    card.locator("input[type=file]").set_input_files(paths)
    page.wait_for_selector(".toast")


def test_more_good_parts(
    page: Any, client: StationClient, product: str, pictures: list[Path]
) -> None:
    choose(page, "Teach more good parts", pictures[3:5])
    assert "2 photos were learnt." in page.locator(".toast").inner_text()
    assert client.product(product)["good_parts"] == 4
    page.wait_for_selector(".goods li:nth-child(4)")
    page.wait_for_selector(".advice >> text=few to judge by")  # a chance from four says nothing
    assert "chance" not in page.locator(".advice").inner_text()


def test_a_good_part_goes_and_comes_back(page: Any, client: StationClient, product: str) -> None:
    before = client.download_product(product)
    page.get_by_role("button", name="Remove 0.png").click()
    page.wait_for_selector(".toast >> text=0.png was removed")
    assert client.product(product)["good_parts"] == 1
    page.wait_for_selector(".versions tbody tr:nth-child(2)")
    assert page.get_by_role("button", name="Remove").count() == 0  # the last one stays
    page.locator(".toast").get_by_role("button", name="Undo").click()
    page.wait_for_selector(".toast >> text=Version 1 is back.")
    page.wait_for_selector(".versions tbody tr:nth-child(3)")
    assert client.download_product(product) == before
    told = page.locator(".versions td.names").all_inner_texts()
    assert told == ["version 1 restored", "0.png removed", "made"]
    page.locator(".versions tr").nth(2).get_by_role("button", name="Restore").click()
    page.wait_for_selector(".toast >> text=Version 2 is back.")
    assert client.product(product)["good_parts"] == 1


def test_thresholds_from_parts_from_what_was_learnt_and_by_hand(
    page: Any, client: StationClient, product: str, pictures: list[Path]
) -> None:
    choose(page, "Set the threshold", pictures[4:8])
    page.wait_for_selector("text=from 4 further good parts")
    assert client.product(product)["threshold_method"] == "few"
    page.get_by_label("Or by hand").fill("0.5")
    page.get_by_role("button", name="Set", exact=True).click()
    page.wait_for_selector("text=set by hand")
    assert client.product(product)["threshold"] == 0.5
    page.get_by_role("button", name="Estimate again").click()
    page.wait_for_selector("text=an estimate from 2 good parts")
    assert client.product(product)["threshold_method"] == "support"


def test_rename_download_upload_and_delete(
    page: Any, client: StationClient, product: str, tmp_path: Path
) -> None:
    page.get_by_label("Name", exact=True).fill("Ölring <b>")
    page.get_by_role("button", name="Rename").click()
    page.wait_for_selector("h1 >> text=Ölring <b>")
    with page.expect_download() as waited:
        page.get_by_role("link", name="Download").click()
    file = tmp_path / "again.hfsad"
    waited.value.save_as(file)
    assert file.read_bytes() == client.download_product(product)
    page.get_by_role("link", name="← Products").click()
    page.wait_for_selector(".product-card >> text=Ölring <b>")
    page.locator(".drop input").set_input_files(file)
    page.wait_for_selector("h1 >> text=again")
    page.get_by_role("button", name="Delete").click()
    page.locator("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Delete").click()
    page.locator("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_selector("text=again was deleted.")
    names = [one["name"] for one in client.products()]
    assert "Ölring <b>" in names
    assert "again" not in names


def test_evaluation_of_what_was_labelled(
    station: Running, client: StationClient, product: str, pictures: list[Path], visit: Opener
) -> None:
    found = client.inspect(product, pictures[4:7])["inspections"]
    for one, kind in zip(found, ("bad", "bad", "fine"), strict=True):
        client.label(one["id"], kind, **({"learn": False} if kind == "fine" else {}))
    page = visit(station.url, f"#/products/{product}")
    page.get_by_role("button", name="Evaluate").click()
    row = page.locator("tr", has_text="Defects found")
    row.wait_for()
    assert "/ 2)" in row.inner_text()
