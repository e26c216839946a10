"""How far an image reaches, in words: nothing but the limit itself reads as 100 %."""

import math

import pytest

from hyperfsad.wording import of_limit, percent


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (0.0, "0 %"),
        (0.8812, "88 %"),
        (0.9951, "99.5 %"),
        (0.99996, "99.996 %"),
        (1.0, "100 %"),
        (1.00004, "100.004 %"),
        (1.004, "100.4 %"),
        (1.28, "128 %"),
        (math.inf, "∞ %"),
    ],
)
def test_there_are_as_many_digits_as_tell_it_from_the_limit(level: float, words: str) -> None:
    assert percent(level) == words
    assert of_limit(level) == f"{words} of the limit"


@pytest.mark.parametrize("towards", [0.0, 2.0])
def test_the_nearest_number_to_the_limit_is_not_it(towards: float) -> None:
    text = percent(math.nextafter(1, towards))
    assert text.startswith("99.99" if towards < 1 else "100.0")
    assert float(text.removesuffix(" %")) != 100
