"""8-bit pre-screening: a fast detector judges the parts that are clearly good or clearly bad.

Both detectors have learnt the same good parts; the fast one encodes them in 8 bits. It sees what
the full one sees, so its scores mean the same: they are held against the full detector's
thresholds. How far an image reaches against them decides who judges it (`decisions.limits`): beyond
either limit the fast one does, between them the full one.
"""

import hashlib
import importlib.util
import itertools
import json
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..decisions.limits import EIGHT_BITS_LIMITS, PrescreenLimits
from ..decisions.thresholds import FALSE_ALARM_RATE, Calibration
from ..encoders.encoder import Encoder, PreparedImage
from ..encoders.runtime import INT8, engine_in, precision_in
from ..errors import DetectorFileError, ImageError, UsageError
from ..evidence.evidence import Evidence
from ..evidence.hypergraph import Hypergraph
from ..images.loading import ImageSource, LoadedImage, NormalImage
from ..images.reading import Images, check_images, single_images
from ..messages import Notify, Progress, silent
from ..results.result import FAST, FULL, AnomalyResult, Explainer
from . import file, fit, pipeline
from .detector import HyperFSAD
from .settings import Settings


class CascadeDetector:
    """Two detectors of one product: the full one is asked where the fast one is not sure.

    >>> detector = CascadeDetector().fit("good/")
    >>> detector.predict("part.png").judged_by
    """

    def __init__(
        self,
        backbone: str | None = None,
        *,
        settings: Settings | None = None,
        notify: Notify = silent,
        **choices: Any,
    ) -> None:
        """All that `HyperFSAD` takes but tiles, a maximum cost and a region of interest. It needs
        the extra `hyperfsad[int8]` and a CPU."""
        self.settings = settings or Settings(backbone=backbone, **choices)  # type: ignore[arg-type]
        self.settings.check("cascade")
        if importlib.util.find_spec("nncf") is None:  # rather than after the full detector's fit
            raise UsageError("nncf-missing")
        plain = self.settings.changed(tiles=False)
        self.full_ = HyperFSAD(settings=plain, notify=notify)
        self.fast_ = HyperFSAD(settings=plain.changed(engine=engine_in(INT8), device="cpu"))
        self.limits_ = EIGHT_BITS_LIMITS
        """Between them the full detector is asked."""

    def fit(
        self, images: Images, *, threshold: bool = True, false_alarm_rate: float = FALSE_ALARM_RATE
    ) -> "CascadeDetector":
        """Remembers good parts twice; `threshold=False` waits for `calibrate`, without which the
        full detector judges all images."""
        check_images(images)
        first, second = itertools.tee(single_images(images))
        self.full_.fit(first, threshold=threshold, false_alarm_rate=false_alarm_rate)
        rotations = self.full_.rotations_
        self.fast_.settings = self.fast_.settings.changed(rotations=rotations)
        self.fast_.fit(second, threshold=False)
        self._follow()
        return self

    def extend(self, images: Images, *, product: str | None = None) -> "CascadeDetector":
        """Remembers more good parts in both detectors."""
        self.require_fitted()
        check_images(images)
        first, second = itertools.tee(single_images(images))
        self.full_.extend(first, product=product)
        fast = self.fast_
        fast.tentative_, fast.calibration_ = False, None  # the full one decides
        fast.extend(second)
        self._follow()
        return self

    def _follow(self) -> None:
        """The fast detector takes over orientations and thresholds from the full one."""
        full, fast = self.full_, self.fast_
        fewer = full.rotations_ < fast.rotations_
        if fewer or fast.tentative_ != full.tentative_:
            fast.rotations_, fast.tentative_ = full.rotations_, full.tentative_
            fast.remember(fit.upright(fast.memory_) if fewer else fast.memory_)
        fast.threshold_, fast.map_threshold_ = full.threshold_, full.map_threshold_
        fast.calibration_ = full.calibration_

    def calibrate(
        self,
        images: "Images | None" = None,
        *,
        false_alarm_rate: float = FALSE_ALARM_RATE,
        keep_outliers: bool = False,
    ) -> "CascadeDetector":
        """Sets the thresholds."""
        self.require_fitted()
        self.full_.calibrate(images, false_alarm_rate=false_alarm_rate, keep_outliers=keep_outliers)
        self._follow()
        return self

    def move_threshold(self, threshold: float) -> None:
        """Sets the threshold by hand; that of the map moves by the same factor."""
        self.full_.move_threshold(threshold)
        self._follow()

    def predict(self, images: Any, *, keep_pictures: bool = False) -> Any:
        """Scores one image, or lazily each of several, as `HyperFSAD.predict` does."""
        self.require_fitted()
        return pipeline.predict(self, images, keep_pictures)

    @property
    def batch(self) -> int:
        """Images that are encoded at once."""
        return self.full_.batch

    @property
    def read_ahead(self) -> int:
        """Images that are read before they are asked for."""
        return self.full_.read_ahead

    def prepare(
        self, source: ImageSource | LoadedImage, keep_picture: bool = False
    ) -> PreparedImage:
        """Reads an image as both encoders take it."""
        return self.full_.prepare(source, keep_picture)

    def judge(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        """The results of a few images: of the fast detector where it is sure."""
        clear = dict(enumerate(self._clear(images)))
        unclear = [place for place, result in clear.items() if result is None]
        found = {place: result for place, result in clear.items() if result is not None}
        if unclear:
            results = self.full_.judge([images[place] for place in unclear])
            full = [replace(result, judged_by=FULL) for result in results]
            found |= dict(zip(unclear, full, strict=True))
        return [found[place] for place in range(len(images))]

    def _clear(self, images: Sequence[PreparedImage]) -> list[AnomalyResult | None]:
        """What the fast detector says; None where the full one must be asked."""
        if not self.full_.threshold_ or not self.full_.map_threshold_:
            return [None] * len(images)
        levels = replace(self.full_.levels(), foreign=self.fast_.foreign_)
        results: list[AnomalyResult | None] = []
        for image, scored in zip(images, self.fast_.score_images(images), strict=True):
            link: weakref.ref[Explainer] = weakref.ref(self.fast_)
            result = levels.result(
                image.name, image.size, image.source, image.picture, scored, link
            )
            clear = self.limits_.are_clear(result.strength)
            results.append(replace(result, judged_by=FAST) if clear else None)
        return results

    @property
    def described(self) -> list[str]:
        """What it holds beside good parts and thresholds, in a few words each."""
        limits = self.limits_
        precision = precision_in(self.fast_.encoder_.fingerprint)
        words = f"{precision} pre-screening, full precision from {limits.low:g} to {limits.high:g}"
        return [*self.full_.described, f"{words} of the threshold"]

    @property
    def products_(self) -> Mapping[str, "CascadeDetector"]:
        """The detector of its one product, which has no name."""
        return {"": self}

    @property
    def encoder_(self) -> Encoder:
        """The encoder of the full detector, loaded when it is first needed."""
        return self.full_.encoder_

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
        """Images of the last `fit`, `extend` or `calibrate` that could not be read."""
        return self.full_.skipped_

    @property
    def min_area(self) -> float:
        """Regions of fewer pixels of the image are left out."""
        return self.full_.min_area

    @min_area.setter
    def min_area(self, pixels: float) -> None:
        self.full_.min_area = pixels

    @property
    def progress(self) -> Progress:
        """How long work on images shows how far it is."""
        return self.full_.progress

    @progress.setter
    def progress(self, shown: Progress) -> None:
        self.full_.progress = shown

    def check(self, use: str) -> None:
        """Refuses a use that does not go with its settings."""
        self.settings.check(use, fast=True)

    def require_fitted(self) -> None:
        """Refuses to answer before it has learnt a good part."""
        self.full_.require_fitted()
        self.fast_.require_fitted()

    def explain(
        self, image: ImageSource | LoadedImage, x: float | None = None, y: float | None = None
    ) -> Evidence:
        """Which normal patches rebuilt the patch at x, y of an image, for the full detector."""
        return self.full_.explain(image, x, y)

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
        fast = self.fast_.part()
        own = replace(fast, header={**fast.header, "limits": self.limits_.to_list()})
        file.write_cascade(file.file_path(path), self.full_.part(), own)

    @classmethod
    def load(
        cls, path: "str | os.PathLike[str] | file.DetectorFile", **machine: Any
    ) -> "CascadeDetector":
        """Reads a file of two detectors; safe with files from strangers.

        `backbone`, `device`, `engine`, `batch_size` and `notify` as in `HyperFSAD.load`.
        """
        opened = file.open_file(path)
        if opened.holds != file.CASCADE:
            raise DetectorFileError("file-not-cascade", path=opened.path, holds=opened.holds)
        full, fast = opened.parts()
        detector = cls.__new__(cls)
        detector.full_ = HyperFSAD.restored(full, opened.path, **machine)
        own = {**machine, "engine": "auto", "device": "cpu", "notify": silent}
        detector.fast_ = HyperFSAD.restored(fast, opened.path, **own)
        detector.settings = detector.full_.settings
        detector.limits_ = PrescreenLimits.from_list(fast.header["limits"])
        return detector

    def __repr__(self) -> str:
        return f"CascadeDetector({self.full_!r}, {self.fast_!r})"
