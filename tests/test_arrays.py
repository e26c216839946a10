"""What the array API standard lacks: the same of every library."""

import numpy as np
import pytest

from hyperfsad import arrays
from hyperfsad.arrays import to_numpy

from .method.kinds import Maker, every_kind, noise


def same(found: arrays.Array, expected: object) -> None:
    assert np.array_equal(to_numpy(found), np.asarray(expected), equal_nan=True)


@every_kind
@pytest.mark.parametrize("count", [1, 3, 40])
def test_the_largest_of_each_row_and_their_places(made: Maker, count: int) -> None:
    values = noise(5, 40, seed=0)
    order = np.argsort(-values, axis=1)[:, :count]
    found, index = arrays.top_k(made(values), count)
    same(index, order)
    same(found, np.take_along_axis(values, order, axis=1))


@every_kind
def test_sums_of_a_few_rows(made: Maker) -> None:
    rows, weights = noise(9, 4, seed=0), noise(3, 2, seed=1)
    index = np.array([[0, 8], [3, 3], [7, 1]])
    found = to_numpy(arrays.weighted_rows(made(rows), made(index), made(weights)))
    assert found == pytest.approx((weights[..., None] * rows[index]).sum(axis=1), abs=1e-6)
    none = arrays.weighted_rows(made(rows), made(index[:0]), made(weights[:0]))
    assert none.shape == (0, 4)


@every_kind
def test_values_are_gathered_scattered_and_put(made: Maker) -> None:
    values, index = noise(2, 3, seed=0), np.array([[2, 0], [1, 1]])
    same(arrays.gathered(made(values), made(index)), np.take_along_axis(values, index, axis=1))
    few = np.array([[1.0, 2.0], [3.0, 4.0]])
    places = np.array([[2, 0], [1, 3]])
    same(arrays.scattered(made(places), made(few), 4), [[2, 0, 1, 0], [0, 3, 0, 4]])
    line = np.arange(4.0)
    same(arrays.put(made(line), made(np.array([1, 3])), made(np.array([9.0, 8.0]))), [0, 9, 2, 8])
    same(arrays.put(made(line), made(line > 1), -np.inf), [0, 1, -np.inf, -np.inf])
    places, values = np.array([1, 1, 3]), np.array([0.5, 0.75, -1.0])
    same(arrays.largest_at(made(places), made(values), 4), [0, 0.75, 0, 0])


@every_kind
def test_bounds_of_values_leave_what_is_no_number(made: Maker) -> None:
    values = made(np.array([-1.0, 0.5, 2.0, np.nan], dtype=np.float32))
    same(arrays.positive(values), [0, 0.5, 2, np.nan])
    same(arrays.at_most(values, 1.0), [-1, 0.5, 1, np.nan])
    same(arrays.clipped(values, 0.0, 1.0), [0, 0.5, 1, np.nan])
    assert to_numpy(arrays.positive(values)).dtype == np.float32
    same(arrays.clipped(made(np.array([-3, 1, 9])), 0, 4), [0, 1, 4])


@every_kind
def test_zeros_are_added_along_an_axis(made: Maker) -> None:
    values = noise(2, 3, seed=0)
    same(arrays.padded(made(values), 1, 2, 0), np.pad(values, ((1, 2), (0, 0))))
    same(arrays.padded(made(values), 0, 1, -1), np.pad(values, ((0, 0), (0, 1))))


@every_kind
def test_medians_of_whole_numbers(made: Maker) -> None:
    values = np.random.default_rng(0).integers(-30, 30, size=(4, 6, 25))
    same(arrays.middle(made(values)), np.median(values, axis=-1))


@every_kind
def test_widths_of_numbers(made: Maker) -> None:
    values = made(np.array([1.5], dtype=np.float32))
    assert to_numpy(arrays.wide(values)).dtype == np.float64
    assert arrays.single(values).dtype == values.dtype
    like = arrays.like([1, 2], values, values.dtype)
    assert type(like) is type(values)
    assert like.dtype == values.dtype
    assert arrays.single(np.array([1.5], dtype=np.float16)).dtype == np.float32


def test_blocks_of_rows_never_reach_beyond_the_last() -> None:
    assert arrays.blocks(2, 9, 3) == [slice(2, 5), slice(5, 8), slice(8, 9)]
    assert arrays.blocks(0, 0, 3) == [slice(0, 0)]
