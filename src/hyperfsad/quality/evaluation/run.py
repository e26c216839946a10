"""Judges parts whose truth is known, one after the other, in bounded memory."""

import os
from pathlib import Path

from ...detector.cascade import CascadeDetector
from ...detector.hyperfsad import HyperFSAD
from ...detector.products import ProductDetector
from ...errors import ImageError, UsageError
from ...images.loading import NormalImage
from ...messages import Progress, no_progress
from ...results.result import AnomalyResult
from ..test_set import PathLike, Places, TestSet
from .evaluation import Evaluation
from .findings import Judge, left_out
from .inspected import Inspected, WorstErrors
from .pixels import PixelFigures


def evaluate(
    detector: HyperFSAD | ProductDetector | CascadeDetector,
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
    and `bad` parts; one of these may be left out; or a `test_set`. `file` is
    how commands in the results name the detector. Images in the folder `output` are results and not
    parts, so they are left out.
    """
    detector.require_fitted()
    if (tree is not None) + bool(good or bad) + (test_set is not None) != 1:
        raise UsageError("test-set-choice")
    judge = _judge(detector, os.fspath(file))
    if test_set is None:
        test_set = TestSet.from_folders(good, bad) if tree is None else TestSet.from_tree(tree)
    if output is not None:
        test_set = test_set.outside(Path(output))
    return _Run(detector, test_set).evaluation(judge, progress)


class _Run:
    """One pass over the images; pictures are kept of the worst errors only."""

    def __init__(
        self, detector: HyperFSAD | ProductDetector | CascadeDetector, test_set: TestSet
    ) -> None:
        self._detector, self._test_set = detector, test_set
        self._known = _Known(detector.support_)
        self._pixels = PixelFigures(len(test_set.images)) if test_set.has_masks else None

    def evaluation(self, judge: Judge, progress: Progress) -> Evaluation:
        """Judges all images."""
        inspected: list[Inspected] = []
        learnt: list[str] = []
        worst = WorstErrors()
        paths = [image.path for image in self._test_set.images]
        results = self._detector.predict(paths, keep_pictures=True)
        images = progress(self._test_set.images, "evaluating")
        for known, result in zip(images, results, strict=True):
            if not known.anomalous and self._known.holds(result):
                learnt.append(known.path)
                continue
            one = Inspected.of(known, result)
            inspected.append(one)
            if one.error is not None:
                continue
            worst.add(one, result)
            if self._pixels is not None:
                self._pixels.add(known, result)
        if not inspected:
            raise UsageError(f"{left_out(tuple(learnt))} There is no other image; give some.")
        return Evaluation(
            judge,
            tuple(inspected),
            tuple(learnt),
            worst.missed,
            worst.alarms,
            *self._of_pixels(),
            self._notes(),
            self._test_set.complete,
        )

    def _of_pixels(self) -> tuple[dict[str, float | None] | None, int | None]:
        found = None if self._pixels is None else self._pixels.metrics()
        return found, self._pixels.side if self._pixels is not None and found else None

    def _notes(self) -> tuple[str, ...]:
        problem = None if self._pixels is None else self._pixels.problem
        told = (f"Verdicts are evaluated, but not places: {problem}",) if problem else ()
        return self._test_set.notes + told


class _Known:
    """The pictures that a detector has learnt; the same pixels are the same picture."""

    def __init__(self, support: tuple[NormalImage, ...]) -> None:
        self._hashes = {image.sha256 for image in support}
        self._sizes = {image.size for image in support}

    def holds(self, result: AnomalyResult) -> bool:
        """Whether an image was learnt; only pictures of a known size have to be hashed."""
        if result.error is not None or not {result.size, None} & self._sizes:
            return False
        try:
            return result.loaded().sha256() in self._hashes
        except ImageError:  # gone since it was judged
            return False


def _judge(detector: HyperFSAD | ProductDetector | CascadeDetector, file: str) -> Judge:
    products = detector.products_ if isinstance(detector, ProductDetector) else {"": detector}
    for name, one in products.items():
        if one.threshold_ is not None and one.threshold_ <= 0:
            of = f" of {name}" if name else ""
            raise UsageError(
                f"The threshold{of} is {one.threshold_:g}, which is not above 0; set another with"
                " `hyperfsad calibrate`."
            )
    if isinstance(detector, ProductDetector):
        return Judge(file, None, products=tuple(products))
    level = None if detector.threshold_ is None else detector.map_threshold_
    return Judge(file, detector.threshold_, level or None, detector.threshold_from_)
