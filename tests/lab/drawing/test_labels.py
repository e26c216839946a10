"""Names beside bubbles: the nearest free place, and readable even in a crowd."""

import itertools
import math

import numpy as np
import pytest

from hyperfsad.lab.drawing.labels import Box, Disc, place_labels

BOUNDS = (0.0, 0.0, 400.0, 300.0)
SIZE = (60.0, 9.0)


def overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def test_a_lone_name_stands_on_the_right_without_a_line() -> None:
    (label,) = place_labels([Disc(200, 150, 10)], [SIZE], BOUNDS)
    assert label.box[0] == pytest.approx(212)
    assert label.middle[1] == pytest.approx(150)
    assert label.leader is None


def test_at_the_right_border_it_stands_on_the_left() -> None:
    (label,) = place_labels([Disc(395, 150, 4)], [SIZE], BOUNDS)
    assert label.box[2] < 391


@pytest.mark.parametrize("seed", range(8))
def test_random_bubbles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    discs = [Disc(*map(float, rng.uniform((30, 30, 3), (370, 270, 14)))) for _ in range(14)]
    labels = place_labels(discs, [SIZE] * len(discs), BOUNDS)
    for a, b in itertools.combinations(labels, 2):
        assert not overlap(a.box, b.box)
    for label, disc in itertools.product(labels, discs):
        x = min(max(disc.x, label.box[0]), label.box[2])
        y = min(max(disc.y, label.box[1]), label.box[3])
        assert math.hypot(x - disc.x, y - disc.y) >= disc.radius
        assert label.box[0] >= 0
        assert label.box[1] >= 0
        assert label.box[2] <= 400
        assert label.box[3] <= 300


def test_names_on_one_spot_are_all_readable_and_tied_to_it() -> None:
    labels = place_labels([Disc(200, 150, 6)] * 8, [SIZE] * 8, BOUNDS)
    for a, b in itertools.combinations(labels, 2):
        assert not overlap(a.box, b.box)
    far = [label for label in labels if label.leader]
    assert far
    for label in far:
        assert label.leader is not None
        assert math.dist(label.leader[1], (200, 150)) == pytest.approx(6)


def test_with_no_room_at_all_every_name_is_still_placed() -> None:
    assert len(place_labels([Disc(5, 5, 5)] * 3, [SIZE] * 3, (0, 0, 10, 10))) == 3
