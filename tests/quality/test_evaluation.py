"""What the terminal adds to the figures: a better threshold, and images of another product."""

import re

import pytest

from hyperfsad.quality.evaluation import EvaluatedImage, Evaluation
from hyperfsad.quality.evaluation_page import evaluation_text

ONE: tuple[str, ...] = ()
SEVERAL = ("bolt", "nut")


def evaluation(
    good: list[float], bad: list[float], products: tuple[str, ...] = ONE, foreign: int = 0
) -> Evaluation:
    """Parts with these levels; the first ones look like another product."""
    levels = [(level, False) for level in good] + [(level, True) for level in bad]
    images = [
        EvaluatedImage(
            *(f"{place}.png", is_bad, "dent" if is_bad else "good", 0.4 * level, level),
            anomalous=level > 1,
            foreign=place < foreign,
        )
        for place, (level, is_bad) in enumerate(levels)
    ]
    threshold = None if products else 0.4
    return Evaluation("my part.hfsad", tuple(images), threshold, product_names=products)


def test_a_better_threshold_comes_with_its_command() -> None:
    text = evaluation_text(evaluation([0.3, 0.4, 0.5], [0.7, 0.9, 1.5]))
    assert (
        "At a threshold of 0.24 it would find 3 of 3 defects with 0 of 3 good parts called"
        " anomalous: `hyperfsad calibrate 'my part.hfsad' --threshold 0.24`. A threshold that was"
        " chosen on these images looks better on them than it will on others."
    ) in text


def test_several_products_get_a_better_factor() -> None:
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
def test_where_no_threshold_is_better_none_is_offered(
    good: list[float], bad: list[float], foreign: int
) -> None:
    assert "would find" not in evaluation_text(evaluation(good, bad, foreign=foreign))


@pytest.mark.parametrize(
    ("products", "foreign", "words"),
    [
        (ONE, 0, "With 2 good parts"),
        (ONE, 1, "1 of 4 images may show another product than its good parts, so such scores"),
        (ONE, 3, "so these figures mean little: is my part.hfsad the right detector, and are"),
        (SEVERAL, 1, "1 of 4 images may show none of its products, so such scores mean little."),
        (SEVERAL, 4, "4 of 4 images may show none of its products, so these figures mean little"),
    ],
)
def test_images_of_another_product_are_reported(
    products: tuple[str, ...], foreign: int, words: str
) -> None:
    found = evaluation([0.3, 0.4], [1.2, 1.5], products, foreign)
    assert words in next(found.sentences())
    assert words in evaluation_text(found)
    rows = found.to_dict()["images"]
    assert [row["foreign"] for row in rows] == [place < foreign for place in range(4)]
