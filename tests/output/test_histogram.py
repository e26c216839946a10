"""The picture of the scores: every image is counted, on the right side of the threshold."""

import re

import pytest

from hyperfsad.output.report.histogram import MOST_LINES, histogram_svg, products_svg


def bars(svg: str) -> list[tuple[str, float, float]]:
    """Kind, middle and height of each bar."""
    found = re.findall(
        r'class="(below|above)" x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="([\d.]+)"', svg
    )
    return [(kind, float(x) + float(width) / 2, float(tall)) for kind, x, width, tall in found]


def test_bars_are_as_high_as_their_count() -> None:
    svg = histogram_svg([0.1] * 4 + [0.2] * 2 + [0.4], None)
    heights = [tall for _, _, tall in bars(svg)]
    assert heights[0] == pytest.approx(2 * heights[1], rel=0.01)
    assert heights[0] == pytest.approx(4 * heights[2], rel=0.01)
    assert "threshold" not in svg


def test_the_threshold_parts_the_bars() -> None:
    svg = histogram_svg([0.10, 0.12, 0.15, 0.31, 0.38], 0.25)
    (line,) = re.findall(r'class="threshold" x1="([\d.]+)"', svg)
    assert len(bars(svg)) == 5
    for kind, middle, _ in bars(svg):
        assert (kind == "above") == (middle > float(line))
    assert "threshold 0.250" in svg


@pytest.mark.parametrize(
    "scores", [[0.3], [0.3] * 9, [0.0], [0.0, 1e-7], [1.0, 9.5], [0.1999, 0.2]]
)
@pytest.mark.parametrize("threshold", [None, 0.3, 5.0])
def test_any_scores_give_a_picture(scores: list[float], threshold: float | None) -> None:
    found = bars(histogram_svg(scores, threshold))
    assert found
    assert all(0 <= middle <= 420 and 0 < tall <= 100 for _, middle, tall in found)


def test_each_product_has_its_line_and_images_the_colour_of_their_verdict() -> None:
    scores = [(0.10, False), (0.30, True), (0.30, False), (0.45, True)]
    svg = products_svg(scores, {"bolt": 0.2, "<nut>" + "x" * 60: 0.4, "new": None})
    assert [kind for kind, _, _ in bars(svg)] == ["below", "below", "above", "above"]
    lines = re.findall(r'class="threshold" x1="([\d.]+)"', svg)
    labels = re.findall(r'class="label" x="([\d.]+)" y="(-?[\d.]+)"[^>]*>([^<]+)</text>', svg)
    assert [x for x, _, _ in labels] == lines
    assert len({y for _, y, _ in labels}) == 2  # above one another
    assert labels[1][2] == "bolt 0.200"
    assert labels[0][2].startswith("&lt;nut&gt;xx")
    assert "x" * 30 not in svg


def test_many_products_have_no_lines() -> None:
    svg = products_svg([(0.1, True), (0.2, None)], {str(n): n / 10 for n in range(MOST_LINES + 1)})
    assert "threshold" not in svg
    assert [kind for kind, _, _ in bars(svg)] == ["above", "below"]
