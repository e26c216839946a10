"""The metrics against their plain definitions, threshold by threshold, and scikit-learn's."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from hyperfsad.errors import UsageError
from hyperfsad.quality.metrics import METRICS, image_metrics, pixel_metrics
from tests.codes import raises

Maps = NDArray[np.float32]
Masks = NDArray[np.bool_]

seeds = st.integers(0, 2**32 - 1)
levels = st.integers(1, 6) | st.just(10**6)


def drawn(seed: int, level: int, images: int = 3, size: int = 7) -> tuple[Maps, Masks]:
    """Maps of at most `level` + 1 distinct scores, masks of scattered pixels; one image is good."""
    generator = np.random.default_rng(seed)
    masks = generator.random((images, size, size)) < generator.uniform(0.02, 0.6)
    masks[0] = False
    masks[-1, 0, 0] = True
    maps = generator.integers(0, level + 1, masks.shape) / level + 0.3 * masks * (level > 6)
    return maps.astype(np.float32), masks


def regions_of(masks: Masks) -> list[Masks]:
    """One mask of all pixels for each 8-connected region."""
    regions = []
    for index, mask in enumerate(masks):
        labels, count = ndimage.label(mask, structure=np.ones((3, 3)))
        for label in range(1, count + 1):
            region = np.zeros_like(masks)
            region[index] = labels == label
            regions.append(region)
    return regions


def curve_point(admitted: Masks, masks: Masks) -> tuple[float, float]:
    """The false-positive rate and the mean overlap of the regions."""
    overlaps = [float(admitted[region].mean()) for region in regions_of(masks)]
    return float(admitted[~masks].mean()), sum(overlaps) / len(overlaps)


def plain_pro(maps: Maps, masks: Masks, limit: float) -> float:
    points = [(0.0, 0.0)]
    points += [curve_point(maps >= threshold, masks) for threshold in np.unique(maps)[::-1]]
    area = 0.0
    for (start, low), (end, high) in pairwise(points):
        stop = min(end, limit)
        if stop > start:
            reached = low + (high - low) * (stop - start) / (end - start)
            area += (stop - start) * (low + reached) / 2
    return area / limit


def plain_pro_200(maps: Maps, masks: Masks, limit: float) -> float:
    low, high = float(maps.min()), float(maps.max())
    thresholds = [np.float32(low + (high - low) * step / 200) for step in range(200)]
    points = [curve_point(maps > threshold, masks) for threshold in reversed(thresholds)]
    kept = [(rate, overlap) for rate, overlap in points if rate < limit]
    if len({rate for rate, _ in kept}) < 2:
        return max((overlap for _, overlap in kept), default=0.0)
    greatest = max(rate for rate, _ in kept)
    return sum(
        (end - start) / greatest * (low + high) / 2 for (start, low), (end, high) in pairwise(kept)
    )


def assert_plain(maps: Maps, masks: Masks, limit: float = 0.3) -> None:
    values = pixel_metrics(maps, masks, pro_limit=limit)
    assert values["PRO"] == pytest.approx(plain_pro(maps, masks, limit), abs=1e-9)
    assert values["PRO-200"] == pytest.approx(plain_pro_200(maps, masks, limit), abs=1e-9)


def maps_of(*rows: list[float]) -> Maps:
    """Images of one row each."""
    return np.array(rows, dtype=np.float32)[:, None]


def masks_of(*rows: str) -> Masks:
    """Images of one row each, x where there is a defect."""
    return np.array([[[pixel == "x" for pixel in row]] for row in rows])


@settings(max_examples=60, deadline=None)
@given(seeds, levels, st.sampled_from([0.05, 0.3, 0.77, 1.0]))
def test_pixel_metrics_are_their_definitions(seed: int, level: int, limit: float) -> None:
    assert_plain(*drawn(seed, level), limit)


@settings(max_examples=60, deadline=None)
@given(seeds, levels)
def test_pixel_metrics_are_scikit_learns(seed: int, level: int) -> None:
    maps, masks = drawn(seed, level, images=4, size=20)
    values = pixel_metrics(maps, masks)
    labels, scores = masks.ravel(), maps.ravel()
    assert values["P-AUROC"] == pytest.approx(roc_auc_score(labels, scores), abs=1e-9)
    assert values["P-AP"] == pytest.approx(average_precision_score(labels, scores), abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5) | st.floats(-9, 9)), min_size=1))
def test_image_metrics_are_scikit_learns(images: list[tuple[bool, float]]) -> None:
    labels = [label for label, _ in images] + [True, False]
    scores = np.array([score for _, score in images] + [3.0, 3.0])
    values = image_metrics(labels, scores)
    precision, recall, _ = precision_recall_curve(labels, scores)
    best = max(2 * p * r / (p + r) for p, r in zip(precision, recall, strict=True) if p + r)
    assert values["I-AUROC"] == pytest.approx(roc_auc_score(labels, scores), abs=1e-9)
    assert values["I-AP"] == pytest.approx(average_precision_score(labels, scores), abs=1e-9)
    assert values["I-F1"] == pytest.approx(best, abs=1e-9)


def test_the_names_are_the_keys_in_order() -> None:
    images = image_metrics([True, False], np.array([1.0, 0.0]))
    pixels = pixel_metrics(maps_of([1.0, 0.0]), masks_of("x."))
    assert (*images, *pixels) == METRICS
    assert METRICS == ("I-AUROC", "I-F1", "I-AP", "P-AUROC", "PRO", "PRO-200", "P-AP")
    assert all(value == 1 for value in (images | pixels).values())


def test_equal_scores_tell_nothing() -> None:
    maps, masks = maps_of([0.5] * 4, [0.5] * 4), masks_of("xx..", "....")
    values = pixel_metrics(maps, masks)
    assert values["P-AUROC"] == 0.5
    assert values["P-AP"] == 0.25
    assert values["PRO"] == pytest.approx(0.15)  # the diagonal up to 0.3
    assert values["PRO-200"] == 0  # nothing is above the only score
    images = image_metrics(np.array([True, False, False]), np.ones(3))
    assert images == pytest.approx({"I-AUROC": 0.5, "I-F1": 0.5, "I-AP": 1 / 3})


@pytest.mark.parametrize("labels", [[], [False, False], [True, True]])
def test_one_kind_of_image_or_pixel_defines_no_metric(labels: list[bool]) -> None:
    scores = np.arange(len(labels), dtype=np.float32)
    assert image_metrics(labels, scores) == dict.fromkeys(METRICS[:3])
    masks = np.array(labels, dtype=bool).reshape(-1, 1, 1)
    assert pixel_metrics(scores.reshape(-1, 1, 1), masks) == dict.fromkeys(METRICS[3:])


def test_pro_200_leaves_out_the_limit_itself() -> None:
    """The defect is found at a rate of 1/4 and not before."""
    maps, masks = maps_of([0.5, 1.0, 0.0, 0.0, 0.0]), masks_of("x....")
    assert pixel_metrics(maps, masks, pro_limit=0.25)["PRO-200"] == 0
    assert pixel_metrics(maps, masks, pro_limit=0.26)["PRO-200"] == 1


def test_the_inputs_are_left_alone() -> None:
    maps, masks = drawn(6, 3)
    kept_maps, kept_masks = maps.copy(), masks.copy()
    values = pixel_metrics(maps, masks)
    assert pixel_metrics(maps, masks.astype(np.uint8) * 255) == values  # type: ignore[arg-type]
    assert np.array_equal(maps, kept_maps)
    assert np.array_equal(masks, kept_masks)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused(value: float) -> None:
    maps, masks = drawn(7, 3)
    maps[1, 2, 3] = value
    with raises(UsageError, "metrics-not-finite", what="maps"):
        pixel_metrics(maps, masks)
    with raises(UsageError, "metrics-not-finite", what="maps"):
        pixel_metrics(maps, np.zeros_like(masks))
    with raises(UsageError, "metrics-not-finite", what="image scores"):
        image_metrics([True, False], np.array([0.5, value]))


@pytest.mark.parametrize(
    ("maps", "masks"),
    [((2, 4, 4), (2, 4, 5)), ((2, 4, 4), (1, 4, 4)), ((4, 4), (4, 4))],
)
def test_shapes_and_limits_that_do_not_fit_are_refused(maps: Any, masks: Any) -> None:
    with raises(UsageError, "maps-shape", maps=maps, masks=masks):
        pixel_metrics(np.zeros(maps, dtype=np.float32), np.zeros(masks, dtype=bool))
    for labels, scores in ((2, 3), ((2, 2), (2, 2))):
        with raises(UsageError, "scores-shape"):
            image_metrics(np.zeros(labels, dtype=bool), np.zeros(scores))
    for limit in (0.0, -0.1, 1.5, float("nan")):
        with raises(UsageError, "pro-limit-range"):
            pixel_metrics(*drawn(8, 3), pro_limit=limit)
