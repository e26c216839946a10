"""What the terminal says beside the figures: a better threshold, and images of another product."""

import re

import pytest

from hyperfsad.quality.evaluated_images import EvaluatedImage
from hyperfsad.quality.evaluation import EvaluatedDetector, Evaluation
from hyperfsad.quality.evaluation_page import evaluation_text

ONE = EvaluatedDetector("my part.hfsad", 0.4)
SEVERAL = EvaluatedDetector("part.hfsad", None, products=("bolt", "nut"))


def evaluation(
    good: list[float], bad: list[float], judge: EvaluatedDetector = ONE, foreign: int = 0
) -> Evaluation:
    """Parts with these strengths; the first ones look like another product."""
    strengths = [(strength, False) for strength in good] + [(strength, True) for strength in bad]
    images = [
        EvaluatedImage(
            *(f"{place}.png", is_bad, "dent" if is_bad else "good", 0.4 * strength, strength),
            anomalous=strength > 1,
            foreign=place < foreign,
        )
        for place, (strength, is_bad) in enumerate(strengths)
    ]
    return Evaluation(judge, tuple(images))


def test_a_better_threshold_is_told_with_its_command() -> None:
    text = evaluation_text(evaluation([0.3, 0.4, 0.5], [0.7, 0.9, 1.5]))
    assert (
        "At a threshold of 0.24 it would find 3 of 3 defects with 0 of 3 good parts called"
        " anomalous: `hyperfsad calibrate 'my part.hfsad' --threshold 0.24`. A threshold that was"
        " chosen on these images flatters itself on them."
    ) in text


def test_of_several_products_a_better_factor_is_told() -> None:
    text = evaluation_text(evaluation([0.3, 0.4], [0.8, 1.5], SEVERAL))
    assert re.search(
        r"With all thresholds × 0\.6 it would find 2 of 2 defects .* anomalous\. A", text
    )


@pytest.mark.parametrize(
    ("good", "bad", "foreign"),
    [
        ([0.3, 0.4], [1.2, 1.5], 0),  # the current one is the best
        ([0.3, 0.4], [], 0),
        ([1.5, 1.6], [0.3, 0.4], 0),  # to call all of them good is no threshold worth having
        ([0.3, 0.4], [0.8, 1.5], 3),  # of another product no threshold means anything
    ],
)
def test_where_no_threshold_is_better_none_is_told(
    good: list[float], bad: list[float], foreign: int
) -> None:
    assert "would find" not in evaluation_text(evaluation(good, bad, foreign=foreign))


@pytest.mark.parametrize(
    ("judge", "foreign", "words"),
    [
        (ONE, 0, None),
        (ONE, 1, "1 of 4 images looks like another product than its good parts, so its score"),
        (ONE, 2, "2 of 4 images look like another product than its good parts, so their scores"),
        (
            ONE,
            3,
            "so these figures mean little: is my part.hfsad the right detector, and are light",
        ),
        (SEVERAL, 1, "1 of 4 images fits none of its products, so its score means little."),
        (SEVERAL, 4, "4 of 4 images fit none of its products, so these figures mean little: is"),
    ],
)
def test_images_of_another_product_are_told(
    judge: EvaluatedDetector, foreign: int, words: str | None
) -> None:
    found = evaluation([0.3, 0.4], [1.2, 1.5], judge, foreign)
    told = next(found.sentences())
    assert (words or "With 2 good parts") in told
    assert words is None or words in evaluation_text(found)
    rows = found.to_dict()["images"]
    assert [row["foreign"] for row in rows] == [place < foreign for place in range(4)]
