"""From nothing to the first verdict: drop, look, learn, drop."""

from pathlib import Path
from typing import Any

from tests.browser import until
from tests.serve.page.conftest import Opener
from tests.serve.stations import Running, Stations

DROP = """async ([selector, name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name, { type: "image/png" }));
  const zone = document.querySelector(selector);
  for (const kind of ["dragover", "drop"]) {
    const event = { dataTransfer: data, bubbles: true, cancelable: true };
    zone.dispatchEvent(new DragEvent(kind, event));
  }
}"""


def drop(page: Any, selector: str, path: Path) -> None:
    """As a person drops a file from the desktop."""
    page.evaluate(DROP, [selector, path.name, list(path.read_bytes())])


def test_three_steps_and_nothing_else(
    stations: Stations, tmp_path: Path, pictures: list[Path], visit: Opener
) -> None:
    with stations.running(tmp_path / "store") as station:
        page = visit(station.url)
        page.wait_for_selector("[data-step='3']")
        assert page.locator("main section").count() == 3
        assert page.locator("nav:visible").count() == 0
        titles = page.locator("main h2").all_inner_texts()
        assert [title.split("\n")[-1] for title in titles] == [
            "Show good parts",
            "What was learnt",
            "Inspect",
        ]
        page.locator("[data-step='1'] input[type=file]").first.set_input_files(pictures[:4])
        # nothing is learnt before somebody has looked at it, named it, and taken away what is wrong
        page.wait_for_selector(".review li:nth-child(4)")
        page.get_by_role("button", name="Cancel").click()
        assert page.locator(".review li").count() == 0
        page.locator("[data-step='1'] input[type=file]").first.set_input_files(pictures[:4])
        page.get_by_role("button", name="Take part 3.png away").click()
        assert page.get_by_label("Name").input_value() == "Product 1"
        assert station.client().products() == []
        page.get_by_role("button", name="Learn from these 3 photos").click()
        page.wait_for_selector(".histogram svg")
        learnt = page.locator("[data-step='2']")
        learnt.locator(".goods img").nth(2).wait_for(state="attached")
        assert learnt.locator(".goods img").count() == 3
        assert "3" in learnt.locator(".fact").first.inner_text()
        assert "estimate from 3 good parts" in learnt.inner_text()
        assert "whole picture" in learnt.inner_text()
        drop(page, "[data-step='3'] .drop", pictures[4])
        page.wait_for_selector(".verdict-word")
        assert page.locator(".verdict-word").inner_text() in ("Good", "Anomalous")
        assert "part 4.png" in page.locator(".verdict").inner_text()
        (product,) = station.client().products()
        assert product["name"] == "Product 1"
        assert page.url.endswith(f"#/inspect/{product['id']}")
        page.reload()
        page.wait_for_selector(".source .drop")
        assert {"Inspect", "Products"} <= set(page.locator("nav a").all_inner_texts())


def test_the_name_and_more_good_parts(
    station: Running, pictures: list[Path], visit: Opener
) -> None:
    page = visit(station.url, "#/new")
    page.wait_for_selector("[data-step='1'] .drop")
    drop(page, "main", pictures[0])  # anywhere
    page.get_by_label("Name").fill("Mutter")
    page.get_by_role("button", name="Learn from this photo").click()
    page.wait_for_selector("[data-step='2'] .fact")
    assert "one good part" in page.locator("[data-step='2']").inner_text()
    assert [one["name"] for one in station.client().products()] == ["Mutter"]
    name = page.get_by_label("Name")
    name.fill("Mutter M6")
    name.press("Tab")
    page.wait_for_selector(".toast")
    drop(page, "[data-step='1'] .drop", pictures[1])
    page.get_by_role("button", name="Learn from this photo").click()
    page.wait_for_selector(".histogram svg")
    (product,) = [one for one in station.client().products() if one["name"] == "Mutter M6"]
    assert product["good_parts"] == 2


def test_good_parts_from_the_camera(station: Running, visit: Opener) -> None:
    page = visit(station.url, "#/new", permissions=["camera"])
    page.get_by_text("Or take them with the camera").click()
    page.get_by_role("button", name="Start the camera").click()
    shot = page.get_by_role("button", name="Take a picture")
    until(page, "document.querySelector('video')?.videoWidth > 0")
    shot.click()
    page.get_by_role("button", name="Learn from this photo").wait_for()
    shown = page.evaluate("document.querySelector('video').currentTime")
    until(page, f"document.querySelector('video').currentTime > {shown} + 0.3")  # another picture
    shot.click()
    page.get_by_role("button", name="Learn from these 2 photos").click()
    page.wait_for_selector("[data-step='2'] .fact")
    (product,) = [one for one in station.client().products() if one["name"].startswith("Product")]
    assert product["good_parts"] == 2
