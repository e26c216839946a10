"""What the strongest place of an image has that good parts do not."""

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.method.signature import (
    PATCHES,
    POWER,
    REACH,
    make_signature,
    signature_layers,
    strongest_place,
)
from tests.tokens import unit

GRID = 12


def anomaly_map(seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(0.1, 1, (GRID, GRID)).astype(np.float32)


def test_the_strongest_patches_count_the_more_the_stronger() -> None:
    shown = anomaly_map()
    place = strongest_place(shown)
    values = shown.ravel()[place.patches]
    assert len(values) == PATCHES
    assert values.min() > np.delete(shown.ravel(), place.patches).max()
    assert place.weights.sum() == pytest.approx(1)
    assert place.weights / place.weights[0] == pytest.approx((values / values[0]) ** POWER)


def test_a_place_that_somebody_pointed_at_is_taken_instead() -> None:
    shown = anomaly_map()
    shown[0, 0] = 9
    place = strongest_place(shown, (8, 8))
    rows, columns = np.divmod(place.patches, GRID)
    assert max(abs(rows - 8).max(), abs(columns - 8).max()) <= REACH
    around = shown[8 - REACH : 8 + REACH + 1, 8 - REACH : 8 + REACH + 1]
    assert shown.ravel()[place.patches[0]] == around.max()


@pytest.mark.parametrize(("near", "patch"), [(None, 0), ((3, 4), 3 * GRID + 4)])
def test_where_nothing_stands_out_there_is_one_patch(
    near: tuple[int, int] | None, patch: int
) -> None:
    place = strongest_place(np.zeros((GRID, GRID), np.float32), near)
    assert (place.patches.tolist(), place.weights.tolist()) == ([patch], [1])


def test_the_later_half_of_the_layers_counts() -> None:
    assert [list(signature_layers(count)) for count in (1, 2, 3, 4)] == [[0], [1], [1, 2], [2, 3]]


def tokens(seed: int, count: int = 3) -> NDArray[np.float32]:
    return unit(np.random.default_rng(seed).normal(size=(count, 16)))


def test_likeness_is_the_mean_of_the_best_cosines_both_ways() -> None:
    residuals, own = [tokens(1), tokens(2)], tokens(3)
    others, other = [tokens(4, 2), tokens(5, 2)], tokens(6, 2)
    weights, more = np.array([0.5, 0.3, 0.2], np.float32), np.array([0.9, 0.1], np.float32)
    one, two = make_signature(residuals, own, weights), make_signature(others, other, more)
    assert one is not None
    assert two is not None
    pairs = [*zip(residuals, others, strict=True), (own, other)]
    cosines = sum(left @ right.T for left, right in pairs) / 3
    expected = (weights @ cosines.max(axis=1) + more @ cosines.max(axis=0)) / 2
    assert one.likeness(two) == pytest.approx(expected, abs=1e-3)
    assert two.likeness(one) == pytest.approx(one.likeness(two), abs=1e-6)
    assert one.likeness(one) == pytest.approx(1, abs=1e-3)


def test_how_far_a_patch_is_from_normal_does_not_matter() -> None:
    weights = np.array([0.5, 0.3, 0.2], np.float32)
    near = make_signature([0.01 * tokens(1)], tokens(2), weights)
    far = make_signature([tokens(1)], tokens(2), weights)
    assert near is not None
    assert far is not None
    assert near.likeness(far) == pytest.approx(1, abs=1e-3)


def test_what_the_memory_holds_itself_has_no_signature() -> None:
    nothing = np.zeros((2, 16), np.float32)
    assert make_signature([nothing], tokens(1, 2), np.array([0.5, 0.5], np.float32)) is None
    half = nothing.copy()
    half[1] = tokens(2, 1)
    found = make_signature([half], tokens(1, 2), np.array([0.9, 0.1], np.float32))
    assert found is not None
    assert found.weights.tolist() == [1]
