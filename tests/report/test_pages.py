"""The histogram of the scores: every image is counted, on the right side of the threshold."""

import pytest

from hyperfsad.report.pages import MAX_THRESHOLDS, Histogram, score_histogram


def histogram(scores: list[float], threshold: float | None) -> Histogram:
    verdicts = [(score, None if threshold is None else score > threshold) for score in scores]
    return score_histogram(verdicts, {"threshold": threshold})


def test_bars_are_as_high_as_their_count() -> None:
    found = histogram([0.1] * 4 + [0.2] * 2 + [0.4], None)
    heights = [bar.height for bar in found.bars]
    assert heights[0] == pytest.approx(2 * heights[1])
    assert heights[0] == pytest.approx(4 * heights[2])
    assert found.thresholds == []


def test_the_threshold_separates_the_bars() -> None:
    found = histogram([0.10, 0.12, 0.15, 0.31, 0.38], 0.25)
    (mark,) = found.thresholds
    assert [bar.kind for bar in found.bars] == ["below"] * 3 + ["above"] * 2
    for bar in found.bars:
        assert (bar.kind == "above") == (bar.x + bar.width / 2 > mark.x)
    assert mark.label == "threshold 0.250"
    assert found.description == "Scores of 5 images from 0.100 to 0.380, threshold 0.250"


def test_no_bar_crosses_the_threshold() -> None:
    """An image just below it and one just above it never share a bar; one on it is below."""
    for threshold in (0.203, 0.25, 0.3111, 0.77):
        near = [threshold - 1e-4, threshold, threshold + 1e-4]
        found = histogram([0.0, *near, 1.0], threshold)
        (mark,) = found.thresholds
        assert [bar.kind for bar in found.bars] == ["below", "below", "above", "above"]
        assert found.bars[1].height == pytest.approx(2 * found.bars[2].height)
        assert found.bars[1].x + found.bars[1].width < mark.x < found.bars[2].x


@pytest.mark.parametrize(
    "scores", [[0.3], [0.3] * 9, [0.0], [0.0, 1e-7], [1.0, 9.5], [0.1999, 0.2]]
)
@pytest.mark.parametrize("threshold", [None, 0.3, 5.0])
def test_any_scores_fit_into_the_picture(scores: list[float], threshold: float | None) -> None:
    found = histogram(scores, threshold)
    assert found.bars
    for bar in found.bars:
        assert found.left <= bar.x <= bar.x + bar.width <= found.right
        assert 0 < bar.y <= bar.y + bar.height <= found.bottom
    assert all(found.left <= mark.x <= found.right for mark in found.thresholds)


def test_each_product_has_its_threshold_and_images_the_colour_of_their_verdict() -> None:
    scores = [(0.10, False), (0.30, True), (0.30, False), (0.45, True)]
    found = score_histogram(scores, {"bolt": 0.2, "<nut>" + "x" * 60: 0.4, "new": None})
    assert [bar.kind for bar in found.bars] == ["below", "below", "above", "above"]
    nut, bolt = found.thresholds
    assert bolt.label == "bolt 0.200"
    assert nut.label.startswith("<nut>xx")
    assert len(nut.label) <= 30
    assert bolt.y < nut.y  # stacked
    assert found.top <= bolt.y - 14 + 1


def test_thresholds_of_many_products_are_not_marked() -> None:
    thresholds = {str(n): n / 10 for n in range(MAX_THRESHOLDS + 1)}
    found = score_histogram([(0.1, True), (0.2, None)], thresholds)
    assert found.thresholds == []
    assert [bar.kind for bar in found.bars] == ["above", "below"]
