"""The overview of a report, most of all of a detector that knows several products."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyperfsad import AnomalyResult
from hyperfsad.decisions.routing import Route
from hyperfsad.images.loading import NormalImage, load_image
from hyperfsad.report.page import ProductSummary, make_overview
from tests.conftest import make_picture
from tests.report.samples import sample_record, sample_result, written_report

THRESHOLDS = {"bolt": 0.2, "Ölring <b>": 0.4}
FITS, STRANGE = 0.95, 0.5
MARKED = "A ring marks the strongest place of an anomalous image without a region."


def record(**fields: Any) -> dict[str, Any]:
    usual = {"score": 0.3, "threshold": 0.2, "anomalous": True, "nearest_product": "bolt"}
    return sample_record(**{**usual, "regions": 0, **fields})


def sentences(scored: list[dict[str, Any]]) -> list[str]:
    found: list[str] = make_overview(scored, 0, [])["sentences"]
    return found


def result(name: str, product: str, score: float, peak: float, similarity: float) -> AnomalyResult:
    return sample_result(
        name,
        len(name),
        score=score,
        peak=peak,
        map_threshold=0.5,
        threshold=THRESHOLDS[product],
        threshold_from=f"estimate for {product}",
        route=Route(product, similarity, 0.9, None, None),
    )


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Two products and one image that fits neither; maps of two have a region."""
    products = []
    for seed, (product, threshold) in enumerate(THRESHOLDS.items()):
        folder = tmp_path / f"good {seed}"
        folder.mkdir()
        make_picture(seed).save(folder / "000.png")
        good = load_image(str(folder / "000.png"))
        images = (NormalImage(good.name, good.sha256()),)
        products.append(ProductSummary(images, product, threshold, f"estimate for {product}"))
    results = [
        result(str(tmp_path / "a.png"), "bolt", 0.3, 0.9, FITS),
        result(str(tmp_path / "bb.png"), "bolt", 0.1, 0.2, FITS),
        result(str(tmp_path / "ccc.png"), "Ölring <b>", 0.3, 0.2, FITS),
        result(str(tmp_path / "dddd.png"), "Ölring <b>", 0.5, 0.2, FITS),
        result(str(tmp_path / "eeeee.png"), "bolt", 0.6, 0.9, STRANGE),
    ]
    return written_report(tmp_path / "out", results, products)


def test_each_product_shows_its_threshold_and_its_good_parts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "Thresholds of 2 products" in text
    rows = re.findall(
        r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>', text
    )
    assert rows == [
        ("bolt", "1", "0.200", "estimate for bolt"),
        ("Ölring &lt;b&gt;", "1", "0.400", "estimate for Ölring &lt;b&gt;"),
    ]
    assert "Learnt from 2 good parts of 2 products" in text
    assert re.findall(r"<section data-product=\"(.*?)\"><h2>(.*?)</h2>", text) == [
        ("bolt", "bolt"),
        ("Ölring &lt;b&gt;", "Ölring &lt;b&gt;"),
    ]
    assert text.count(">limit</text>") == 3  # of all images, and of each product
    assert MARKED in text


@pytest.mark.parametrize("unknown", [True, False])
def test_images_counted_twice_are_mentioned(unknown: bool) -> None:
    said = " ".join(sentences([record(), record(unknown_product=unknown)]))
    assert ("An image that fits no product gets the verdict of the nearest one" in said) == unknown


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([{}], "if it reaches beyond the limit."),
        ([{"threshold_from": "set by hand"}], "if it reaches beyond the limit (set by hand)."),
        ([{}, {"threshold": 0.3}], "if it reaches beyond the limit of its product."),
    ],
)
def test_one_sentence_says_which_images_are_anomalous(
    records: list[dict[str, Any]], sentence: str
) -> None:
    said = sentences([record(**fields) for fields in records])
    assert said[0].startswith(f"An image is called anomalous {sentence} All maps")
    assert sum("anomalous if" in other for other in said) == 1


@pytest.mark.parametrize(
    ("anomalous", "regions", "mentioned"), [(False, 0, False), (True, 1, False), (True, 0, True)]
)
def test_the_ring_is_explained_where_there_is_one(
    anomalous: bool, regions: int, mentioned: bool
) -> None:
    assert (MARKED in sentences([record(anomalous=anomalous, regions=regions)])) == mentioned


def names(page: Any) -> list[str]:
    texts: list[str] = page.locator(".card .name").all_text_contents()
    return texts


def test_images_are_chosen_by_product_and_those_that_fit_none(
    page: Path, opened: Callable[..., Any]
) -> None:
    shown = opened(page)
    shown.get_by_role("radio", name="Fits no product 1").check()
    assert names(shown) == ["eeeee.png"]
    shown.locator("#product").select_option("Ölring <b>")
    assert names(shown) == ["dddd.png", "ccc.png"]  # the others' filter has nothing to show here
    assert shown.get_by_role("radio", name="Anomalous 1").is_enabled()
    assert shown.get_by_role("radio", name="Fits no product 0").is_disabled()
    (drawn,) = [node for node in shown.locator("svg.histogram").all() if node.is_visible()]
    assert drawn.get_attribute("aria-label") == "2 images, from 75 % to 125 % of the limit"
    shown.locator("#product").select_option("bolt")
    assert names(shown) == ["a.png", "bb.png"]


def test_an_image_is_compared_with_the_good_parts_of_its_product(
    page: Path, opened: Callable[..., Any]
) -> None:
    shown = opened(page)
    shown.get_by_role("button", name="dddd.png").click()
    assert shown.locator("#compare h2").all_text_contents() == ["Ölring <b>"]
    shown.keyboard.press("Escape")
    shown.get_by_role("button", name="bb.png").click()
    assert shown.locator("#compare h2").all_text_contents() == ["bolt"]
    assert shown.locator("#beside").inner_text() == ""


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_of_a_card_is_cut_off(page: Path, opened: Callable[..., Any], width: int) -> None:
    shown = opened(page, width)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    for card in shown.locator(".card").all():
        box = card.bounding_box()
        for part in card.locator(".meta > *").all():
            # a piece that breaks inside reports the hull of its lines, so look at each line
            for left, right in part.evaluate(
                "(node) => [...node.getClientRects()].map((box) => [box.left, box.right])"
            ):
                assert box["x"] < left
                assert right <= box["x"] + box["width"]
    lines = "(node) => { const range = document.createRange(); range.selectNodeContents(node);"
    lines += " return new Set([...range.getClientRects()].map((box) => box.top)).size; }"
    for regions in shown.locator(".card .regions").all():
        assert regions.evaluate(lines) == 1  # the number stays with its word
