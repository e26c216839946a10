"""Numbers of what hangs together are those of scipy."""

import numpy as np
import pytest
from scipy import ndimage

from hyperfsad.decisions.labelling import labelled, peaks


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.7, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (33, 47), (80, 80)])
def test_labels_are_those_of_scipy(shape: tuple[int, int], share: float) -> None:
    inside = np.random.default_rng(3).random(shape) < share
    labels, count = labelled(inside)
    expected, known = ndimage.label(inside, structure=np.ones((3, 3)))
    assert count == known
    assert np.array_equal(labels, expected)


def test_runs_that_meet_late_have_one_number() -> None:
    rows = ["#.#.#", "#.#.#", "#.#.#", "#####", ".....", "#...#", ".#.#.", "..#.."]
    inside = np.array([[place == "#" for place in row] for row in rows])
    labels, count = labelled(inside)
    assert count == 2
    assert labels[0].tolist() == [1, 0, 1, 0, 1]
    assert set(labels[5:][inside[5:]]) == {2}


def test_peaks_are_the_highest_places_and_the_first_of_equals() -> None:
    rng = np.random.default_rng(5)
    inside = rng.random((30, 50)) < 0.4
    values = rng.random((30, 50))
    labels, count = labelled(inside)
    expected = ndimage.maximum_position(values, labels, np.arange(1, count + 1))
    assert peaks(values, labels, count) == [tuple(map(int, place)) for place in expected]
    one = np.ones((2, 3), dtype=np.intp)
    assert peaks(np.array([[0.0, 2.0, 1.0], [2.0, 0.0, 2.0]]), one, 1) == [(0, 1)]
