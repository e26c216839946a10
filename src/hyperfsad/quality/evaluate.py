"""How good the verdicts of a detector are on parts whose truth is known, in bounded memory.

>>> from hyperfsad.quality.evaluate import evaluate
>>> evaluation = evaluate(detector, good="good/", bad="bad/")
>>> evaluation.confusion.balanced_accuracy, evaluation.auroc["score"]
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..detector.protocols import Detector
from ..errors import HyperfsadError, ImageError, UsageError
from ..images.loading import NormalImage
from ..messages import Progress, no_progress
from ..results.heatmap import map_overlay, thumbnail
from ..results.result import AnomalyResult
from .evaluation import EvaluatedImage, Evaluation
from .metrics import pixel_metrics, upsampled
from .test_set import PathLike, Places, TestImage, TestSet, load_mask, no_pixel_figures

MAX_ERROR_PICTURES = 12
"""Pictures of missed defects, and of false alarms."""
EVALUATION_METRICS = ("P-AUROC", "PRO", "P-AP")
EVALUATION_SIDES = (256, 128, 64, 32)
MAX_PIXELS = 800 * 256**2
"""Of all maps together: 0.6 GB with what sorting them takes. More images are compared at a smaller
side."""


def evaluate(
    detector: Detector,
    tree: PathLike | None = None,
    *,
    good: Places = (),
    bad: Places = (),
    test_set: TestSet | None = None,
    file: PathLike = "part.hfsad",
    output: PathLike | None = None,
    progress: Progress = no_progress,
) -> Evaluation:
    """How good the verdicts of a detector are on good and bad parts.

    Either `tree`, a folder with test/good and test/<defect>, or files, globs or folders of `good`
    and `bad` parts; one of these may be left out; or a `test_set`. `file` is how commands in the
    results name the detector. Images in the folder `output` are results, so they are left out.
    """
    detector.require_fitted()
    if (tree is not None) + bool(good or bad) + (test_set is not None) != 1:
        raise UsageError("test-set-choice")
    products = detector.products_
    for name, product in products.items():
        if product.threshold_ is not None and product.threshold_ <= 0:
            raise UsageError("threshold-not-positive", given=product.threshold_, product=name)
    if test_set is None:
        test_set = TestSet.from_folders(good, bad) if tree is None else TestSet.from_tree(tree)
    if output is not None:
        test_set = test_set.outside(Path(output))
    pixels = PixelComparison(len(test_set.images)) if test_set.has_masks else None
    missed, false_alarms = WorstErrors(), WorstErrors()
    evaluated: list[EvaluatedImage] = []
    learnt: list[str] = []
    results = detector.predict_many([image.source for image in test_set.images], keep_pictures=True)
    for image, result in zip(progress(test_set.images, "evaluating"), results, strict=True):
        if not image.anomalous and _is_learnt(result, detector.support_):
            learnt.append(result.image)
            continue
        one = beside_truth(image, result)
        evaluated.append(one)
        if one.wrong:
            (missed if one.bad else false_alarms).add(one, result)
        if pixels is not None and one.error is None:
            pixels.add(image, result)
    if not evaluated:
        raise UsageError("only-learnt-parts", images=learnt)
    metrics = None if pixels is None else pixels.metrics()
    threshold = detector.threshold_ if "" in products else None
    return Evaluation(
        os.fspath(file),
        tuple(evaluated),
        threshold,
        map_threshold=None if threshold is None else detector.map_threshold_ or None,
        product_names=() if "" in products else tuple(products),
        learnt=tuple(learnt),
        support=len(detector.support_),
        adapted=detector.calibration_ is not None and detector.calibration_.method == "line",
        missed=missed.pictures(),
        false_alarms=false_alarms.pictures(),
        pixels=metrics,
        pixel_side=pixels.side if pixels is not None and metrics else None,
        notes=test_set.notes + (() if pixels is None else pixels.notes),
        complete=test_set.complete,
    )


def _is_learnt(result: AnomalyResult, support: Sequence[NormalImage]) -> bool:
    """Whether the detector has learnt this very picture; only those of a known size are hashed."""
    if result.error is not None or not any(known.size in (result.size, None) for known in support):
        return False
    try:
        return result.loaded().sha256() in {known.sha256 for known in support}
    except ImageError:  # gone since it was scored
        return False


def beside_truth(known: TestImage, result: AnomalyResult) -> EvaluatedImage:
    """A result with the truth."""
    return EvaluatedImage(
        result.image,
        known.anomalous,
        known.defect,
        None if result.error is not None else result.score,
        result.level,
        result.anomalous,
        result.error,
        None if result.route is None else result.route.nearest,
        bool(result.foreign or result.unknown_product),
    )


class WorstErrors:
    """The images whose level is farthest on the wrong side; only their pictures are kept."""

    def __init__(self) -> None:
        self._ranked: list[tuple[float, str, EvaluatedImage]] = []

    def add(self, wrong: EvaluatedImage, result: AnomalyResult) -> None:
        """Draws the image if it is among the worst so far."""
        assert wrong.level is not None
        rank = (wrong.level if wrong.bad else -wrong.level), wrong.image
        if len(self._ranked) == MAX_ERROR_PICTURES and rank >= self._ranked[-1][:2]:
            return
        low, high = result.scale
        # Most errors lie close to the threshold, where the usual colour scale begins and shows
        # next to nothing; here it begins at half that value.
        scale = (low / 2, 5 * low / 4) if low > 0 else (low, high)
        overlay = map_overlay(result.anomaly_map, scale)
        drawn = replace(wrong, jpeg=thumbnail(result.shown()), overlay=overlay)
        self._ranked.append((*rank, drawn))
        self._ranked.sort(key=lambda entry: entry[:2])
        del self._ranked[MAX_ERROR_PICTURES:]

    def pictures(self) -> tuple[EvaluatedImage, ...]:
        """The worst first."""
        return tuple(image for *_, image in self._ranked)


class PixelComparison:
    """Compares maps with masks, one image after the other, in bounded memory."""

    def __init__(self, images: int) -> None:
        sides = (side for side in EVALUATION_SIDES if images * side**2 <= MAX_PIXELS)
        self.side = next(sides, EVALUATION_SIDES[-1])
        self._maps = np.empty((images, self.side, self.side), dtype=np.float32)
        self._masks = np.empty(self._maps.shape, dtype=np.bool_)
        self._count = 0
        self.notes: tuple[str, ...] = ()
        """Which mask could not be used; then there are no metrics."""

    def add(self, image: TestImage, result: AnomalyResult) -> None:
        """The map and the mask of an image that could be read."""
        if self.notes:
            return
        try:
            self._masks[self._count] = load_mask(image, self.side)
        except HyperfsadError as error:
            self.notes = (no_pixel_figures(error),)
            return
        self._maps[self._count] = upsampled(result.anomaly_map[None], self.side)[0]
        self._count += 1

    def metrics(self) -> dict[str, float | None] | None:
        """P-AUROC, PRO and P-AP, from 0 to 1; None if they are not defined."""
        masks = self._masks[: self._count]
        if self.notes or not masks.any():
            return None
        found = pixel_metrics(self._maps[: self._count], masks)
        return {name: found[name] for name in EVALUATION_METRICS}
