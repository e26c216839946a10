"""Regions against the map as pictures show it: enlarged, cut at the threshold, labelled."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy import ndimage

from hyperfsad import HyperFSAD
from hyperfsad.decisions.regions import MAX_REGIONS, find_regions
from tests.conftest import make_picture

Map = NDArray[np.float32]


def grid(*rows: str) -> Map:
    """A map from rows of digits, in tenths."""
    return np.array([[int(digit) / 10 for digit in row] for row in rows], dtype=np.float32)


def smooth(seed: int, shape: tuple[int, int] = (32, 32)) -> Map:
    noise = np.random.default_rng(seed).random(shape)
    soft = ndimage.gaussian_filter(noise, 1.5)
    return np.asarray((soft - soft.min()) / np.ptp(soft), dtype=np.float32)


def is_simple(polygon: tuple[tuple[float, float], ...]) -> bool:
    """No corner twice, and no two sides meet but neighbours in their common corner."""
    sides = list(zip(polygon, (*polygon[1:], polygon[0]), strict=True))

    def turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    for (i, (a, b)), (j, (c, d)) in itertools.combinations(enumerate(sides), 2):
        if j - i == 1 or j - i == len(sides) - 1:
            continue
        apart = any(
            max(a[k], b[k]) < min(c[k], d[k]) or max(c[k], d[k]) < min(a[k], b[k]) for k in (0, 1)
        )
        if apart:
            continue
        if turn(a, b, c) * turn(a, b, d) <= 0 and turn(c, d, a) * turn(c, d, b) <= 0:
            return False
    return len(set(polygon)) == len(polygon)


def test_nothing_above_the_threshold_is_no_region() -> None:
    assert find_regions(grid("123", "456", "789"), (30, 30), 0.9) == ()


def test_the_numbers_of_a_region_are_plain() -> None:
    (region,) = find_regions(grid("000", "080", "000"), (31, 29), 0.4)
    peak = region.peak
    assert peak is not None
    corners = [value for corner in region.polygon for value in corner]
    numbers = [region.area, region.score, peak.x, peak.y, peak.value, *corners]
    assert {type(number) for number in numbers} == {float}
    assert {type(number) for number in region.bbox} == {int}


def test_one_patch_is_a_diamond_around_its_centre() -> None:
    found = find_regions(grid("00000", "00000", "00800", "00000", "00000"), (100, 50), 0.3)
    (region,) = found
    assert (region.peak.x, region.peak.y) == (50.0, 25.0)  # type: ignore[union-attr]
    assert region.score == region.peak.value == pytest.approx(0.8)  # type: ignore[union-attr]
    # 5/8 of the way to each neighbour lies at 0.3: 12.5 pixels across, 6.25 down
    assert region.bbox == (37, 18, 26, 14)
    assert {(37.5, 25.0), (62.5, 25.0), (50.0, 18.75), (50.0, 31.25)} <= set(region.polygon)
    # the area above (1 − u)(1 − v) = 3/8, four times, in patches of 20 × 10 pixels
    assert region.area == pytest.approx(4 * 200 * (0.625 + 0.375 * np.log(0.375)), rel=0.03)


def test_regions_reach_the_edges_of_the_image() -> None:
    (region,) = find_regions(np.ones((3, 3), np.float32), (90, 61), 0.5)
    assert region.bbox == (0, 0, 90, 61)
    assert region.area == 90 * 61
    assert sorted(region.polygon) == [(0.0, 0.0), (0.0, 61.0), (90.0, 0.0), (90.0, 61.0)]
    (corner,) = find_regions(grid("900", "000", "000"), (90, 60), 0.45)
    assert (0.0, 0.0) in corner.polygon
    assert corner.bbox == (0, 0, 30, 20)


def test_diagonal_patches_hang_together_where_the_map_between_them_is_high() -> None:
    assert len(find_regions(grid("90", "09"), (20, 20), 0.4)) == 1  # 0.45 half way
    assert len(find_regions(grid("90", "09"), (20, 20), 0.5)) == 2
    assert len(find_regions(grid("09", "90"), (20, 20), 0.4)) == 1


def test_a_hole_is_no_area() -> None:
    ring = find_regions(grid("99999", "99999", "99099", "99999", "99999"), (50, 50), 0.45)
    (region,) = ring
    assert region.area == pytest.approx(2500 - 100 * 4 * (0.5 - 0.5 * np.log(2)), rel=0.01)
    assert len(region.polygon) == 4  # the outline is the outer one


def test_a_region_is_missing_where_a_missing_piece_made_it() -> None:
    """It adds more than all else lies above the threshold."""
    anomaly_map = grid("000000000", "080808080", "000000000")
    added = grid("000000000", "050301000", "000000000")
    found = {
        round(region.peak.x): region.kind
        for region in find_regions(anomaly_map, (90, 30), 0.6, missing=added)
        if region.peak is not None
    }
    assert found == {15: "missing", 35: "missing", 55: "unexpected", 75: "unexpected"}
    most = find_regions(anomaly_map, (90, 30), 0.05, missing=grid("0" * 9, "050301000", "0" * 9))
    assert [region.kind for region in most] == ["missing"] + ["unexpected"] * 3
    plain = find_regions(anomaly_map, (90, 30), 0.6)
    assert {region.kind for region in plain} == {"unexpected"}
    assert [region.to_dict()["kind"] for region in plain] == ["unexpected"] * 4
    outlines = [region.polygon for region in find_regions(anomaly_map, (90, 30), 0.6, 0, added)]
    assert outlines == [region.polygon for region in plain]


def test_the_highest_first_and_small_ones_left_out() -> None:
    anomaly_map = grid("70000", "00000", "00999", "00000", "80000")
    found = find_regions(anomaly_map, (50, 50), 0.5)
    assert [round(region.score, 1) for region in found] == [0.9, 0.8, 0.7]
    large = find_regions(anomaly_map, (50, 50), 0.5, min_area=found[0].area)
    assert large == found[:1]
    assert find_regions(anomaly_map, (50, 50), 0.5, min_area=1e6) == ()


@pytest.mark.parametrize("size", [(640, 480), (333, 801), (96, 80)])
def test_regions_are_those_of_the_enlarged_map(size: tuple[int, int]) -> None:
    """Four samples a pixel of the image, or of a patch where those are smaller."""
    for seed in range(6):
        anomaly_map = smooth(seed)
        zoom = max(2, 512 // min(size))
        large = (size[0] * zoom, size[1] * zoom)
        shown = Image.fromarray(anomaly_map).resize(large, Image.Resampling.BILINEAR)
        above = np.asarray(shown) > 0.6
        labels, _ = ndimage.label(above, np.ones((3, 3)))
        found = find_regions(anomaly_map, size, 0.6)
        assert sum(region.area for region in found) == pytest.approx(
            above.sum() / zoom**2, rel=0.02
        )
        drawn = Image.new("1", large)
        for region in found:
            outline = [(x * zoom - 0.5, y * zoom - 0.5) for x, y in region.polygon]
            ImageDraw.Draw(drawn).polygon(outline, fill=1)
        filled = np.asarray(drawn)
        holes_shut = np.zeros_like(above)
        for label in range(1, labels.max() + 1):
            holes_shut |= ndimage.binary_fill_holes(labels == label)
        assert (filled & holes_shut).sum() / (filled | holes_shut).sum() > 0.96
        assert found[0].score == anomaly_map.max()


@settings(max_examples=200, deadline=None)
@example(np.array([[0.50001, 0.0]], np.float32), (28, 23))
@given(
    arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.sampled_from(
        [np.float32(value) for value in (0.0, 0.3, 0.5, 0.50001, 0.7, 1.0)]
    )),
    st.tuples(st.integers(8, 200), st.integers(8, 200)),
)  # fmt: skip
def test_every_outline_is_simple_and_inside(anomaly_map: Map, size: tuple[int, int]) -> None:
    found = find_regions(anomaly_map, size, 0.5)
    assert bool(found) == bool((anomaly_map > 0.5).any())
    for region in found:
        assert len(region.polygon) >= 3
        assert is_simple(region.polygon)
        points = np.array(region.polygon)
        x, y, width, height = region.bbox
        assert x >= 0
        assert y >= 0
        assert x + width <= size[0]
        assert y + height <= size[1]
        assert (points >= (x, y)).all()
        assert (points <= (x + width, y + height)).all()
        assert 1 <= region.area <= width * height


@pytest.mark.parametrize("size", [(8, 8), (9, 20), (31, 8)])
def test_no_region_of_a_tiny_image_is_smaller_than_a_pixel(size: tuple[int, int]) -> None:
    """With 32×32 patches, several of them share a pixel."""
    anomaly_map = np.zeros((32, 32), np.float32)
    anomaly_map[[0, 3, 17, 31], [0, 29, 16, 31]] = 0.9
    found = find_regions(anomaly_map, size, 0.5)
    assert len(found) == 4
    assert [region.area for region in found] == [1.0] * 4
    for region in found:
        x, y, *sides = region.bbox
        assert sides == [1, 1]
        assert region.peak is not None
        assert x <= region.peak.x <= x + 1
        assert y <= region.peak.y <= y + 1
        points = np.array(region.polygon)
        assert np.ptp(points, axis=0).tolist() == [1.0, 1.0]
        assert is_simple(region.polygon)
    assert {region.bbox[:2] for region in found} >= {(0, 0), (size[0] - 1, size[1] - 1)}


def test_a_thin_region_keeps_its_contour_and_counts_a_pixel() -> None:
    row = np.zeros((3, 40), np.float32)
    row[1, 5:35] = 0.500001  # contours hug values that are barely above the threshold
    (region,) = find_regions(row, (80, 8), 0.5)
    assert region.bbox[2] >= 58
    assert len(region.polygon) > 3
    assert region.area >= 1


def test_values_that_are_none_are_not_above() -> None:
    anomaly_map = grid("999", "999", "999")
    anomaly_map[1, 1] = np.nan
    (region,) = find_regions(anomaly_map, (30, 30), 0.5)
    assert 0 < region.area < 900
    assert np.isfinite(region.polygon).all()


def test_a_map_of_noise_has_a_bounded_number_of_regions() -> None:
    noise = np.random.default_rng(0).random((200, 200)).astype(np.float32)
    found = find_regions(noise, (12000, 9000), 0.8)
    assert len(found) == MAX_REGIONS
    scores = [region.score for region in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == noise.max()


def test_results_carry_the_regions_of_their_map(detector: HyperFSAD) -> None:
    detector.fit(make_picture(0), threshold=False)
    assert detector.predict(make_picture(1)).regions == ()
    detector.map_threshold_ = 0.2
    result = detector.predict(make_picture(1))
    assert result.map_threshold == 0.2
    assert result.regions == find_regions(result.anomaly_map, (96, 80), 0.2)
    assert result.regions[0].score == result.score_map
    detector.min_area = result.regions[0].area + 1
    fewer = detector.predict(make_picture(1)).regions
    assert all(region.area >= detector.min_area for region in fewer)
    assert len(fewer) < len(result.regions)
