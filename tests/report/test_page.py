"""The report: what is in the page, and how it behaves in a real browser."""

import base64
import hashlib
import html.parser
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from hyperfsad import AnomalyResult
from hyperfsad.images.loading import NormalImage, load_image
from hyperfsad.method.scoring import BranchScores
from hyperfsad.report.page import MAX_OUTLINE_POINTS, ProductSummary, report_html
from hyperfsad.results.heatmap import thumbnail
from tests.browser import until
from tests.conftest import make_picture
from tests.report.samples import SIZE, sample_record, sample_result, written_report

HOSTILE = "<img src=x onerror=window.hacked=1>&\"'.png"
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a report on `count` images: every fourth is anomalous, the second cannot be read."""

    def run(count: int, *, threshold: float | None = 0.5, hostile: bool = False) -> Path:
        folder = tmp_path / "in"
        folder.mkdir(exist_ok=True)
        names = [str(folder / f"part {index}.png") for index in range(count)]
        if hostile and count > 4:
            names[4] = str(folder / HOSTILE)
        make_picture(99).save(tmp_path / "good <1>.png")
        good = load_image(str(tmp_path / "good <1>.png"))
        images = (NormalImage(good.name, good.sha256()), NormalImage("gone.png", "0" * 64))
        products = [ProductSummary(images)]
        results = (result(name, index, threshold) for index, name in enumerate(names))
        return written_report(tmp_path / "out", results, products)

    return run


def result(name: str, index: int, threshold: float | None) -> AnomalyResult:
    if index == 1:
        return AnomalyResult.failed(name, f"{name} is empty (0 bytes).")
    peak = 0.1 if index % 4 else 0.9
    return sample_result(
        name,
        index,
        score=peak - index / 10000,
        peak=peak,
        map_threshold=threshold,
        threshold=threshold,
    )


class Blocks(html.parser.HTMLParser):
    """The script blocks of a page by their id, and all links and sources."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.json: dict[str, Any] = {}
        self.targets: list[str] = []
        self.tags: list[str] = []
        self._id: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.targets += [value for name, value in attrs if name in ("src", "href") and value]
        self._id = values.get("id") if values.get("type") == "application/json" else None

    def handle_data(self, data: str) -> None:
        if self._id is not None:
            self.json[self._id] = json.loads(data)
            self._id = None


def test_the_page_needs_nothing_else(write: Write) -> None:
    text = write(6, hostile=True).read_text(encoding="utf-8")
    blocks = Blocks(text)
    assert all(target.startswith("data:") for target in blocks.targets)
    addresses = set(re.findall(r"https?://[^\s\"'<]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a language, never asked for
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert "default-src 'none'" in policy
    for tag in ("style", "script"):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy
    assert "<img src=x" not in text  # names are text
    assert "good &lt;1&gt;.png" in text
    assert any(image["name"].endswith(HOSTILE) for image in blocks.json["index"])
    assert blocks.tags.count("img") == 1  # the one support image that is on disk
    assert "not on disk any more" in text


def test_the_worst_come_first_and_links_lead_to_the_files(write: Write) -> None:
    report = write(9, hostile=True)
    *scored, failed = Blocks(report.read_text(encoding="utf-8")).json["index"]
    assert "is empty (0 bytes)" in failed["error"]
    assert "heatmap" not in failed
    levels = [image["level"] for image in scored]
    assert levels == sorted(levels, reverse=True)
    assert scored[0]["reach"] == "180 %"
    assert [image["anomalous"] for image in scored[:4]] == [True, True, True, False]
    for image in scored:
        assert (report.parent / unquote(image["heatmap"])).is_file()
        assert os.path.samefile(report.parent / unquote(image["original"]), image["name"])
        assert ":" not in image["original"]


def test_beyond_a_number_of_images_only_the_worst_have_pictures(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperfsad.report.page.MAX_PICTURES", 3)
    blocks = Blocks(write(12).read_text(encoding="utf-8"))
    assert len(blocks.json["index"]) == 12
    pictures = {name: text for name, text in blocks.json.items() if re.fullmatch(r"p\d+", name)}
    assert list(pictures) == ["p0", "p4", "p8"]
    assert max(len(json.dumps(picture)) for picture in pictures.values()) < 15_000


def fabricated(
    count: int, regions: int = 0
) -> tuple[list[dict[str, Any]], Callable[[list[str]], Iterator[Any]]]:
    """Records and journal entries of `count` images with regions of 50 points each."""
    region = {"bbox": [0] * 4, "area": 1, "score": 1, "polygon": [[0, 0]] * 50, "kind": ""}
    jpeg = thumbnail(make_picture(1, SIZE))
    records = [sample_record(f"{index}.png", regions=regions) for index in range(count)]

    def entries(images: list[str]) -> Iterator[Any]:
        for name in images:
            record = sample_record(name, map_threshold=0.5, regions=[region] * regions)
            yield {"record": record, "picture": {"jpeg": jpeg, "map": ""}}

    return records, entries


def test_outlines_have_a_bounded_number_of_points(tmp_path: Path) -> None:
    blocks = Blocks("".join(report_html(*fabricated(1, regions=99), [], tmp_path)))
    assert len(blocks.json["p0"]["regions"]) == MAX_OUTLINE_POINTS // 50


def test_the_page_is_streamed(tmp_path: Path) -> None:
    """Pictures of thousands of images never lie in memory at the same time."""
    records, entries = fabricated(50)
    read: list[str] = []

    def counted(images: list[str]) -> Iterator[Any]:
        for entry in entries(images):
            read.append(entry["record"]["image"])
            yield entry

    written = 0
    for chunk in report_html(records, counted, [], tmp_path):
        written += chunk.count('"jpeg":')
        assert len(read) - written <= 1
    assert written == 50


@pytest.mark.parametrize(
    ("count", "threshold", "words"),
    [
        (0, 0.5, "No image was scored."),
        (1, None, "There is no threshold"),
        (3, 0.5, "An image is called anomalous if it reaches beyond the limit."),
    ],
)
def test_the_summary_says_what_there_is(
    write: Write, count: int, threshold: float | None, words: str
) -> None:
    text = write(count, threshold=threshold).read_text(encoding="utf-8")
    assert words in text
    assert ('class="histogram"' in text) == (count > 0)


def names(page: Any) -> list[str]:
    return [text.split(".png")[0] for text in page.locator(".card .name").all_text_contents()]


def test_filters_sorting_and_search(write: Write, opened: Callable[..., Any]) -> None:
    page = opened(write(9))
    assert names(page) == [f"part {index}" for index in (0, 4, 8, 2, 3, 5, 6, 7, 1)]
    page.get_by_role("radio", name="Anomalous 3").check()
    assert names(page) == ["part 0", "part 4", "part 8"]
    assert page.locator("#count").inner_text() == "3 images"
    page.get_by_role("radio", name="Failed 1").check()
    assert "is empty (0 bytes)" in page.locator(".card").text_content()
    page.get_by_role("radio", name="Good 5").check()
    page.get_by_role("combobox").select_option("name")
    assert names(page) == [f"part {index}" for index in (2, 3, 5, 6, 7)]
    page.get_by_role("searchbox").fill("PART 6")
    assert names(page) == ["part 6"]
    page.get_by_role("searchbox").fill("nothing")
    assert page.get_by_text("No image matches.").is_visible()


def test_a_named_defect_is_shown_counted_and_found(
    tmp_path: Path, opened: Callable[..., Any]
) -> None:
    hostile = "<b>rust</b>"
    found = [
        replace(result(str(tmp_path / f"{index}.png"), index, 0.5), defect=name, defect_score=0.6)
        for index, name in ((0, hostile), (4, "unknown"), (8, hostile))
    ]
    page = opened(
        written_report(tmp_path / "out", [*found, result(str(tmp_path / "2.png"), 2, 0.5)])
    )
    assert page.locator(".card .defect").all_inner_texts() == [hostile, "unknown", hostile]
    assert f"{hostile} (2), unknown (1)" in page.locator("body").inner_text()
    page.get_by_role("searchbox").fill("UNKNOWN")
    page.locator(".card").click()
    assert page.locator("#verdict .defect").inner_text() == "unknown"


def test_the_slider_fades_the_map(write: Write, opened: Callable[..., Any]) -> None:
    page = opened(write(3))
    glow = "getComputedStyle(document.querySelector('.glow')).opacity"
    assert page.evaluate(glow) == "1"
    page.get_by_label("Map").first.focus()
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    assert page.evaluate(glow) == "0.6"
    assert page.locator(".card svg polygon").first.is_visible()
    page.get_by_label("Marks").uncheck()
    assert not page.locator(".card svg polygon").first.is_visible()


def test_the_keyboard_is_enough(write: Write, opened: Callable[..., Any]) -> None:
    page = opened(write(9))
    page.locator(".card").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    detail = page.locator("dialog#detail")
    assert detail.is_visible()
    assert detail.locator("h2").inner_text().endswith("part 4.png")
    assert page.locator("#position").inner_text() == "2 of 9"
    page.keyboard.press("ArrowRight")
    assert detail.locator("h2").inner_text().endswith("part 8.png")
    assert "at " in page.locator("#regions li").inner_text()
    page.keyboard.press("ArrowDown")
    assert page.locator("#detail-overlay").input_value() == "90"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")  # there is none before the first
    assert detail.locator("h2").inner_text().endswith("part 0.png")
    page.keyboard.press("Escape")
    assert not detail.is_visible()
    focused = "document.activeElement.querySelector('.name')?.textContent == '{}'"
    until(page, focused.format("part 0.png"))  # a dialog tells later that it closed
    page.keyboard.press("End")
    until(page, focused.format("part 1.png"))


def test_the_page_says_where_something_is_missing(
    tmp_path: Path, opened: Callable[..., Any]
) -> None:
    name = str(tmp_path / "part.png")
    plain = sample_result(name, 0, peak=0.9, map_threshold=0.5, threshold=0.5)
    lacking = replace(
        plain,
        branches=BranchScores(
            {"map": 0.4, "cls": 0.0, "missing": 2.5}, {"map": 1.0, "cls": 0.0, "missing": 0.2}
        ),
        regions=tuple(replace(region, kind="missing") for region in plain.regions),
    )
    page = opened(written_report(tmp_path / "out", [lacking]))
    page.locator(".card").click()
    assert page.locator("#regions li").inner_text().startswith("something is missing: 180 % at ")
    assert not page.locator("#numbers").is_visible()
    page.get_by_text("Details").click()
    assert page.locator("#numbers").is_visible()
    said = page.locator("#numbers dt").all_text_contents()
    numbers = page.locator("#numbers dd").all_text_contents()
    assert dict(zip(said, numbers, strict=True)) == {
        "score": "0.9000",
        "threshold": "0.5000",
        "peak of the map": "0.9000",
        "threshold of the map": "0.5000",
        "map score": "0.4000",
        "whole-image score": "0.0000",
        "missing pieces": "2.5000",
        "size": "96 × 80",
    }


def test_pictures_and_outlines_lie_over_each_other(
    write: Write, opened: Callable[..., Any]
) -> None:
    page = opened(write(1))
    page.locator(".card").click()
    boxes = [page.locator(f"#stage {part}").bounding_box() for part in (".photo", ".glow", "svg")]
    assert boxes[0] == boxes[1] == boxes[2]
    assert boxes[0]["width"] / boxes[0]["height"] == pytest.approx(96 / 80, rel=0.01)
    stage = page.locator("#stage").bounding_box()
    assert boxes[0]["height"] == pytest.approx(stage["height"], abs=1)
    outline = page.locator("#stage svg polygon").first.bounding_box()
    middle = (outline["x"] + outline["width"] / 2 - boxes[0]["x"]) / boxes[0]["width"]
    assert middle == pytest.approx(3.5 / 6, abs=0.02)


def test_hostile_names_are_only_shown(write: Write, opened: Callable[..., Any]) -> None:
    page = opened(write(6, hostile=True))
    page.get_by_role("searchbox").fill("onerror")
    assert page.locator(".card .name").text_content() == HOSTILE
    page.locator(".card").click()
    assert HOSTILE in page.locator("#detail-name").inner_text()
    assert page.evaluate("window.hacked") is None


def test_the_original_is_loaded_only_when_asked_for(write: Write, browser: Any) -> None:
    page = browser.new_page()
    page.goto(write(1).as_uri())
    page.locator(".card").click()
    assert page.locator("#stage .photo").get_attribute("src").startswith("data:")
    page.get_by_label("Load the original file").check()
    page.locator("#stage .photo[src$='.png']").wait_for()
    assert page.evaluate("document.querySelector('#stage .photo').naturalWidth") == 96
    page.close()


def test_many_cards_are_made_as_they_are_needed(tmp_path: Path, opened: Callable[..., Any]) -> None:
    path = tmp_path / "report.html"
    path.write_text("".join(report_html(*fabricated(200), [], tmp_path)), encoding="utf-8")
    page = opened(path)
    assert page.locator(".card").count() < 150
    page.locator(".card").first.focus()
    page.keyboard.press("End")
    assert page.locator(".card").count() == 200
    assert page.evaluate("document.activeElement.dataset.place") == "199"
    page.locator(".card").last.locator(".frame > *").wait_for()
    for order in ("best", "name"):  # a new list begins at its top, and goes on at its end
        page.get_by_role("combobox").select_option(order)
        assert page.locator(".card").first.is_visible()
        assert page.locator(".card").count() < 150
        cards = "document.querySelectorAll('.card').length"
        until(page, f"(scrollTo(0, document.body.scrollHeight), {cards} === 200)")


@pytest.mark.parametrize("count", [0, 1, 12])
def test_a_phone_shows_all_of_it_without_scrolling_sideways(
    write: Write, opened: Callable[..., Any], count: int
) -> None:
    page = opened(write(count, hostile=True), width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    if count:
        page.locator(".card").first.click()
        assert page.evaluate("document.getElementById('detail').scrollWidth") <= 360


CONTRAST = """(selector) => [...document.querySelectorAll(selector)].map((node) => {
  const light = (colour) => {
    const part = colour.match(/[\\d.]+/g).map(Number);
    const [r, g, b] = part.slice(0, 3).map((value) => {
      const c = value / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return { alpha: part.length > 3 ? part[3] : 1, value: 0.2126 * r + 0.7152 * g + 0.0722 * b };
  };
  let paper = node;
  while (light(getComputedStyle(paper).backgroundColor).alpha === 0) paper = paper.parentElement;
  const a = light(getComputedStyle(node).color);
  const b = light(getComputedStyle(paper).backgroundColor);
  return (Math.max(a.value, b.value) + 0.05) / (Math.min(a.value, b.value) + 0.05);
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_in_light_and_dark(
    write: Write, opened: Callable[..., Any], scheme: str
) -> None:
    page = opened(write(9), scheme=scheme)
    ratios = page.evaluate(
        CONTRAST, ".badge, .reach, .name, dd, dt, p:not([hidden]), label span, h1"
    )
    assert len(ratios) > 20
    assert min(ratios) >= 4.5
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != paper
    assert min(page.evaluate(CONTRAST, ".badge, .name, dd, dt")) >= 4.5


def test_names_leave_out_the_folders_that_all_share(
    tmp_path: Path, opened: Callable[..., Any]
) -> None:
    paths = [tmp_path / "in" / part for part in ("a/x.png", "b/x.png", "b/c/y.png")]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    results = (result(str(path), 4 * index, 0.5) for index, path in enumerate(paths))
    page = opened(written_report(tmp_path / "out", results))
    assert names(page) == ["a/x", "b/x", "b/c/y"]


def test_everything_that_can_be_used_has_a_name(write: Write, opened: Callable[..., Any]) -> None:
    page = opened(write(5))
    page.locator(".card").first.click()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, a")].filter((node) =>
          !(node.getAttribute("aria-label") || node.textContent.trim() ||
            (node.labels && [...node.labels].some((label) => label.textContent.trim()))))
          .map((node) => node.outerHTML)"""
    )
    assert nameless == []
    labelled = page.locator(".card").first.get_attribute("aria-label")
    assert labelled == "part 0.png, anomalous, 180 % of the limit, 1 region"


def test_score_and_map_make_one_order_and_the_strongest_place_is_always_marked(
    tmp_path: Path, opened: Callable[..., Any]
) -> None:
    """Each of three images reaches beyond the limit by another figure, or not at all."""
    limits = {"threshold": 0.4, "map_threshold": 0.5}
    figures = {"score": (0.6, 0.4), "map": (0.39, 0.55), "x": (0.2, 0.45)}
    by_score, by_map, good = (
        sample_result(str(tmp_path / f"{name}.png"), 0, score=score, peak=peak, **limits)
        for name, (score, peak) in figures.items()
    )
    page = opened(written_report(tmp_path / "out", [good, by_map, by_score]))
    assert names(page) == ["score", "map", "x"]
    assert page.locator(".card .badge").all_text_contents() == ["anomalous", "anomalous", "good"]
    reaches = ["150 % of the limit", "110 % of the limit", "90 % of the limit"]
    assert page.locator(".card .reach").all_text_contents() == reaches
    shapes = [
        [card.locator(f"svg {kind}.over").count() for kind in ("polygon", "polyline")]
        for card in page.locator(".card").all()
    ]
    assert shapes == [[0, 5], [1, 0], [0, 0]]  # a ring and its four strokes; an outline; nothing
    drawn = page.locator(".card svg").first.locator("polyline").first.bounding_box()
    frame = page.locator(".card .shot").first.bounding_box()
    x = (drawn["x"] + drawn["width"] / 2 - frame["x"]) / frame["width"]
    y = (drawn["y"] + drawn["height"] / 2 - frame["y"]) / frame["height"]
    assert (x, y) == (pytest.approx(3.5 / 6, abs=0.01), pytest.approx(2.5 / 6, abs=0.01))
    page.locator(".card").first.click()
    assert page.locator("#beside").inner_text() == "The ring marks the strongest place."
    page.keyboard.press("ArrowRight")
    assert page.locator("#beside").inner_text() == ""
