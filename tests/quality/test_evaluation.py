"""What the terminal adds to the figures: a better threshold, and images of another product."""

import re
from dataclasses import replace

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
    text = evaluation_text(evaluation([0.3, 0.4, 0.4], [0.8, 1.2, 1.5], SEVERAL))
    assert re.search(
        r"With all thresholds × 0\.6 it would find 3 of 3 defects .* anomalous\. A", text
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


def codes(found: Evaluation) -> list[str]:
    return [step.code for step in found.advice]


def test_advice_comes_in_the_order_that_helps() -> None:
    alarms = evaluation([0.3, 0.4, 1.3, 0.5], [0.9, 1.6, 1.7, 1.8])
    assert codes(alarms) == ["advice-learn", "advice-line", "advice-view", "advice-threshold"]
    assert alarms.advice[0].facts == {"names": ["2.png"], "more": 0}
    missed = evaluation([0.3, 0.4, 0.5], [0.7, 0.9, 1.5])
    assert codes(missed)[0] == "advice-more-good"
    assert codes(replace(missed, support=10, adapted=True)) == ["advice-view", "advice-threshold"]
    assert str(missed.advice[0]) in evaluation_text(missed)
    assert codes(evaluation([0.3, 0.4], [1.2, 1.5])) == []
    assert codes(replace(missed, images=missed.images[:3])) == []


def test_parts_that_it_cannot_tell_apart_get_no_threshold() -> None:
    mixed = evaluation([0.3, 0.5, 0.8, 1.1, 1.3, 0.9], [0.4, 0.6, 0.85, 1.2, 1.25, 0.7])
    assert codes(mixed)[0] == "advice-cannot-tell"
    assert "advice-threshold" not in codes(mixed)
    assert mixed.better is None
    assert "would find" not in evaluation_text(mixed)
    few = evaluation([0.3, 0.4], [0.8, 1.5])  # too few for either
    assert few.better is None
    assert "advice-cannot-tell" not in codes(few)


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
