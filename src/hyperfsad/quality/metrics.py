"""The metrics of the paper, exact, as fractions from 0 to 1; None where one is not defined.

A threshold admits all scores at or above it, so that equal scores enter together: as in
scikit-learn, ties are never broken. Every curve here rises only where a defect is admitted.
Hence each metric is a sum over the defects alone, of how many normal scores lie above each of
them or tie with it: the normal scores are sorted once, the defects looked up among them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import UsageError
from ..images.filters import blurred, pieces

IMAGE_METRICS = ("I-AUROC", "I-F1", "I-AP")

PIXEL_METRICS = ("P-AUROC", "PRO", "PRO-200", "P-AP")

METRICS: tuple[str, ...] = IMAGE_METRICS + PIXEL_METRICS

PRO_STEPS = 200
"""Thresholds of PRO-200."""

Counts = NDArray[np.intp]
Floats = NDArray[np.float64]


def image_metrics(
    anomalous: Sequence[bool] | NDArray[Any], scores: NDArray[Any]
) -> dict[str, float | None]:
    """I-AUROC, I-F1 and I-AP of one score an image; I-F1 is the best F1 of any threshold."""
    labels, values = np.asarray(anomalous, dtype=bool), np.asarray(scores, dtype=np.float64)
    if labels.ndim != 1 or labels.shape != values.shape:
        raise UsageError("scores-shape", labels=labels.shape, scores=values.shape)
    _refuse_non_finite(values, "image scores")
    normal, defect = np.sort(values[~labels]), np.sort(values[labels])
    if not len(normal) or not len(defect):
        return dict.fromkeys(IMAGE_METRICS)
    above, false = _above(normal, defect), _admitted(normal, defect)
    true = _admitted(defect, defect)
    return {
        "I-AUROC": 1 - int((above + false).sum()) / (2 * len(normal) * len(defect)),
        "I-F1": float((2 * true / (true + false + len(defect))).max()),
        "I-AP": float((true / (true + false)).mean()),
    }


def pixel_metrics(
    maps: NDArray[np.float32], masks: NDArray[np.bool_], *, pro_limit: float = 0.3
) -> dict[str, float | None]:
    """P-AUROC, PRO, PRO-200 and P-AP of the pooled pixels of (n, h, w) maps and their masks.

    PRO (Bergmann et al., 2021) is the mean share of each defect region that is found, whatever its
    size, against the false-positive rate over all normal pixels, those of good images included.
    Regions are 8-connected. Its value is the area under that curve up to `pro_limit`, divided by
    `pro_limit`: every threshold counts, and the curve is linear between them.

    PRO-200 is the same curve as RAD and AnomalyCLIP sample it; see `_stepped_area`.
    """
    maps, masks = np.asarray(maps), np.asarray(masks, dtype=bool)
    if maps.ndim != 3 or maps.shape != masks.shape:
        raise UsageError("maps-shape", maps=maps.shape, masks=masks.shape)
    if not 0 < pro_limit <= 1:
        raise UsageError("pro-limit-range", given=pro_limit)
    _refuse_non_finite(maps, "maps")
    if not masks.any() or masks.all():
        return dict.fromkeys(PIXEL_METRICS)

    normal, defect = maps[~masks], maps[masks]
    normal.sort()
    defect.sort()
    thresholds = _linear_thresholds(min(normal[0], defect[0]), max(normal[-1], defect[-1]))
    misranked, regions = 0, 0
    precision, area, found = 0.0, 0.0, np.zeros(PRO_STEPS + 1)
    for scores, shares, count in _defects(maps, masks):
        above, false = _above(normal, scores), _admitted(normal, scores)
        true = _admitted(defect, scores)
        misranked += int((above + false).sum())
        precision += float((true / (true + false)).sum())
        area += float(shares @ _area_of_step(above, false, pro_limit * len(normal)))
        passed = np.searchsorted(thresholds, scores)
        found += np.bincount(passed, weights=shares, minlength=PRO_STEPS + 1)
        regions += count
    overlap = found[::-1].cumsum()[-2::-1] / regions
    false_positive_rate = _above(normal, thresholds) / len(normal)
    return {
        "P-AUROC": 1 - misranked / (2 * len(normal) * len(defect)),
        "PRO": area / (pro_limit * len(normal) * regions),
        "PRO-200": _stepped_area(false_positive_rate, overlap, pro_limit),
        "P-AP": precision / len(defect),
    }


def _refuse_non_finite(values: NDArray[Any], what: str) -> None:
    # The extremes tell without a mask of every pixel: NaN spreads to both.
    if values.size and not np.isfinite([values.min(), values.max()]).all():
        raise UsageError("metrics-not-finite", what=what)


def _above(ranked: NDArray[Any], values: NDArray[Any]) -> Counts:
    """How many of the ascending `ranked` lie above each value."""
    return len(ranked) - np.searchsorted(ranked, values, side="right")


def _admitted(ranked: NDArray[Any], values: NDArray[Any]) -> Counts:
    """How many of the ascending `ranked` lie at or above each value."""
    return len(ranked) - np.searchsorted(ranked, values, side="left")


def _defects(
    maps: NDArray[Any], masks: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[Any], Floats, int]]:
    """For each image with defects their scores, each one's share of its region, the regions."""
    for index in np.flatnonzero(masks.any(axis=(1, 2))):
        mask = masks[index]
        labels, count = pieces(mask)
        region, scores = labels[mask], maps[index][mask]
        order = scores.argsort()  # to look up near scores in turn: a third of the time, measured
        yield scores[order], 1 / np.bincount(region)[region[order]], count


def _area_of_step(above: Counts, false: Counts, limit: float) -> Floats:
    """Area left of `limit` under a curve that climbs from 0 to 1 between `above` and `false`.

    Each defect adds such a step to the overlap, upright unless normal scores tie with it.
    """
    climb: Floats = np.maximum(np.minimum(false, limit) - above, 0)
    area: Floats = np.maximum(limit - false, 0) + climb**2 / (2 * np.maximum(false - above, 1))
    return area


def _linear_thresholds(low: Any, high: Any) -> NDArray[Any]:
    """low + k·(high − low)/200 for k = 0 … 199, in the type of the scores that they are put to."""
    span = float(high) - float(low)
    return (float(low) + span * np.arange(PRO_STEPS) / PRO_STEPS).astype(low.dtype)


def _stepped_area(false_positive_rate: Floats, overlap: Floats, limit: float) -> float:
    """PRO-200: the PRO curve at 200 linear thresholds from the least score to the greatest.

    As in RAD's code, a threshold admits what is above it, false-positive rates below `limit` are
    kept and divided by the greatest of them, and the trapezoids are summed. AnomalyCLIP subtracts
    the least rate first, which is 0 or close to it. Nothing is interpolated at the limit nor added
    before the first rate; on real data it reads 0.3 to 0.5 points lower than PRO. Where one rate
    alone is kept the curve has no width, and this is the greatest overlap there; 0 if none is kept.
    """
    kept = false_positive_rate < limit
    rates, overlaps = false_positive_rate[kept][::-1], overlap[kept][::-1]
    if not len(rates) or rates[0] == rates[-1]:
        return float(overlaps.max(initial=0.0))
    return float((np.diff(rates) @ (overlaps[1:] + overlaps[:-1])) / (2 * rates[-1]))


def upsampled(maps: NDArray[np.float32], size: int, smoothing: float = 0.0) -> NDArray[np.float32]:
    """Maps (n, grid, grid) at the evaluation size, bilinear with half-pixel centres."""
    large = np.empty((len(maps), size, size), dtype=np.float32)
    for place, small in enumerate(maps):
        shown = Image.fromarray(small).resize((size, size), Image.Resampling.BILINEAR)
        large[place] = blurred(np.asarray(shown), smoothing)
    return large
