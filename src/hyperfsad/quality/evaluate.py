"""How good the verdicts of a detector are on parts whose truth is known, in bounded memory.

>>> from hyperfsad.quality.evaluate import evaluate
>>> evaluation = evaluate(detector, good="good/", bad="bad/")
>>> evaluation.confusion.balanced_accuracy, evaluation.auroc["score"]
"""

import os
from collections.abc import Sequence
from pathlib import Path

from ..detector.protocols import Detector
from ..errors import ImageError, UsageError
from ..images.loading import NormalImage
from ..messages import Progress, no_progress
from ..results.result import AnomalyResult
from .evaluated_images import EvaluatedImage, PixelComparison, WorstErrors
from .evaluation import EvaluatedDetector, Evaluation
from .test_set import PathLike, Places, TestSet


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
    evaluated_detector = _describe(detector, os.fspath(file))
    if test_set is None:
        test_set = TestSet.from_folders(good, bad) if tree is None else TestSet.from_tree(tree)
    if output is not None:
        test_set = test_set.outside(Path(output))
    pixels = PixelComparison(len(test_set.images)) if test_set.has_masks else None
    worst = WorstErrors()
    evaluated: list[EvaluatedImage] = []
    learnt: list[str] = []
    results = detector.predict([image.source for image in test_set.images], keep_pictures=True)
    for image, result in zip(progress(test_set.images, "evaluating"), results, strict=True):
        if not image.anomalous and _is_learnt(result, detector.support_):
            learnt.append(result.image)
            continue
        one = EvaluatedImage.of(image, result)
        evaluated.append(one)
        if one.error is None:
            worst.add(one, result)
            if pixels is not None:
                pixels.add(image, result)
    if not evaluated:
        raise UsageError("only-learnt-parts", images=learnt)
    metrics = None if pixels is None else pixels.metrics()
    return Evaluation(
        evaluated_detector,
        tuple(evaluated),
        tuple(learnt),
        worst.missed(),
        worst.false_alarms(),
        metrics,
        pixels.side if pixels is not None and metrics else None,
        test_set.notes + (() if pixels is None else pixels.notes),
        test_set.complete,
    )


def _is_learnt(result: AnomalyResult, support: Sequence[NormalImage]) -> bool:
    """Whether the detector has learnt this very picture; only those of a known size are hashed."""
    if result.error is not None or not any(known.size in (result.size, None) for known in support):
        return False
    try:
        return result.loaded().sha256() in {known.sha256 for known in support}
    except ImageError:  # gone since it was judged
        return False


def _describe(detector: Detector, file: str) -> EvaluatedDetector:
    products = detector.products_
    for name, one in products.items():
        if one.threshold_ is not None and one.threshold_ <= 0:
            raise UsageError("threshold-not-positive", given=one.threshold_, product=name)
    if "" not in products:
        return EvaluatedDetector(file, None, products=tuple(products))
    map_threshold = detector.map_threshold_ if detector.threshold_ is not None else None
    return EvaluatedDetector(
        file, detector.threshold_, map_threshold or None, detector.threshold_from_
    )
