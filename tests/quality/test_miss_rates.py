"""Formulas of coverage: counted miss rates, Jensen, the union bound, intervals, greedy covers."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from hyperfsad.errors import UsageError
from hyperfsad.quality.miss_rates import (
    Flags,
    greedy_cover,
    held_out_scores,
    held_out_share,
    joint_miss,
    measured_miss,
    neighbour_shares,
    neighbours,
    radii_of_threshold,
    share_interval,
    token_distances,
)
from tests.codes import raises
from tests.lab.theorems.samples import cls_tokens

seeds = st.integers(0, 2**32 - 1)


def flags(seed: int, images: int, layers: int, radius: float) -> Flags:
    return neighbours(token_distances(cls_tokens(seed, images, layers)), np.full(layers, radius))


def counted(near: Flags, shots: int) -> tuple[list[float], float]:
    """The miss rates by going through every support of every image."""
    layers, images, _ = near.shape
    missed, anywhere, total = np.zeros(layers), 0, 0
    for image in range(images):
        others = [other for other in range(images) if other != image]
        for support in combinations(others, shots):
            open_layers = ~near[:, image, list(support)].any(axis=1)
            missed += open_layers
            anywhere += bool(open_layers.any())
            total += 1
    return (missed / total).tolist(), anywhere / total


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(3, 7), st.integers(1, 3), st.floats(0.1, 1.5))
def test_miss_rates_are_those_of_all_supports(
    seed: int, images: int, layers: int, radius: float
) -> None:
    near = flags(seed, images, layers, radius)
    shots = np.arange(1, images)
    measured, joint = measured_miss(near, shots), joint_miss(near, shots)
    for shot in shots:
        each, anywhere = counted(near, int(shot))
        assert measured[:, shot - 1] == pytest.approx(each)
        assert joint[shot - 1] == pytest.approx(anywhere, abs=1e-12)


@settings(max_examples=1000, deadline=None)
@given(seeds, st.integers(3, 30), st.integers(1, 4), st.floats(0.05, 1.8))
def test_the_curves_are_ordered(seed: int, images: int, layers: int, radius: float) -> None:
    near = flags(seed, images, layers, radius)
    shots = np.arange(1, images)
    shares, measured = neighbour_shares(near), measured_miss(near, shots)
    for share, missed in zip(shares, measured, strict=True):
        averaged = (1 - share.mean()) ** shots
        jensen = ((1 - share)[:, None] ** shots).mean(axis=0)
        assert (averaged <= jensen + 1e-12).all()
        assert (averaged <= np.exp(-shots * share.mean()) + 1e-12).all()
        assert (missed <= jensen + 1e-12).all()  # drawn without replacement
        # the paper's own statement, with an α that every image has
        assert (missed <= (1 - share.min()) ** shots + 1e-12).all()
        assert missed[0] == pytest.approx(averaged[0])
        assert (np.diff(missed) <= 1e-12).all()
    joint = joint_miss(near, shots)
    assert (joint <= measured.sum(axis=0) + 1e-12).all()  # union bound
    assert (joint >= measured.max(axis=0) - 1e-12).all()


def test_the_interval_holds_as_often_as_it_says() -> None:
    """The average over all pairs of 20 images on a line; truth 0.36 for a radius of 0.2."""
    random = np.random.default_rng(1)
    truth, held = 1 - 0.8**2, 0
    for _ in range(400):
        places = random.random(20)
        near = np.abs(places[:, None] - places[None]) <= 0.2
        share = (near.sum() - 20) / (20 * 19)
        low, high = share_interval(float(share), 10, 0.9)
        assert low <= share <= high
        held += low <= truth <= high
    assert held >= 0.9 * 400


def divergence(share: float, chance: float) -> float:
    return float(rel_entr(share, chance) + rel_entr(1 - share, 1 - chance))


def test_the_interval_is_the_one_of_the_divergence() -> None:
    low, high = share_interval(0.5, 12, 0.95)
    for edge in (low, high):
        assert 12 * divergence(0.5, edge) == pytest.approx(math.log(2 / 0.05))
    assert share_interval(0.0, 12)[0] == 0
    assert share_interval(1.0, 12)[1] == 1
    assert 12 * divergence(1.0, share_interval(1.0, 12)[0]) == pytest.approx(math.log(40))
    narrow, wide = share_interval(0.5, 1000), share_interval(0.5, 10)
    assert narrow[1] - narrow[0] < 0.2 * (wide[1] - wide[0])


@settings(max_examples=200, deadline=None)
@given(seeds, st.integers(2, 9), st.integers(1, 3), st.floats(0.1, 1.8))
def test_a_greedy_cover_covers_with_few(seed: int, images: int, layers: int, radius: float) -> None:
    near = flags(seed, images, layers, radius)
    chosen = greedy_cover(near)
    itself = near | np.eye(images, dtype=bool)
    assert len(set(chosen)) == len(chosen)
    assert itself[:, :, chosen].any(axis=2).all()
    best = next(
        size
        for size in range(1, images + 1)
        for some in combinations(range(images), size)
        if itself[:, :, list(some)].any(axis=2).all()
    )
    assert best <= len(chosen) <= best * (1 + math.log(layers * images))


def test_a_greedy_cover_takes_the_centre() -> None:
    near = np.zeros((1, 5, 5), dtype=bool)
    near[0, :, 2] = near[0, 2, :] = True
    assert greedy_cover(near) == [2]
    assert greedy_cover(near, limit=0) == []
    # without the centre each of the others stands alone, with it all of them are covered
    assert held_out_share(near, 1) == pytest.approx(0.8 + 0.2)
    assert held_out_share(np.zeros((1, 5, 5), dtype=bool), 2) == 0
    many = ~np.eye(300, dtype=bool)[None]
    assert held_out_share(many, 1) == 1


def test_radii_use_up_what_the_threshold_leaves() -> None:
    distances = token_distances(cls_tokens(0, 8, 3))
    radii = radii_of_threshold(distances, 0.2, 0.5, 0.3)
    # a part at the very edge in all layers, with an ordinary map, scores the threshold
    assert 0.5 * 0.3 + 0.5 * (radii**2 / 2).mean() == pytest.approx(0.2)
    levels = held_out_scores(distances).max(axis=1)
    assert radii**2 / levels == pytest.approx((radii**2 / levels)[0])
    assert radii_of_threshold(np.zeros((2, 3, 3)), 0.02, 0.0, 0.0) == pytest.approx(0.2)
    with raises(UsageError, "coverage-threshold-low", level=0.3):
        radii_of_threshold(distances, 0.1, 0.5, 0.3)
    with raises(UsageError, "coverage-without-cls"):
        radii_of_threshold(distances, 0.1, 1.0, 0.3)
