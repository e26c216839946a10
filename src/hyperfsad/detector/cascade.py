"""A fast detector before the full one: it judges parts that are clearly good or clearly bad.

Both have learnt the same good parts; the fast one encodes them in 8 bits, or looks at them with
fewer pixels (`looks`). How far an image reaches against the thresholds decides who judges it
(`decisions.limits`): beyond either limit the fast one does, between them the full one. Whoever
looked, scores and maps are in the units of the full detector, so that one threshold holds for all
images of a run.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..decisions.limits import Limits
from ..decisions.roi import Roi
from ..decisions.thresholds import FALSE_ALARM_RATE, Calibration
from ..encoders.encoder import Encoder, PreparedImage, prepare, prepared
from ..encoders.runtime import INT8, precision_in
from ..errors import ImageError, UsageError
from ..evidence.evidence import Evidence
from ..evidence.hypergraph import Hypergraph
from ..images.loading import ImageSource, LoadedImage, NormalImage
from ..images.reading import Images, check_images, single_images
from ..messages import Progress, silent
from ..method.coreset import COMPACT
from ..results.result import FAST, FULL, AnomalyResult, Explainer
from . import storage
from .checks import file_path
from .hyperfsad import HyperFSAD
from .looks import Look, find_look, look_between
from .predictor import Predictor
from .quantised import tensors_of
from .units import FastExplainer, Units


@dataclass(frozen=True)
class TwicePrepared(PreparedImage):
    """An image as both encoders take it."""

    for_fast: NDArray[np.float32] | None = None
    """The fast encoder's input."""

    def fast(self) -> PreparedImage:
        """The image as the fast detector takes it."""
        assert self.for_fast is not None
        return PreparedImage(self.source, self.name, self.size, self.for_fast, self.picture)


class CascadeDetector(Predictor):
    """Two detectors of one product: the full one is asked where the fast one is not sure.

    >>> detector = CascadeDetector().fit("good/")
    >>> detector.predict("part.png").looked
    """

    limits_: Limits
    """Between them the full detector is asked; there after `fit` or `load`."""

    def __init__(self, backbone: str | None = None, *, fast: str = "int8", **settings: Any) -> None:
        """All that `HyperFSAD` takes but tiles, a budget and a region of interest.

        `fast` is how it looks first: `int8` encodes in 8 bits (it needs the extra
        `hyperfsad[int8]` and a CPU), `half` looks with half as many pixels along a side.
        """
        look = find_look(fast)
        full = HyperFSAD(backbone, **settings)
        _refuse(full)
        full.keep_plain()
        own = HyperFSAD(backbone, **{**settings, **look.settings(full), "notify": silent})
        own.keep_plain()
        self._begin(full, own, look)

    def _begin(self, full: HyperFSAD, fast: HyperFSAD, look: Look) -> None:
        self.full_, self.fast_, self._look = full, fast, look
        self.settings, self.batch_size = full.settings, full.batch_size
        self._explainer: Explainer = FastExplainer(self)

    def fit(
        self, images: Images, *, threshold: bool = True, false_alarm_rate: float = FALSE_ALARM_RATE
    ) -> "CascadeDetector":
        """Remembers good parts twice, and sets the limits; `threshold=False` waits for `calibrate`,
        without which the full detector judges all images."""
        check_images(images)
        first, second = itertools.tee(single_images(images))
        self.full_.fit(first, threshold=threshold, false_alarm_rate=false_alarm_rate)
        self._look.fit(self.fast_, self.full_, second)
        self.limits_ = self._look.limits
        return self

    def extend(self, images: Images) -> "CascadeDetector":
        """Remembers more good parts in both detectors."""
        self.require_fitted()
        check_images(images)
        first, second = itertools.tee(single_images(images))
        self.full_.extend(first)
        self._look.extend(self.fast_, self.full_, second)
        return self

    def calibrate(
        self,
        images: "Images | None" = None,
        *,
        false_alarm_rate: float = FALSE_ALARM_RATE,
        keep_odd: bool = False,
    ) -> "CascadeDetector":
        """Sets the thresholds."""
        self.require_fitted()
        parts: list[Images | None] = [None, None]
        if images is not None:
            check_images(images)
            parts = list(itertools.tee(single_images(images)))
        self.full_.calibrate(parts[0], false_alarm_rate=false_alarm_rate, keep_odd=keep_odd)
        self._look.calibrate(self.fast_, self.full_, parts[1], keep_odd)
        return self

    def move_threshold(self, threshold: float) -> None:
        """Sets the threshold by hand; all others move by the same factor."""
        before = self.full_.threshold_
        if before is None or self.fast_.threshold_ is None:
            raise UsageError("There is no threshold to move yet; calibrate the detector first.")
        own = self.fast_.threshold_ * threshold / before
        self.full_.move_threshold(threshold)
        self.fast_.move_threshold(own)

    @property
    def described(self) -> str:
        """What looks first, and when the full detector is asked; for a row of text."""
        fast, limits = self.fast_, self.limits_
        kind = f"{fast.settings.resolution} px, {precision_in(fast.encoder_.fingerprint)}"
        return (
            f"fast look {kind}; asked again from {limits.low:g} to {limits.high:g} of the threshold"
        )

    @property
    def encoder_(self) -> Encoder:
        """The encoder of the full detector, loaded when it is first needed."""
        return self.full_.encoder_

    def require_fitted(self) -> None:
        """Refuses to answer before it has learnt a good part."""
        self.full_.require_fitted()
        self.fast_.require_fitted()

    def _prepared(
        self, source: ImageSource | LoadedImage, keep_picture: bool = False
    ) -> TwicePrepared:
        full, fast = self.full_, self.fast_
        found = prepared(
            source, full.settings, full.view_.visible, keep_picture=keep_picture, keep_whole=True
        )
        assert found.whole is not None
        pixels = found.pixels
        if fast.settings.resolution != full.settings.resolution:
            pixels = prepare(fast.view_.visible(found.whole), fast.settings)
        own = {each.name: getattr(found, each.name) for each in fields(PreparedImage)}
        return TwicePrepared(**{**own, "whole": None}, for_fast=pixels)

    def _results(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        asked: list[PreparedImage] = []
        found: list[AnomalyResult | None] = []
        for image, first in zip(images, self._first_looks(images), strict=True):
            found.append(first)
            if first is None:
                asked.append(image)
        second = iter(self._second_looks(asked))
        return [next(second) if first is None else first for first in found]

    def _first_looks(self, images: Sequence[PreparedImage]) -> list[AnomalyResult | None]:
        """What the fast detector says; None where the full one must be asked."""
        units = self.units()
        if units is None:
            return [None] * len(images)
        small = [image.fast() for image in images if isinstance(image, TwicePrepared)]
        results = []
        for image, scored in zip(images, self.fast_.score_images(small), strict=True):
            result = units.result(image, scored, self._explainer)
            clear = self.limits_.are_clear(result.strength)
            results.append(replace(result, looked=FAST) if clear else None)
        return results

    def _second_looks(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        if not images:
            return []
        scores = self.full_.score_images(images)
        return [
            replace(self.full_.result(image, scored), looked=FULL)
            for image, scored in zip(images, scores, strict=True)
        ]

    def units(self) -> Units | None:
        """How scores of the fast detector are read; None where there are no thresholds."""
        return Units.between(self.full_, self.fast_)

    @property
    def threshold_(self) -> float | None:
        """The threshold of the score."""
        return self.full_.threshold_

    @property
    def map_threshold_(self) -> float | None:
        """The threshold of the map."""
        return self.full_.map_threshold_

    @property
    def threshold_from_(self) -> str | None:
        """How the threshold came about, in a few words."""
        return self.full_.threshold_from_

    @property
    def calibration_(self) -> Calibration | None:
        """How the thresholds came about."""
        return self.full_.calibration_

    @property
    def support_(self) -> tuple[NormalImage, ...]:
        """The normal images."""
        return self.full_.support_

    @property
    def skipped_(self) -> list[ImageError]:
        """Normal images of the last `fit` or `extend` that could not be read."""
        return self.full_.skipped_

    @property
    def rotations_(self) -> int:
        """In how many orientations each normal image is remembered."""
        return self.full_.rotations_

    @property
    def roi_(self) -> Roi | None:
        """There is none."""
        return None

    @property
    def min_area(self) -> float:
        """Regions of fewer pixels of the image are left out."""
        return self.full_.min_area

    @min_area.setter
    def min_area(self, pixels: float) -> None:
        self.full_.min_area = self.fast_.min_area = pixels

    @property
    def progress(self) -> Progress:
        """How long work on images shows how far it is."""
        return self.full_.progress

    @progress.setter
    def progress(self, shown: Progress) -> None:
        self.full_.progress = shown

    def evidence(
        self, image: ImageSource | LoadedImage, x: float | None = None, y: float | None = None
    ) -> Evidence:
        """Which normal patches rebuilt the patch at x, y of an image, for the full detector."""
        return self.full_.evidence(image, x, y)

    def hypergraph(self, image: ImageSource | LoadedImage, layer: int | None = None) -> Hypergraph:
        """Which normal patches rebuild which patches of an image, for the full detector."""
        return self.full_.hypergraph(image, layer)

    def identity(self) -> str:
        """A hash of all that its results depend on: equal detectors, equal results."""
        parts = [self.full_.identity(), self.fast_.identity(), self.limits_.to_list()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes both into one file; `HyperFSAD.load` reads the full detector from it."""
        self.require_fitted()
        full, fast = self.full_, self.fast_
        own = {**fast.header(), "limits": self.limits_.to_list()}
        first = fast.memory_, own, tensors_of(fast.quantised_)
        storage.write_cascade(file_path(path), full.memory_, full.header(), full.view_, first)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, backbone: str | None = None, **machine: Any
    ) -> "CascadeDetector":
        """Reads a file of two detectors; safe with files from strangers.

        `backbone`, `device`, `engine`, `batch_size` and `notify` as in `HyperFSAD.load`.
        """
        (bank, header), (own, fast_header) = storage.read_cascade(file_path(path))
        name = os.fspath(path)
        full = HyperFSAD.restored(bank, header, name, backbone=backbone, **machine)
        if precision_in(fast_header["encoder"]["fingerprint"]) == INT8:
            machine = {**machine, "engine": "auto", "device": "cpu"}
        fast = HyperFSAD.restored(
            own, fast_header, name, backbone=backbone, prefix=storage.FAST, **machine
        )
        fast.notify = silent
        detector = cls.__new__(cls)
        detector._begin(full, fast, look_between(full, fast))
        detector.limits_ = Limits.from_list(fast_header["limits"])
        return detector

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled or copied: both detectors; each knows how."""
        return {name: value for name, value in self.__dict__.items() if name != "_explainer"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._explainer = FastExplainer(self)

    def __repr__(self) -> str:
        return f"CascadeDetector({self.full_!r}, {self.fast_!r})"


def _refuse(full: HyperFSAD) -> None:
    """Refuses what a cascade cannot have."""
    if full.tile_side is not None or full.budget is not None:
        raise UsageError(
            "A fast look sees whole pictures, and tiles are there to see more; leave --fast or"
            " --fast-half out, or --tiles and --budget."
        )
    if full.memory == COMPACT:
        raise UsageError(
            "A fast look and a compact memory are two ways to the same end; leave --memory compact"
            " out, or --fast or --fast-half."
        )
    if full.roi is not None:
        raise UsageError(
            "A fast look knows no region of interest; leave --roi out, or --fast or --fast-half."
        )
