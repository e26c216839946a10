"""Verdict, map, evidence, labels: with the mouse and with keys alone."""

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.browser import until
from tests.serve.conftest import ADMIN, INSPECT, png, token_file
from tests.serve.page.conftest import Opener
from tests.serve.stations import Running, Stations

LISTEN = """() => {
  window.heard = 0;
  const start = OscillatorNode.prototype.start;
  OscillatorNode.prototype.start = function (...when) {
    window.heard += 1;
    start.apply(this, when);
  };
}"""


@pytest.fixture
def page(taught: Running, visit: Opener, pictures: list[Path]) -> Any:
    """After one inspection of a part that stands out."""
    found = visit(taught.url, allowed=("409",))  # teaching asks first
    inspect(found, pictures[5:6])
    return found


def inspect(page: Any, paths: list[Path]) -> None:
    page.wait_for_selector(".source .drop")
    page.locator(".source .drop input").set_input_files(paths)
    page.wait_for_selector(f".verdict[aria-busy=false] >> text={paths[-1].name}")


def test_the_verdict_is_a_word_a_shape_and_a_colour(page: Any) -> None:
    verdict = page.locator(".verdict")
    assert verdict.locator(".verdict-word").inner_text() == "Anomalous"
    assert verdict.locator("svg.shape.anomalous").is_visible()
    size = verdict.locator(".verdict-word").evaluate(
        "(node) => parseFloat(getComputedStyle(node).fontSize)"
    )
    assert size > 90  # 900 pixels high: a tenth of that
    assert verdict.get_attribute("aria-live") == "assertive"


def test_the_map_fades_and_regions_are_numbered(page: Any) -> None:
    until(page, "[...document.querySelectorAll('.stage img')].every((one) => one.naturalWidth > 0)")
    slider = page.get_by_label("Map over the picture")
    slider.focus()
    page.keyboard.press("Home")
    assert page.locator(".map").evaluate("(node) => getComputedStyle(node).opacity") == "0"
    page.locator("h1").click()
    page.keyboard.press("o")
    assert page.locator(".map").evaluate("(node) => getComputedStyle(node).opacity") == "0.7"
    regions = page.locator(".regions li").count()
    assert regions > 0
    assert page.locator(".marks [data-region]").count() == regions
    stage = page.locator(".stage").bounding_box()
    assert stage["width"] / stage["height"] == pytest.approx(96 / 80, rel=0.02)
    assert "% of the limit" in page.locator(".verdict").inner_text()
    words = page.locator(".facts-card").inner_text()
    assert "0.02" not in words  # the threshold itself stands under details
    page.get_by_text("Details").click()
    assert "0.02" in page.locator(".facts-card").inner_text()


RINGED = {"level": 1.28, "regions": [], "map_peak_x": 24.0, "map_peak_y": 60.0}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (RINGED, "128 % of the limit"),
        ({**RINGED, "level": 1.004}, "100.4 % of the limit"),
        (
            {**RINGED, "level": 0.996, "verdict": "good", "anomalous": False},
            "99.6 % of the limit",
        ),
        (
            {**RINGED, "level": None, "score": 0.3},
            "Score 0.300; there is no threshold yet",
        ),
    ],
)
def test_a_part_reaches_one_level_and_its_strongest_place_is_marked(
    page: Any, taught: Running, changed: dict[str, Any], words: str
) -> None:
    (row,) = taught.client().page(limit=1)["inspections"]
    found = taught.client().inspection(row["id"])
    place = f"**/api/v1/inspections/{row['id']}"
    page.route(place, lambda route: route.fulfill(json={**found, **changed}))
    page.goto(f"{taught.url}/#/inspections/{row['id']}")
    page.wait_for_selector(".sheet .facts-card h2")
    assert words in page.locator(".facts-card").inner_text().replace("\u00a0", " ")
    ring, stage = (page.locator(at).first.bounding_box() for at in (".marks .ring", ".stage"))
    middle = (ring["x"] + ring["width"] / 2 - stage["x"]) / stage["width"]
    assert middle == pytest.approx(24 / 96, abs=0.02)
    middle = (ring["y"] + ring["height"] / 2 - stage["y"]) / stage["height"]
    assert middle == pytest.approx(60 / 80, abs=0.02)
    assert "the ring marks the strongest one" in page.locator(".facts-card").inner_text()
    page.wait_for_selector(".evidence img")


def test_a_click_on_the_map_shows_the_evidence(page: Any, taught: Running) -> None:
    stage = page.locator(".stage")
    box = stage.bounding_box()
    with page.expect_response(lambda answer: "/evidence?" in answer.url) as waited:
        stage.click(position={"x": box["width"] / 4, "y": box["height"] / 2})
    assert "x=24" in waited.value.url
    assert "y=40" in waited.value.url
    page.wait_for_selector(".evidence img")
    assert "Why, at 24, 40" in page.locator(".evidence h2").inner_text()
    with page.expect_response(lambda answer: "/evidence?" in answer.url) as waited:
        page.locator(".regions button").first.click()
    stage.focus()
    page.keyboard.press("ArrowRight")
    with page.expect_response(lambda answer: "/evidence?" in answer.url) as waited:
        page.keyboard.press("Enter")
    assert waited.value.status == 200


def test_fine_bad_and_undo_by_key(page: Any, taught: Running) -> None:
    client = taught.client()
    (row,) = client.page(limit=1)["inspections"]
    parts = client.products()[0]["good_parts"]
    page.keyboard.press("b")
    page.wait_for_selector("text=A person says: bad.")
    assert client.inspection(row["id"])["label"] == "bad"
    page.keyboard.press("u")
    page.get_by_role("button", name="This is fine").wait_for()
    assert client.inspection(row["id"])["label"] is None
    page.keyboard.press("f")
    asked = page.locator("dialog")
    asked.wait_for()
    words = asked.inner_text()
    assert "part 5.png" in words
    assert "Threshold now\t0.020" in words
    assert "of the latest" in words
    page.keyboard.press("Escape")
    asked.wait_for(state="detached")
    assert client.inspection(row["id"])["label"] is None
    page.keyboard.press("f")
    asked.get_by_role("button", name="Teach it").click()
    page.wait_for_selector("text=The product has learnt it.")
    assert client.products()[0]["good_parts"] == parts + 1
    page.locator(".toast").get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="This is bad").wait_for()
    assert client.products()[0]["good_parts"] == parts


def test_undo_while_it_learns(page: Any, taught: Running) -> None:
    client = taught.client()
    (row,) = client.page(limit=1)["inspections"]
    before = client.download_product(row["product_id"])
    held: list[Any] = []
    page.keyboard.press("f")
    page.locator("dialog").wait_for()

    def hold(route: Any) -> None:  # it learns for as long as the test wants
        held.append(route) if route.request.method == "PUT" else route.continue_()

    page.route("**/label", hold)
    with page.expect_request(lambda one: one.method == "PUT"):
        page.locator("dialog").get_by_role("button", name="Teach it").click()
    page.keyboard.press("u")
    page.wait_for_selector("text=It is taken back as soon as it is learnt")
    held.pop().continue_()
    page.wait_for_selector("text=Taken back.")
    assert client.inspection(row["id"])["label"] is None
    assert client.download_product(row["product_id"]) == before
    assert [entry["action"] for entry in client.audit()][:2] == ["label undone", "labelled fine"]


def test_several_at_once_and_one_that_is_no_picture(
    taught: Running, visit: Opener, pictures: list[Path], tmp_path: Path
) -> None:
    text = tmp_path / "notes.png"
    text.write_text("no picture")
    empty = tmp_path / "empty.png"
    empty.touch()
    page = visit(taught.url, allowed=("422",))
    page.wait_for_selector(".source .drop")
    page.locator(".source .drop input").set_input_files([*pictures[4:7], text, empty])
    page.wait_for_selector(".strip-list li:nth-child(3)")
    page.wait_for_selector(".toast.bad >> text=not readable")
    until(page, "!document.querySelector('.strip-summary').textContent.includes('to go')")
    told = page.locator(".toast .line").all_inner_texts()  # each of them
    assert len(told) == 3
    assert told[0].endswith("anomalous, 2 not readable")
    assert {line.split()[0] for line in told[1:]} == {"notes.png", "empty.png"}
    assert "3 inspected" in page.locator(".strip-summary").inner_text()
    # the rejects first, and no single part's verdict over them
    assert page.locator(".verdict-word").inner_text() == "3 anomalous"
    levels = page.locator(".batch-item .number").all_inner_texts()
    assert len(levels) == 3
    reached = [float(text.split("\u00a0")[0].replace(",", "")) for text in levels]
    assert reached == sorted(reached, reverse=True)
    page.locator(".batch-item").first.click()
    page.locator("h1").click()
    shown = page.locator(".strip-list li").evaluate_all(CHOSEN)
    before, after = ("ArrowLeft", "ArrowRight") if shown else ("ArrowRight", "ArrowLeft")
    page.keyboard.press(before)
    there = page.locator(".strip-list li").evaluate_all(CHOSEN)
    assert there == shown + (-1 if shown else 1)  # to the left is what came before
    page.keyboard.press(after)
    assert page.locator(".strip-list li").evaluate_all(CHOSEN) == shown
    page.keyboard.press("r")
    page.wait_for_selector(".verdict-word >> text=3 anomalous")


CHOSEN = "(all) => all.findIndex((one) => one.querySelector('[aria-current]'))"


@pytest.mark.parametrize(("width", "height"), [(1280, 860), (1920, 1080), (390, 844)])
def test_the_part_is_whole_and_the_buttons_are_in_sight(
    taught: Running, visit: Opener, pictures: list[Path], width: int, height: int
) -> None:
    touch = {"has_touch": width < 900, "is_mobile": width < 900}
    page = visit(taught.url, width=width, height=height, **touch)
    inspect(page, pictures[5:6])
    page.evaluate("scrollTo(0, 0)")
    wanted = [".verdict", ".stage", ".label-fine", ".label-bad"]
    if width > 900:
        page.keyboard.press("e")
        page.wait_for_selector(".crop img")
        wanted += [".strip, .source", ".facts-card", ".crops"]
        assert page.evaluate("document.documentElement.scrollHeight") <= height
    for name in wanted:
        box = page.locator(name).first.bounding_box()
        assert box["y"] >= 0, name
        assert box["y"] + box["height"] <= height, name
        assert box["x"] + box["width"] <= width, name
    stage, label = (page.locator(one).bounding_box() for one in (".stage", ".label-bad"))
    assert stage["width"] >= 0.4 * min(width, height)
    assert (label["x"] >= stage["x"] + stage["width"]) == (width > 900)  # beside it


def test_zoom_pan_and_a_good_part_beside_it(page: Any) -> None:
    stage, frame = page.locator(".stage"), page.locator(".pane").first
    whole = stage.bounding_box()
    page.locator("h1").click()
    page.keyboard.press("+")
    near = stage.bounding_box()
    assert near["width"] == pytest.approx(1.5 * whole["width"], rel=0.01)
    seen = frame.bounding_box()
    page.mouse.move(seen["x"] + seen["width"] / 2, seen["y"] + seen["height"] / 2)
    page.mouse.wheel(0, -800)
    nearer = stage.bounding_box()
    assert nearer["width"] > 2 * near["width"]
    page.mouse.down()
    page.mouse.move(seen["x"] + seen["width"] / 2 + 40, seen["y"] + seen["height"] / 2, steps=4)
    page.mouse.up()
    assert stage.bounding_box()["x"] == pytest.approx(nearer["x"] + 40, abs=1)
    assert page.locator(".evidence").is_hidden()  # a drag asks nothing
    page.keyboard.press("0")
    assert stage.bounding_box() == whole
    page.keyboard.press("g")
    page.wait_for_selector(".good-stage img")
    until(page, "document.querySelector('.good-stage img').naturalWidth > 0")
    page.keyboard.press("+")
    sizes = [page.locator(one).bounding_box()["width"] for one in (".stage", ".good-stage")]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)
    page.get_by_role("button", name="the next good part").click()
    page.keyboard.press("g")
    assert page.locator(".good-stage").is_hidden()


def test_a_folder_is_dropped(
    taught: Running, visit: Opener, pictures: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "of parts"
    (folder / "more").mkdir(parents=True)
    shutil.copy(pictures[4], folder)
    shutil.copy(pictures[5], folder / "more")
    (folder / "notes.txt").write_text("no picture, and not meant")
    page = visit(taught.url)
    drop_really(page, tmp_path / "of parts")
    page.wait_for_selector(".strip-list li:nth-child(2)")
    until(page, "document.querySelector('.strip-summary').textContent.includes('2 inspected')")
    assert page.locator(".toast.bad").count() == 0
    (tmp_path / "nothing").mkdir()
    drop_really(page, tmp_path / "nothing")
    page.wait_for_selector(".toast.bad >> text=There is no picture in it.")


def drop_really(page: Any, path: Path) -> None:
    """As the browser gets it from the desktop; a script cannot make a folder."""
    page.wait_for_selector(".source .drop")
    page.locator(".source .drop").scroll_into_view_if_needed()
    box = page.locator(".source .drop").bounding_box()
    where = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    line = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        line.send("Input.dispatchDragEvent", {"type": kind, **where, "data": data})


def test_the_camera_by_key_and_by_itself(taught: Running, visit: Opener) -> None:
    page = visit(taught.url, permissions=["camera"])
    page.get_by_role("button", name="Camera", exact=True).click()
    page.keyboard.press("Tab")  # away from the button, which has a use for the space bar itself
    page.locator("h1").click()
    page.keyboard.press(" ")
    until(page, "document.querySelector('video')?.videoWidth > 0")
    page.keyboard.press(" ")
    page.wait_for_selector(".verdict-word")
    page.get_by_label("How often").select_option("1")
    page.wait_for_selector(".strip-list li:nth-child(2)")
    page.get_by_role("button", name="Stop the camera").click()
    assert page.locator("video").count() == 0


def test_sound_where_it_is_wanted(taught: Running, visit: Opener, pictures: list[Path]) -> None:
    page = visit(taught.url)
    page.evaluate(LISTEN)
    inspect(page, pictures[5:6])
    assert page.evaluate("window.heard") == 0
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Sound with each verdict").click()
    inspect(page, pictures[6:7])
    assert page.evaluate("window.heard") > 0


def test_the_keys_are_listed(page: Any) -> None:
    page.keyboard.press("?")
    assert "this is fine" in page.locator("dialog").inner_text()
    page.keyboard.press("f")  # means nothing here
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")  # it goes a moment after it has closed
    assert page.locator(".labels").get_by_role("button").count() == 2


def test_a_full_line_is_waited_for(taught: Running, visit: Opener, pictures: list[Path]) -> None:
    page = visit(taught.url, allowed=("503",))
    page.wait_for_selector(".source .drop")
    asked: list[str] = []

    def busy_once(route: Any) -> None:
        asked.append(route.request.url)
        if len(asked) > 1:
            route.continue_()
        else:
            refused = {"retry-after": "1", "content-type": "application/json"}
            route.fulfill(status=503, headers=refused, body='{"detail": "The line is full."}')

    page.route("**/inspections", busy_once)
    inspect(page, pictures[6:7])
    assert len(asked) == 2


def test_what_waits_goes_on_when_the_view_is_left(
    taught: Running, visit: Opener, pictures: list[Path]
) -> None:
    page = visit(taught.url)
    page.wait_for_selector(".source .drop")
    held: list[Any] = []
    page.route("**/inspections", lambda route: held.append(route))
    page.locator(".source .drop input").set_input_files(pictures[4:7])
    page.wait_for_selector(".verdict[aria-busy=true]")
    page.get_by_role("link", name="Products").click()
    page.wait_for_selector(".product-card")
    page.unroute("**/inspections")  # it lets go of those that it holds
    page.wait_for_selector(".toast >> text=3 anomalous")
    page.get_by_role("link", name="Inspect", exact=True).first.click()
    page.wait_for_selector(".strip-list li:nth-child(3)")


NOT_THERE = ("net::ERR_", "422", "401", "503")


@pytest.mark.parametrize("guarded", [False, True])
def test_the_station_dies_and_comes_back_in_the_middle(
    stations: Stations, visit: Opener, pictures: list[Path], tmp_path: Path, guarded: bool
) -> None:
    """Every file has its verdict, once, or is named; with tokens, after signing in again."""
    options = token_file(tmp_path) if guarded else ()
    store, parts = tmp_path / "store", tmp_path / "parts"
    parts.mkdir()
    for number in range(30):
        shutil.copy(pictures[number % 8], parts / f"part-{number}.png")
    for name in ("notes.png", "torn.png"):
        (parts / name).write_text("no picture")
    station = stations.start(store, *options).wait()
    made = station.client(ADMIN if guarded else None).create_product("bolt", [png(0), png(1)])
    page = visit(station.url, allowed=NOT_THERE)

    def sign_in() -> None:
        page.get_by_label("Token").fill(INSPECT)
        page.get_by_role("button", name="Sign in").click()

    if guarded:
        sign_in()
    page.wait_for_selector(".source .drop")
    page.locator(".source .drop input").set_input_files(sorted(parts.iterdir()))
    page.wait_for_selector(".strip-list li:nth-child(4)")
    station.stop(signal.SIGKILL)
    page.wait_for_selector(".notice >> text=The station does not answer")
    assert "to go" in page.locator(".strip-summary").inner_text()
    (parts / "part-9.png").unlink()  # one of the last
    again = stations.start(store, "--port", station.url.rsplit(":", 1)[1], *options).wait()
    try:
        if guarded:
            sign_in()
        page.wait_for_selector(".toast.bad >> text=3 not readable")
        lines = page.locator(".toast .line").all_inner_texts()
        counts = [int(part.split()[0]) for part in lines[0].split(", ")]
        assert sum(counts) == 32
        assert len(lines) == 4
        for name in ("notes.png", "torn.png", "part-9.png: The file cannot be read any more"):
            assert any(name in line for line in lines[1:])
        found = again.client(ADMIN if guarded else None).history(product=made["id"])
        names = [row["name"] for row in found]
        assert sorted(names) == sorted(f"part-{number}.png" for number in range(30) if number != 9)
    finally:
        again.stop()
