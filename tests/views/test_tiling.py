"""The geometry of tiles: any image is covered, without gaps, edges or seams."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.demo.drawing import draw
from hyperfsad.views.tiling import Tiling

sizes = st.tuples(st.integers(8, 20_000), st.integers(8, 20_000))
grids = st.integers(2, 40)


def a_tiling(size: tuple[int, int], grid: int, fine: float) -> Tiling:
    """With tiles of at least an eighth of the longer side, so that there are not too many."""
    return Tiling.of(size, max(grid, round(max(size) * fine)), grid)


@settings(max_examples=60, deadline=None)
@given(sizes, grids, st.floats(0.05, 2.0))
def test_tiles_begin_on_whole_patches_and_overlap_by_a_quarter(
    size: tuple[int, int], grid: int, fine: float
) -> None:
    tiling = a_tiling(size, grid, fine)
    for starts, patches in ((tiling.tops, tiling.rows), (tiling.lefts, tiling.columns)):
        assert starts[0] == 0
        assert starts[-1] + grid == patches
        steps = np.diff(starts)
        assert (steps > 0).all()
        assert (grid - steps >= max(min(grid / 4, grid - 1), 0)).all()
        assert steps.max(initial=0) - steps.min(initial=grid) <= 1  # evenly spread
    assert len(tiling) == len(tiling.tops) * len(tiling.lefts)


@settings(max_examples=60, deadline=None)
@given(sizes, grids, st.floats(0.05, 2.0))
def test_patches_are_as_large_as_those_of_a_tile(
    size: tuple[int, int], grid: int, fine: float
) -> None:
    side = max(grid, round(max(size) * fine))
    tiling = Tiling.of(size, side, grid)
    for length, patches in zip(size, (tiling.columns, tiling.rows), strict=True):
        if length >= side:
            assert patches == pytest.approx(length * grid / side, abs=0.5)
        else:
            assert patches == grid


@settings(max_examples=60, deadline=None)
@given(sizes, grids, st.floats(0.05, 2.0))
def test_boxes_lie_in_the_image_and_reach_its_edges(
    size: tuple[int, int], grid: int, fine: float
) -> None:
    tiling = a_tiling(size, grid, fine)
    boxes = np.array([tiling.box(number) for number in range(len(tiling))])
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= size).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    assert boxes[:, :2].min() == 0
    assert boxes[:, 2:].max(axis=0) == pytest.approx(size)


@settings(max_examples=60, deadline=None)
@given(sizes, grids, st.floats(0.1, 2.0))
def test_the_weights_of_all_tiles_add_up_to_one_everywhere(
    size: tuple[int, int], grid: int, fine: float
) -> None:
    tiling = a_tiling(size, grid, fine)
    ones = np.ones((grid, grid), dtype=np.float32)
    whole = tiling.joined(ones for _ in range(len(tiling)))
    assert whole.shape == (tiling.rows, tiling.columns)
    np.testing.assert_allclose(whole, 1, rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(sizes, grids, st.floats(0.1, 2.0), st.integers(0, 99))
def test_a_map_that_was_cut_comes_back(
    size: tuple[int, int], grid: int, fine: float, seed: int
) -> None:
    tiling = a_tiling(size, grid, fine)
    field = np.random.default_rng(seed).random((2, tiling.rows, tiling.columns), dtype=np.float32)
    tiles = [tiling[number] for number in range(len(tiling))]
    parts = [field[:, t.row : t.row + grid, t.column : t.column + grid] for t in tiles]
    np.testing.assert_allclose(tiling.joined(parts), field, atol=1e-6)


def test_an_image_no_larger_than_a_tile_is_one_tile() -> None:
    for size in ((320, 320), (320, 8), (200, 320), (64, 48)):
        tiling = Tiling.of(size, 320, 20)
        assert len(tiling) == 1
        assert tiling.box(0) == (0, 0, *size)
        assert (tiling.weight(0) == 1).all()
        assert (tiling.rows, tiling.columns) == (20, 20)


def test_large_images_of_the_field() -> None:
    assert Tiling.of((12_000, 9_000), 320, 20).shape == (38, 50)
    assert Tiling.of((8_000, 2_000), 320, 20).shape == (8, 33)


def test_a_tile_says_next_to_nothing_at_its_borders_but_all_at_the_edge_of_the_image() -> None:
    tiling = Tiling.of((1000, 300), 320, 20)
    assert tiling.shape == (1, 4)
    first, second = tiling.weight(0), tiling.weight(1)
    assert (first[:, 0] == 1).all()
    assert (first[:, -1] < 0.02).all()
    assert (second[:, 0] < 0.02).all()
    assert np.abs(np.diff(first[0])).max() < 0.35  # and falls smoothly in between


@settings(max_examples=60, deadline=None)
@given(sizes, grids, st.floats(0.05, 2.0), st.floats(0, 1), st.floats(0, 1))
def test_the_tiles_around_a_place_hold_the_nearest_one(
    size: tuple[int, int], grid: int, fine: float, x: float, y: float
) -> None:
    tiling = a_tiling(size, grid, fine)
    around = tiling.around(x, y)
    assert around == sorted(set(around))
    assert 1 <= len(around) <= 9
    (nearest,) = tiling.around(x, y, span=1)
    assert nearest in around
    centres = np.array([tiling.centre(number) for number in range(len(tiling))])
    apart = np.abs(centres - (x, y))
    assert (apart[nearest] <= apart.min(axis=0) + 1e-9).all()


@settings(max_examples=60, deadline=None)
@example((8, 19), 2, 0.125)  # a patch half-way between two centres
@given(sizes, grids, st.floats(0.05, 2.0))
def test_a_tile_is_the_nearest_to_its_own_centre(
    size: tuple[int, int], grid: int, fine: float
) -> None:
    tiling = a_tiling(size, grid, fine)
    for number in range(0, len(tiling), 7):
        assert tiling.around(*tiling.centre(number), span=1) == [number]
        tile = tiling[number]
        assert tiling.nearest(tile.row + grid // 2, tile.column + grid // 2) == number


def test_where_tiles_disagree_the_map_goes_over_from_one_to_the_other() -> None:
    tiling = Tiling.of((800, 300), 320, 20)
    levels = [np.full((20, 20), number % 2, dtype=np.float32) for number in range(len(tiling))]
    steps = np.abs(np.diff(tiling.joined(levels), axis=1)).max(axis=0)
    assert steps.max() < 0.35
    assert steps[borders(tiling.lefts, 20)].max() < 0.02


def test_a_repeating_texture_has_no_seams() -> None:
    def fabric(seed: int) -> Image.Image:
        return draw("fabric", seed=seed, size=1120).image.crop((0, 336, 1120, 784))

    detector = HyperFSAD(device="cpu", engine="openvino", tiles=True, rotations=1).fit(fabric(1))
    tiling = detector.memory_.extras[0].tiling
    assert tiling.shape == (1, 3)
    steps = np.abs(np.diff(detector.predict(fabric(2)).anomaly_map, axis=1)).mean(axis=0)
    across = borders(tiling.lefts, detector.encoding_.grid)
    assert len(across) == 4
    assert steps[across].max() <= np.delete(steps, across).max()


def borders(starts: tuple[int, ...], grid: int) -> list[int]:
    """The steps from the last patch outside a tile to its first, and from its last outside."""
    return sorted({start - 1 for start in starts[1:]} | {s + grid - 1 for s in starts[:-1]})
