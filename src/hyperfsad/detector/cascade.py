"""8-bit pre-screening: a fast detector judges the parts that are clearly good or clearly bad.

Both detectors have learnt the same good parts; the fast one encodes them in 8 bits. It sees what
the full one sees, so its scores mean the same: they are held against the full detector's
thresholds. How far an image reaches against them decides who judges it (`PrescreenLimits`): beyond
either limit the fast one does, between them the full one.
"""

import hashlib
import importlib.util
import itertools
import json
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..decisions.thresholds import FALSE_ALARM_RATE, Calibration
from ..encoders.encoder import Encoder, PreparedImage
from ..encoders.runtime import INT8, engine_in, precision_in
from ..errors import DetectorFileError, ImageError, UsageError
from ..evidence.evidence import Evidence
from ..evidence.hypergraph import Hypergraph
from ..images.loading import ChannelOrder, ImageSource, LoadedImage, NormalImage
from ..images.reading import Images, single_images
from ..messages import Progress, log
from ..results.result import FAST, FULL, AnomalyResult, Explainer
from . import file, pipeline
from .choices import upright
from .detector import HyperFSAD
from .protocols import Shared
from .settings import Settings, takes


class PrescreenLimits(NamedTuple):
    """How far an image reaches against the thresholds: below `low` it is clearly good, above `high`
    clearly bad. Between them the full detector must be asked."""

    low: float
    high: float

    def are_clear(self, level: float | None) -> bool:
        """Whether an image of a level lies beyond either."""
        return level is not None and not self.low <= level <= self.high


EIGHT_BITS_LIMITS = PrescreenLimits(0.96, 1.1)
"""For pre-screening in 8 bits, measured on nine products (docs/cascade.md)."""


class CascadeDetector:
    """Two detectors of one product: the full one is asked where the fast one is not sure.

    >>> detector = CascadeDetector().fit("good/")
    >>> detector.predict("part.png").judged_by
    """

    threshold_ = Shared[float | None]()
    map_threshold_ = Shared[float | None]()
    threshold_from_ = Shared[str | None]()
    calibration_ = Shared[Calibration | None]()
    support_ = Shared[tuple[NormalImage, ...]]()
    skipped_ = Shared[list[ImageError]]()
    encoder_ = Shared[Encoder]()
    min_area = Shared[float]()
    progress = Shared[Progress]()
    batch = Shared[int]()
    read_ahead = Shared[int]()
    prepare = Shared[Callable[..., PreparedImage]]()
    explain = Shared[Callable[..., Evidence]]()
    hypergraph = Shared[Callable[..., Hypergraph]]()

    @takes(Settings)
    def __init__(self, settings: Settings) -> None:
        """All that `HyperFSAD` takes but tiles, a maximum cost and a region of interest. It needs
        the extra `hyperfsad[int8]` and a CPU."""
        self.settings = settings
        self.settings.check("cascade")
        if importlib.util.find_spec("nncf") is None:  # rather than after the full detector's fit
            raise UsageError("nncf-missing")
        plain = self.settings.changed(tiles=False)
        self.full_ = HyperFSAD.of(plain)
        self.fast_ = HyperFSAD.of(plain.changed(engine=engine_in(INT8), device="cpu"))
        self.limits_ = EIGHT_BITS_LIMITS
        """Between them the full detector is asked."""

    @property
    def detectors(self) -> tuple[HyperFSAD, HyperFSAD]:
        """The full one and the fast one."""
        return self.full_, self.fast_

    def fit(
        self,
        images: Images,
        *,
        channels: ChannelOrder = "rgb",
        threshold: bool = True,
        false_alarm_rate: float = FALSE_ALARM_RATE,
    ) -> "CascadeDetector":
        """Remembers good parts twice; `threshold=False` waits for `calibrate`, without which the
        full detector judges all images."""
        first, second = itertools.tee(single_images(images, channels))
        self.full_.fit(first, threshold=threshold, false_alarm_rate=false_alarm_rate)
        rotations = self.full_.rotations_
        self.fast_.settings = self.fast_.settings.changed(rotations=rotations)
        self.fast_.fit(second, threshold=False)
        self._follow()
        return self

    def extend(
        self, images: Images, *, channels: ChannelOrder = "rgb", product: str | None = None
    ) -> "CascadeDetector":
        """Remembers more good parts in both detectors."""
        self.require_fitted()
        first, second = itertools.tee(single_images(images, channels))
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
            fast.remember(upright(fast.memory_) if fewer else fast.memory_)
        fast.threshold_, fast.map_threshold_ = full.threshold_, full.map_threshold_
        fast.calibration_ = full.calibration_

    def calibrate(
        self,
        images: "Images | None" = None,
        *,
        channels: ChannelOrder = "rgb",
        false_alarm_rate: float = FALSE_ALARM_RATE,
        keep_outliers: bool = False,
    ) -> "CascadeDetector":
        """Sets the thresholds."""
        self.require_fitted()
        self.full_.calibrate(
            images,
            channels=channels,
            false_alarm_rate=false_alarm_rate,
            keep_outliers=keep_outliers,
        )
        self._follow()
        return self

    def adapt(self, images: Images, *, channels: ChannelOrder = "rgb") -> "CascadeDetector":
        """Two encoders cannot share unlabelled parts: refused."""
        self.check("adapt")
        raise NotImplementedError

    def move_threshold(self, threshold: float) -> None:
        """Sets the threshold by hand; that of the map moves by the same factor."""
        self.full_.move_threshold(threshold)
        self._follow()

    def predict(
        self,
        image: ImageSource | LoadedImage,
        *,
        channels: ChannelOrder = "rgb",
        keep_pictures: bool = False,
    ) -> AnomalyResult:
        """Scores one image, as `HyperFSAD.predict` does."""
        self.require_fitted()
        return pipeline.predict(self, image, channels, keep_pictures)

    def predict_many(
        self, images: Images, *, channels: ChannelOrder = "rgb", keep_pictures: bool = False
    ) -> Iterator[AnomalyResult]:
        """Scores each image, as `HyperFSAD.predict_many` does."""
        self.require_fitted()
        return pipeline.predict_many(self, images, channels, keep_pictures)

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
            clear = self.limits_.are_clear(result.level)
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

    def check(self, use: str) -> None:
        """Refuses a use that does not go with its settings."""
        self.settings.check(use, fast=True)

    def require_fitted(self) -> None:
        """Refuses to answer before it has learnt a good part."""
        self.full_.require_fitted()
        self.fast_.require_fitted()

    def identity(self) -> str:
        """A hash of all that its results depend on: equal detectors, equal results."""
        parts = [self.full_.identity(), self.fast_.identity(), self.limits_]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes both into one file; `HyperFSAD.load` reads the full detector from it."""
        self.require_fitted()
        full, fast = self.full_.part(), self.fast_.part()
        fast = replace(fast, header={**fast.header, "limits": self.limits_})
        file.write_file(file.file_path(path), file.CASCADE, [full, fast])

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
        own = {**machine, "engine": "auto", "device": "cpu", "notify": log}
        detector.fast_ = HyperFSAD.restored(fast, opened.path, **own)
        detector.settings = detector.full_.settings
        detector.limits_ = PrescreenLimits(*fast.header["limits"])
        return detector

    def __repr__(self) -> str:
        return f"CascadeDetector({self.full_!r}, {self.fast_!r})"
