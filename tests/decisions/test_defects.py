"""The name of the nearest example, or unknown."""

import numpy as np
import pytest

from hyperfsad.decisions import defects
from hyperfsad.decisions.defects import (
    LONGEST_DEFECT_NAME,
    UNKNOWN,
    USUAL_LIKENESS,
    DefectExample,
    TaughtDefects,
    defect_name,
)
from hyperfsad.errors import UsageError
from hyperfsad.method.signature import Signature
from tests.codes import raises


def at(angle: float) -> Signature:
    """A signature whose likeness to others is the cosine of the angle between them."""
    turned = np.deg2rad(angle)
    tokens = np.array([[np.cos(turned), np.sin(turned)]], np.float32)
    return Signature(tokens, np.ones(1, np.float32))


def taught(*examples: tuple[str, float]) -> TaughtDefects:
    found = TaughtDefects()
    for number, (name, angle) in enumerate(examples):
        found = found.with_example(DefectExample(name, f"{number}.png", str(number), at(angle)))
    return found


def test_the_nearest_example_names_the_defect() -> None:
    known = taught(("dent", 0), ("rust", 60))
    assert known.name(at(10)).defect == "dent"
    assert known.name(at(50)).defect == "rust"
    assert known.name(at(50)).likeness == pytest.approx(np.cos(np.deg2rad(10)), abs=1e-6)


def test_all_examples_of_a_defect_count() -> None:
    known = taught(("dent", 0), ("dent", 10), ("rust", 40), ("rust", -140))
    assert known.name(at(25)).defect == "dent"
    assert known.name(at(25)).likeness == pytest.approx(np.cos(np.deg2rad(15)), abs=1e-6)
    assert known.name(at(38)).defect == "dent"  # one of rust is nearer, its mean is far


def test_nearer_than_examples_of_different_defects_are_to_one_another() -> None:
    apart, close = taught(("dent", 0), ("rust", 90)), taught(("dent", 0), ("rust", 20))
    assert apart.least_likeness == pytest.approx(USUAL_LIKENESS / 2, abs=1e-6)
    assert close.least_likeness == pytest.approx((USUAL_LIKENESS + 0.9397) / 2, abs=1e-4)
    assert apart.name(at(-60)).defect == "dent"
    assert close.name(at(-60)).defect == UNKNOWN
    assert close.name(at(-60)).likeness == pytest.approx(0.5, abs=1e-6)


def test_of_one_defect_what_is_usual_counts() -> None:
    known = taught(("dent", 0), ("dent", 90))
    assert known.least_likeness == USUAL_LIKENESS
    assert known.name(at(-70)).defect == UNKNOWN
    assert known.name(at(-60)).defect == "dent"
    assert known.name(None) == defects.NamedDefect(UNKNOWN, 0.0)


def test_a_picture_is_what_it_was_called_last() -> None:
    known = taught(("dent", 0), ("rust", 90))
    again = known.with_example(DefectExample("rust", "new.png", "0", at(0)))
    assert dict(known.counts) == {"dent": 1, "rust": 1}
    assert dict(again.counts) == {"rust": 2}
    assert again.name(at(0)).defect == "rust"


def test_a_defect_is_forgotten_with_its_examples() -> None:
    known = taught(("dent", 0), ("rust", 90), ("dent", 45)).without("dent")
    assert dict(known.counts) == {"rust": 1}
    with raises(UsageError, "defect-not-taught", known=["rust"]):
        known.without("dent")
    with raises(UsageError, "defect-not-taught", known=[]):
        TaughtDefects().without("dent")


def test_there_is_room_for_many_examples_but_not_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defects, "MOST_EXAMPLES", 2)
    known = taught(("dent", 0), ("rust", 90))
    assert len(known.with_example(known.examples[0]).examples) == 2
    with raises(UsageError, "examples-many", most=2):
        known.with_example(DefectExample("dent", "2.png", "2", at(0)))


def test_names_are_words_that_people_can_read() -> None:
    assert defect_name("  Kratzer, tief ") == "Kratzer, tief"
    assert defect_name("é" * LONGEST_DEFECT_NAME) == "é" * LONGEST_DEFECT_NAME
    for wrong in (
        "",
        "  ",
        "a\nb",
        "\u202eabc",
        "x" * (LONGEST_DEFECT_NAME + 1),
        "Unknown",
        None,
        3,
    ):
        with raises(UsageError, "defect-name"):
            defect_name(wrong)
