"""The histogram of the levels: every image is counted, on the right side of the limit."""

import pytest

from hyperfsad.report.pages import Histogram, level_histogram, score_histogram


def histogram(values: list[float], limited: bool) -> Histogram:
    if limited:
        return level_histogram([(value, value > 1) for value in values])
    return score_histogram([(value, None) for value in values])


def test_bars_are_as_high_as_their_count() -> None:
    found = histogram([0.1] * 4 + [0.2] * 2 + [0.4], limited=False)
    heights = [bar.height for bar in found.bars]
    assert heights[0] == pytest.approx(2 * heights[1])
    assert heights[0] == pytest.approx(4 * heights[2])
    assert found.limit is None
    assert (found.low, found.high, found.axis) == ("0.10", "0.40", "score")


def test_the_limit_separates_the_bars() -> None:
    found = histogram([0.4, 0.48, 0.6, 1.24, 1.52], limited=True)
    assert [bar.kind for bar in found.bars] == ["below"] * 3 + ["above"] * 2
    assert found.limit is not None
    for bar in found.bars:
        assert (bar.kind == "above") == (bar.x + bar.width / 2 > found.limit)
    assert (found.low, found.high) == ("40 %", "160 %")
    assert found.description == "5 images, from 40 % to 152 % of the limit"


@pytest.mark.parametrize("most", [1.3, 2.7, 9.0])
def test_no_bar_crosses_the_limit(most: float) -> None:
    """An image just below it and one just above it never share a bar; one on it is below."""
    found = histogram([0.0, 1 - 1e-4, 1.0, 1 + 1e-4, most], limited=True)
    assert [bar.kind for bar in found.bars] == ["below", "below", "above", "above"]
    assert found.bars[1].height == pytest.approx(2 * found.bars[2].height)
    assert found.limit is not None
    assert found.bars[1].x + found.bars[1].width < found.limit < found.bars[2].x


@pytest.mark.parametrize(
    "values", [[0.3], [0.3] * 9, [0.0], [0.0, 1e-7], [1.0, 9.5], [0.9999, 1.0], [80.0]]
)
@pytest.mark.parametrize("limited", [False, True])
def test_any_values_fit_into_the_picture(values: list[float], limited: bool) -> None:
    found = histogram(values, limited)
    assert found.bars
    for bar in found.bars:
        assert found.left <= bar.x <= bar.x + bar.width <= found.right
        assert 0 < bar.y <= bar.y + bar.height <= found.bottom
    assert found.limit is None or found.left <= found.limit <= found.right
    assert found.anchor in ("start", "middle", "end")
