"""HyperFSAD: the only class most users meet. Show it good parts, then ask about others."""

import hashlib
import json
import math
import os
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import to_numpy
from ..decisions.defects import TaughtDefects, defect_name
from ..decisions.line import from_line
from ..decisions.roi import RegionOfInterest, make_region
from ..decisions.routing import foreign_distance, strangers
from ..decisions.thresholds import (
    FALSE_ALARM_RATE,
    Calibration,
    LeaveOneOut,
    check_rate,
    from_support,
    level_of,
)
from ..encoders import EncoderSettings
from ..encoders.encoder import Encoder, PreparedImage, Tokens, prepared
from ..errors import DetectorFileError, ImageError, NotFiniteError, UsageError
from ..evidence.evidence import Evidence
from ..evidence.hypergraph import Hypergraph
from ..images.loading import (
    ChannelOrder,
    ImageSource,
    LoadedImage,
    NormalImage,
    fitting_memory,
    load_image,
)
from ..images.reading import Images, distinct_images, is_one_image, single_images
from ..messages import Notice, Notify, Progress, log, no_progress
from ..method.coreset import Coreset, compact_count, cover
from ..method.memory import MemoryBank
from ..method.scoring import TokenScore
from ..results.result import AnomalyResult
from ..views import View
from . import adapting, file, habits, pipeline
from .calibration import (
    anomalous_before,
    calibrate_from,
    notify_about_foreign,
    notify_about_learnt,
    notify_about_support,
)
from .choices import choose_rotations, upright
from .encoding import (
    EncodedMemory,
    Orientations,
    batch_of,
    make_view,
    orientations_of,
    place_of,
    read_ahead_of,
)
from .fit import Learner, SupportReader
from .pipeline import Levels
from .settings import COMPACT, Machine, Settings, find_recipe, takes
from .teaching import taught

if TYPE_CHECKING:
    from typing_extensions import Unpack  # type checkers know it without the package

SCORING = ("lookup", "pooling", "lam", "sharpness", "smooth", "missing")
"""Choices on which scores depend, beside what `fit` has learnt."""
LEARNT = ("rotations", "tentative", "threshold", "map_threshold", "foreign")
"""What `fit` learns and a file keeps as it is."""


class HyperFSAD:
    """Few-shot anomaly detector: frozen tokens, sparse reconstruction, two branches.

    detector = HyperFSAD().fit("good/")
    detector.predict("part.png").score
    """

    rotations_: int
    """In how many orientations each normal image is remembered."""
    tile_side_: int | None
    """Of a tile in pixels of the image; None: images are seen as a whole."""
    tentative_ = False
    """Whether rotated copies count only for images that they fit clearly better."""
    core_: Coreset | None = None
    """What a compact memory compares with; None means all."""
    calibration_: Calibration | None = None
    """How the thresholds came about; None where they were set by hand, or there are none."""
    threshold_: float | None = None
    map_threshold_: float | None = None
    """Above it a place of the map counts as a defect; without it results have no regions."""
    unlabelled_: MemoryBank | None = None
    """Unlabelled parts of the line, their patches in float16; None: it has learnt from none."""
    defects_ = TaughtDefects()
    """Defects that it can name, and examples of each."""
    foreign_: float | None = None
    """Beyond this distance of CLS tokens an image looks like another product."""
    min_area = 0.0
    """Regions of fewer pixels of the image are left out."""
    _region: RegionOfInterest
    _view: View | None = None
    _seen: MemoryBank | None = None
    """The memory bank that the view knows."""
    _usual_peak: float | None = None
    """The threshold of the map that the normal images alone suggest."""

    @takes(Settings)
    def __init__(self, settings: Settings) -> None:
        """Takes the choices of `Settings` by name; `recipe` sets every choice that is not given."""
        self._begin(settings)

    @classmethod
    def of(cls, settings: Settings, notify: Notify = log) -> "HyperFSAD":
        """One with choices that were made already; `notify` takes messages."""
        detector = cls.__new__(cls)
        detector._begin(settings, notify)
        return detector

    def _begin(self, settings: Settings, notify: Notify = log) -> None:
        if not callable(notify):
            raise UsageError("notify-not-callable", given=type(notify).__name__)
        self.settings = settings
        self.notify = notify
        self.progress: Progress = no_progress
        """How long work on images shows how far it is; commands have a bar."""
        self.skipped_: list[ImageError] = []
        """Images of the last `fit`, `extend` or `calibrate` that could not be read."""
        machine = {name: getattr(self.settings, name) for name in ("device", "engine", "precision")}
        self._memory = EncodedMemory(self.settings.encoding, **machine, notify=notify)
        self.tile_side_, self.rotations_ = self.settings.tile_side, self.settings.first_rotations
        self._region = make_region(self.settings.roi, None, self.encoding_.grid)

    @property
    def memory_(self) -> MemoryBank:
        """The memory bank; there after `fit` or `load`."""
        return self._memory.known

    @property
    def encoding_(self) -> EncoderSettings:
        """How images are encoded; `fit` may have chosen another resolution than is usual."""
        return self._memory.settings

    @property
    def encoder_(self) -> Encoder:
        """The encoder, loaded when it is first needed, and again where a fork has broken it."""
        return self._memory.encoder

    def use_encoder(self, encoder: Encoder) -> bool:
        """Takes an encoder that was loaded elsewhere, with the same settings; says if it is new."""
        return self._memory.use(encoder)

    @property
    def view_(self) -> View:
        """How images are seen; after `fit` it knows the memory bank, where the encoder has it."""
        bank = self._memory.bank
        if self._view is None or bank is not self._seen:
            how = self.tile_side_, self.rotations_, self.tentative_, self._region
            view = make_view(self.settings, self.encoding_, *how)
            if bank is not None:
                view = view.fitted(bank)
            if bank is not None and self.core_ is not None:
                view = view.compacted(self.core_.kept)
            if bank is not None and self.unlabelled_ is not None:
                view = view.adapted(self.unlabelled_.to(place_of(bank)))
            if self.defects_.examples:
                view = view.signing()
            self._view, self._seen = view, bank
        return self._view

    @property
    def support_(self) -> tuple[NormalImage, ...]:
        """The normal images."""
        return self.memory_.normal_images

    @property
    def products_(self) -> Mapping[str, "HyperFSAD"]:
        """The detector of its one product, which has no name."""
        return {"": self}

    @property
    def described(self) -> list[str]:
        """What it holds beside good parts and thresholds, in a few words each."""
        found = []
        if self.rotations_ > 1:
            each = "each " if len(self.support_) > 1 else ""
            found.append(f"{each}in {self.rotations_} orientations")
        if (share := self.view_.region.share) is not None:  # a wrong mask shows here first
            found.append(f"region of interest {100 * share:.0f} % of the picture")
        if self.core_ is not None:
            kept = self.core_.kept
            found.append(f"compared with {int(kept.sum()):,} of {len(kept):,} patches")
        if self.unlabelled_ is not None:
            found.append(f"{len(self.unlabelled_)} unlabelled parts")
        if self.defects_.examples:
            named = ", ".join(f"{name} ({n})" for name, n in self.defects_.counts.items())
            found.append(f"examples of defects: {named}")
        return found

    def check(self, use: str) -> None:
        """Refuses a use that does not go with its settings, or with what `fit` chose."""
        learnt = {"adapted": self.unlabelled_ is not None, "taught": bool(self.defects_.examples)}
        self.settings.check(use, tiles=self.tile_side_, **learnt)

    def require_fitted(self) -> None:
        """Refuses to answer before it has learnt a good part."""
        self.memory_  # noqa: B018 (which raises)

    def fit(
        self,
        images: Images,
        *,
        channels: ChannelOrder = "rgb",
        threshold: bool = True,
        false_alarm_rate: float = FALSE_ALARM_RATE,
    ) -> "HyperFSAD":
        """Remembers good parts: a folder, a glob, or any iterable of what `predict` takes.

        Then it estimates the thresholds from them alone, by leaving each out in turn;
        `threshold=False` leaves that out. Arrays of OpenCV need `channels="bgr"`, as in `predict`.
        """
        check_rate(false_alarm_rate)
        images = single_images(images, channels)
        self._memory.bank, self.unlabelled_, self._view = None, None, None
        self.defects_ = TaughtDefects()
        learner = Learner(self.settings, self._memory, self.notify)
        try:
            bank = learner.learn(images)
        finally:
            self.tile_side_, self._region, self._view = learner.tile_side, learner.region, None
            self.rotations_, self.tentative_ = learner.rotations, learner.tentative
            self.skipped_ = learner.skipped
        self.remember(bank)
        if (note := self.view_.region.note) is not None:
            self.notify(note)
        self._set_thresholds(None)
        self._find_foreign_distance()
        if threshold:
            self.calibrate(false_alarm_rate=false_alarm_rate)
        return self._compacted()

    def extend(
        self, images: Images, *, channels: ChannelOrder = "rgb", product: str | None = None
    ) -> "HyperFSAD":
        """Remembers more good parts; the same as fitting on all of them at once.

        What `auto` chose for `rotations` stays, unless it had one good part alone to choose from.
        Thresholds that came from the normal images are estimated again; those from further good
        parts are marked as stale.
        """
        if product is not None:
            self.check("product")
        self.require_fitted()
        images = single_images(images, channels)
        encoder = self.encoder_  # first: the memory follows it to its device
        memory, view, calibration = self.memory_, self.view_, self.calibration_
        half = find_recipe(self.settings.recipe).half_tokens
        reader = SupportReader(view, encoder, self.settings.batch_size, half=half)
        self.skipped_ = reader.skipped
        banks = reader.banks(images, memory.images, self._orientations)
        if not banks:
            return self
        self.remember(MemoryBank.joined([memory, *banks]))
        if self.threshold_ is not None:
            parts = anomalous_before(view, self.memory_, self._level)
            if parts:
                self.notify(Notice("good-parts-were-anomalous", parts=parts))
        if self.foreign_ is not None:
            foreign = strangers(memory, self.memory_, self.foreign_)
            notify_about_foreign([image.name for image in foreign], self.notify)
        if self.tentative_:  # there is more to tell it from
            choice, bank = choose_rotations(self.memory_), self.memory_
            self.rotations_, self.tentative_ = choice.rotations, choice.tentative
            if choice.notice is not None:
                self.notify(choice.notice)
            self.remember(bank if choice.rotations > 1 else upright(bank))
        return self._relearnt(calibration)

    def forget(self, hashes: Collection[str]) -> "HyperFSAD":
        """Forgets good parts, given by the hashes of their pixels (`support_`), as if they had
        never been learnt. What `auto` chose for `rotations` stays.

        Thresholds follow as in `extend`.
        """
        images = self.memory_.images
        gone = [place for place, image in enumerate(images) if image.sha256 in hashes]
        if not gone:
            raise UsageError("forget-unknown")
        if len(gone) == len(images):
            raise UsageError("forget-all")
        calibration = self.calibration_
        self.remember(self.memory_.without(*gone))
        return self._relearnt(calibration)

    def _relearnt(self, calibration: Calibration | None) -> "HyperFSAD":
        """After the memory has changed: an estimate is made again, a calibration is stale, and what
        was set by hand stays."""
        self._find_foreign_distance()
        if calibration is not None and calibration.threshold == self.threshold_:
            if calibration.method in ("support", "line"):
                self.calibrate(false_alarm_rate=calibration.rate)
            else:
                self.calibration_ = calibration.outdated()
        return self._compacted()

    def remember(self, bank: MemoryBank, core: Coreset | None = None) -> "HyperFSAD":
        """Takes a memory bank that was made elsewhere with the same encoder and settings."""
        self._memory.keep(bank)
        self.core_, self._view, self._usual_peak = core, None, None
        return self

    def _compacted(self) -> "HyperFSAD":
        """Chooses what a compact memory compares with; thresholds come from all of it."""
        if self.settings.memory == COMPACT:
            patches = self.memory_.patches
            self.core_ = cover(patches, compact_count(len(patches[0])))
            self._view = None
        return self

    @property
    def _orientations(self) -> Orientations:
        return orientations_of(self.encoding_, self.rotations_)

    def calibrate(
        self,
        images: "Images | None" = None,
        *,
        channels: ChannelOrder = "rgb",
        false_alarm_rate: float = FALSE_ALARM_RATE,
        keep_outliers: bool = False,
    ) -> "HyperFSAD":
        """Sets the thresholds between good and anomalous.

        `images` are good parts that were not learnt: with 1/α − 1 of them or more (19 for 5 %) at
        most a share α of good parts is called anomalous, on average over the draw of these images.
        One that stands far apart from all others is left out and named, unless `keep_outliers`: it
        would set the threshold alone. Without images the thresholds are an estimate from the
        unlabelled parts of the line where there are any, otherwise from the normal images.
        """
        self.require_fitted()
        check_rate(false_alarm_rate)
        if images is not None:
            images = single_images(images, channels)
        found = self.view_.leave_one_out(self.progress)
        support = self._estimate(found, false_alarm_rate)
        notify_about_learnt(found, [image.name for image in self.support_], self.notify)
        if images is None and self.unlabelled_ is not None:
            line = self._line_scores(self.view_)
            self._set_thresholds(from_line(line, false_alarm_rate, support))
            return self
        if images is None:
            notify_about_support(found, self.notify)
            self._set_thresholds(support)
            return self
        scores = self._scores_of(images)
        limit = math.inf if self.foreign_ is None else self.foreign_
        foreign = [name for name, one in scores if one.branches.values["cls"] > limit]
        notify_about_foreign(foreign, self.notify)
        levels = [(name, support.level(one.score, one.peak)) for name, one in scores]
        self._set_thresholds(
            calibrate_from(levels, false_alarm_rate, support, keep_outliers, self.notify)
        )
        return self

    def adapt(self, images: Images, *, channels: ChannelOrder = "rgb") -> "HyperFSAD":
        """Learns from unlabelled parts of the line, of which nearly all are good.

        What several of them have is normal from here on, and the thresholds come from how far they
        reach themselves, each without itself. No part has to be known as good; up to a fifth may be
        bad. Parts that look like another product are left out, near-copies count once. Called
        again, it learns more parts.
        """
        self.require_fitted()
        self.check("adapt")
        images = single_images(images, channels)
        encoder, memory, before = self.encoder_, self.memory_, self.unlabelled_
        reader = SupportReader(self.view_, encoder, self.settings.batch_size)
        self.skipped_ = reader.skipped
        known = memory.images if before is None else memory.images + before.images
        read = self.progress(adapting.sample(images), "adapting")
        banks = [bank.half() for bank in reader.banks(read, known, lambda image: [image])]
        if self.foreign_ is not None:
            foreign = [one for bank in banks for one in strangers(memory, bank, self.foreign_)]
            if foreign:
                self.notify(Notice("line-foreign", names=[image.name for image in foreign]))
                banks = adapting.without(banks, foreign)
        if not banks:
            raise UsageError("no-unlabelled-part", unreadable=len(self.skipped_))
        whole = MemoryBank.joined(banks if before is None else [before, *banks])
        if copies := adapting.near_copies(whole, self.encoding_.grid):
            self.notify(Notice("line-copies", names=[image.name for image in copies]))
            (whole,) = adapting.without([whole], copies)
        count = adapting.room_for(whole)
        if len(whole) > count:
            view = self.view_.adapted(None)
            far = [view.score_entry(whole, part).score for part in range(len(whole))]
            whole = whole.without(*adapting.far_out(far, count))
        support = self._estimate(self.view_.leave_one_out(), self._rate)
        scores = self._line_scores(self.view_.adapted(whole, at_first=True))
        first = from_line(scores, self._rate, support)
        levels = [first.level(one.score, one.peak) for one in scores]
        bad = adapting.suspects([image.name for image in whole.images], levels, self.notify)
        self.unlabelled_, self._view = whole.without(*bad) if bad else whole, None
        found = from_line(self._line_scores(self.view_), self._rate, support)
        self._set_thresholds(replace(found, images=len(levels), odd=len(bad)))
        return self

    def teach(
        self,
        images: Images,
        defect: str,
        *,
        at: tuple[float, float] | None = None,
        product: str | None = None,
    ) -> "HyperFSAD":
        """Learns what a defect is called, from bad parts that have it: results name the next ones.

        One to four examples are enough. Each is remembered by its strongest place; `at` says where
        the defect of a single image is, as x and y. Verdicts stay as they are. A picture that was
        taught before gets the new name.
        """
        if product is not None:
            self.check("product")
        self.require_fitted()
        self.check("teach")
        if at is not None and not is_one_image(images):
            raise UsageError("place-of-several")
        images = single_images(images)
        name, encoder, view = defect_name(defect), self.encoder_, self.view_
        known = {image.sha256: image.name for image in self.memory_.images}
        self.skipped_ = []
        found = distinct_images(images, self.prepare, self.skipped_, known, count=self.read_ahead)
        self.defects_ = taught(
            self.defects_,
            name,
            found,
            lambda image: view.signed(image, at, encoder),
            lambda score: self._level(score.score, score.peak) if self.threshold_ else None,
            self.notify,
        )
        self._view = None
        return self

    def forget_defect(self, defect: str, *, product: str | None = None) -> "HyperFSAD":
        """Forgets the examples of a defect."""
        if product is not None:
            self.check("product")
        return self.name_by(self.defects_.without(defect))

    def name_by(self, defects: TaughtDefects) -> "HyperFSAD":
        """Names defects by these examples from here on; they come from a detector that encodes
        images in the same way."""
        self.defects_, self._view = defects, None
        return self

    @property
    def _rate(self) -> float:
        """The false-alarm rate that its thresholds aim at."""
        return FALSE_ALARM_RATE if self.calibration_ is None else self.calibration_.rate

    def move_threshold(self, threshold: float) -> None:
        """Sets the threshold by hand; that of the map moves by the same factor, since the verdict
        comes from both."""
        if not 0 < threshold < math.inf:
            raise UsageError("threshold-invalid", given=threshold)
        before = self.threshold_
        if self.map_threshold_ is not None and before is not None and before > 0:
            self.map_threshold_ *= threshold / before
        self.threshold_ = threshold

    def _scores_of(self, images: Images) -> list[tuple[str, TokenScore]]:
        """The scores of good parts; a learnt one is left out with a warning."""
        known = {image.sha256: image.name for image in self.memory_.images}
        self.skipped_ = []
        found = distinct_images(images, self.prepare, self.skipped_, known, count=self.read_ahead)
        scores: list[tuple[str, TokenScore]] = []
        for _, image in found:
            try:
                scores += [(image.name, one) for one in self.score_images([image])]
            except NotFiniteError as error:
                raise pipeline.not_judged(image.name, error) from error
            del image  # a large picture goes before the next is read
        return scores

    def _line_scores(self, view: View) -> list[TokenScore]:
        """What the unlabelled parts show, each without itself."""
        assert view.unlabelled is not None
        parts = self.progress(range(len(view.unlabelled)), "adapting")
        return [view.score_tokens(view.unlabelled.tokens_of(part))[0] for part in parts]

    def _set_thresholds(self, calibration: Calibration | None) -> None:
        self.calibration_ = calibration
        self.threshold_ = None if calibration is None else calibration.threshold
        self.map_threshold_ = None if calibration is None else calibration.map_threshold

    def _find_foreign_distance(self) -> None:
        """Finds out how far an image may be from the good parts before it shows another product."""
        share = find_recipe(self.settings.recipe).foreign
        self.foreign_ = foreign_distance(self.memory_, self.encoder_.empty_cls, share)

    def _level(self, score: float, peak: float) -> float:
        """How far an image reaches; 0 without a threshold."""
        if not self.threshold_:
            return 0.0
        return level_of(score, self.threshold_, peak, self.map_threshold_)

    @property
    def threshold_from_(self) -> str | None:
        """How the threshold came about, in a few words."""
        if self.threshold_ is None:
            return None
        by_itself = self.calibration_ and self.calibration_.threshold == self.threshold_
        return self.calibration_.words if self.calibration_ and by_itself else "set by hand"

    @property
    def scale_(self) -> tuple[float, float]:
        """The colour scale of pictures: it begins where the map says that an image is anomalous, or
        would say so by an estimate from the normal images, and ends at twice that."""
        start = 0.0 if self.calibration_ is None else self.map_threshold_ or 0.0
        if start <= 0 and self._usual_peak is None:
            self.require_fitted()
            found = self.view_.leave_one_out()
            self._usual_peak = self._estimate(found, FALSE_ALARM_RATE).map_threshold
        start = start if start > 0 else self._usual_peak or 0.0
        return start, 2 * start

    def _estimate(self, found: LeaveOneOut, rate: float) -> Calibration:
        return from_support(found, rate, find_recipe(self.settings.recipe).lone)

    def levels(self) -> Levels:
        """What scores and maps are held against."""
        return Levels(
            self.threshold_,
            self.map_threshold_,
            self.threshold_from_,
            self.calibration_,
            self.foreign_,
            self.scale_,
            self.min_area,
            self.defects_,
        )

    def predict(
        self,
        image: ImageSource | LoadedImage,
        *,
        channels: ChannelOrder = "rgb",
        keep_pictures: bool = False,
    ) -> AnomalyResult:
        """Scores one image: a path, an open file or its bytes, a PIL image, an array or a tensor.

        Raises `ImageError` if it cannot be read. Arrays of OpenCV need `channels="bgr"`: an array
        does not say which order it has, and the wrong one gives wrong scores without an error.
        Files and PIL images know theirs. `keep_pictures` leaves the decoded image in the result,
        so that `plot` need not read it again; a large one is never kept.
        """
        self.require_fitted()
        return pipeline.predict(self, image, channels, keep_pictures)

    def predict_many(
        self, images: Images, *, channels: ChannelOrder = "rgb", keep_pictures: bool = False
    ) -> Iterator[AnomalyResult]:
        """Scores each image of a folder, a glob or any iterable, lazily and in their order.

        An image that cannot be read gives a result with `error` set, and the others go on. A thread
        of its own reads a few images ahead of the encoder; it ends with the iterator. `channels`
        and `keep_pictures` as in `predict`.
        """
        self.require_fitted()
        return pipeline.predict_many(self, images, channels, keep_pictures)

    def score_samples(
        self, images: Images, *, channels: ChannelOrder = "rgb"
    ) -> NDArray[np.float64]:
        """The opposite of each image's score, as in scikit-learn: the higher, the more normal."""
        return habits.score_samples(self, images, channels)

    def decision_function(
        self, images: Images, *, channels: ChannelOrder = "rgb"
    ) -> NDArray[np.float64]:
        """1 − level of each image, as in scikit-learn: negative where it is anomalous."""
        return habits.decision_function(self, images, channels)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The choices as they were given, for scikit-learn (`clone`); `deep` changes nothing."""
        return dict(self.settings.given)

    def set_params(self, **choices: Any) -> "HyperFSAD":
        """Changes choices; it forgets what it has learnt, since it learnt that with the others."""
        fresh = HyperFSAD(**{**self.settings.given, **choices})
        fresh.notify, fresh.progress, fresh.min_area = self.notify, self.progress, self.min_area
        vars(self).clear()
        vars(self).update(vars(fresh))
        return self

    @property
    def batch(self) -> int:
        """Images that are encoded at once."""
        view = self.view_
        if self._memory.bank is not None:
            view.prepare()  # perhaps the encoder is still being compiled
        return batch_of(view, self.encoder_, self.settings.batch_size)

    @property
    def read_ahead(self) -> int:
        """Images that are read before they are needed."""
        return read_ahead_of(self.view_)

    def prepare(
        self, source: ImageSource | LoadedImage, keep_picture: bool = False
    ) -> PreparedImage:
        """Reads an image as its encoder takes it."""
        loaded, view = load_image(source), self.view_
        with fitting_memory(loaded.name):
            shown = view.visible(loaded)
        return prepared(
            source,
            loaded,
            shown,
            self.encoding_,
            keep_picture=keep_picture,
            keep_whole=view.needs_pictures,
        )

    def judge(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        """The results of a few images that were read, as one batch."""
        scores = self.score_images(images)
        return [self.result(image, score) for image, score in zip(images, scores, strict=True)]

    def score_images(self, images: Sequence[PreparedImage]) -> list[TokenScore]:
        """The scores of a few images that were read, as one batch."""
        encoder = self.encoder_  # first: the view follows it to its device
        return self.view_.score(images, encoder)

    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        """The scores of images of which only the tokens as a whole are known."""
        return self.view_.score_tokens(tokens)

    def result(self, image: PreparedImage, scored: TokenScore) -> AnomalyResult:
        """What is said of an image, given its scores."""
        return self.levels().result(
            image.name, image.size, image.source, image.picture, scored, weakref.ref(self)
        )

    def explain(
        self, image: ImageSource | LoadedImage, x: float | None = None, y: float | None = None
    ) -> Evidence:
        """Which normal patches rebuilt the patch at x, y (default: the map's peak) of an image."""
        self.require_fitted()
        encoder = self.encoder_
        found = self.view_.evidence(load_image(image), x, y, encoder)
        return replace(found, orientations=self._orientations)

    def hypergraph(self, image: ImageSource | LoadedImage, layer: int | None = None) -> Hypergraph:
        """Which normal patches rebuild which patches of an image; default: in the last layer."""
        self.require_fitted()
        self.check("hypergraph")
        encoder = self.encoder_
        found = self.view_.hypergraph(load_image(image), layer, encoder)
        return replace(found, orientations=self._orientations)

    def part(self) -> file.StoredPart:
        """All that a file holds of it."""
        calibration, core, view = self.calibration_, self.core_, self.view_
        header = {
            "settings": self.settings.to_dict(),
            "encoder": {**asdict(self.encoding_), "fingerprint": self._memory.fingerprint},
            "roi": view.region.described(),
            "tiles": None if self.tile_side_ is None else view.stored(),
            "compact": core and {"kept": int(core.kept.sum()), "radius": core.radius},
            "calibration": calibration and calibration.to_dict(),
            **{name: getattr(self, f"{name}_") for name in LEARNT},
            **file.described_defects(self.defects_),
        }
        tensors = view.region.tensors() | file.defect_tensors(self.defects_)
        if core is not None:
            tensors["core"] = to_numpy(core.kept).astype(np.uint8)
        streams = {} if self.tile_side_ is None else view.tensors()
        return file.StoredPart(header, self.memory_, tensors, streams, self.unlabelled_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything but the encoder's weights into one file."""
        target, view = file.file_path(path), self.view_
        reads_from_it = view.reads_from(target)
        file.write_file(target, [self.part()], lambda: view.release(target))
        if reads_from_it:  # from here on it reads from the new file
            (stored,) = file.open_file(target).parts()
            self.remember(replace(self.memory_, extras=stored.bank.extras), self.core_)

    @classmethod
    def load(
        cls, path: "str | os.PathLike[str] | file.DetectorFile", **machine: "Unpack[Machine]"
    ) -> "HyperFSAD":
        """Reads a detector file; safe with files from strangers. Weights load at the first image.

        `backbone` names the encoder's folder where it lies elsewhere than on the machine that
        wrote the file; its weights must be the same. `device`, `engine`, `precision`, `batch_size`
        and `notify` as in `HyperFSAD`; auto is the precision of the file.
        """
        opened = file.open_file(path)
        if opened.several:
            raise DetectorFileError("file-holds-products", path=opened.path)
        return cls.restored(opened.parts()[0], opened.path, **machine)

    @classmethod
    def restored(
        cls, part: file.StoredPart, path: Path, *, notify: Notify = log, **machine: Any
    ) -> "HyperFSAD":
        """A detector from its part of a file; `path` is what errors call it."""
        header = part.header
        settings, encoding = part.settings(path, **machine)
        detector = cls.of(settings, notify)
        detector._memory.see(encoding)
        detector._memory.stored_fingerprint = part.fingerprint
        detector._region = part.region or detector._region
        for name in LEARNT:
            setattr(detector, f"{name}_", header[name])
        detector.tile_side_ = header["tiles"] and header["tiles"]["side"]
        detector.unlabelled_, detector.defects_ = part.unlabelled, part.defects
        if header["calibration"] is not None:
            detector.calibration_ = Calibration.from_dict(header["calibration"])
        return detector.remember(part.bank, part.core)

    def identity(self) -> str:
        """A hash of all that its scores depend on: equal detectors, equal results.

        Devices and engines of float32 are left out: they differ by rounding (below 1e-4 in a
        score), so a run may be resumed with another one. Results are the same bytes only with the
        same one.
        """
        method = {name: getattr(self.settings, name) for name in SCORING}
        header = {**self.part().header, "settings": method, "foreign": None}
        line = () if self.unlabelled_ is None else self.unlabelled_.images
        images = [image.sha256 for image in (*self.support_, *line)]
        signatures = [each.tolist() for each in file.defect_tensors(self.defects_).values()]
        found = json.dumps([header, images, signatures], sort_keys=True)
        return hashlib.sha256(found.encode()).hexdigest()

    def leaving_out(self, entries: Sequence[int]) -> "HyperFSAD":
        """A copy that has never seen a normal image, given by its entries in the memory bank."""
        return copy(self).remember(self.memory_.without(*entries))

    def unfitted(self) -> "HyperFSAD":
        """A copy with the same settings and encoder that has seen no normal image."""
        fresh = HyperFSAD.of(self.settings, self.notify)
        fresh.progress, fresh.min_area = self.progress, self.min_area
        fresh._memory = replace(self._memory, bank=None)
        return fresh

    def __copy__(self) -> "HyperFSAD":
        """Another detector of the same encoder and tokens."""
        fresh = object.__new__(type(self))
        vars(fresh).update(vars(self), _memory=copy(self._memory))
        return fresh

    def __deepcopy__(self, memo: dict[int, Any]) -> "HyperFSAD":
        """Tokens of its own; settings and the encoder, which never change, are shared."""
        fresh = copy(self)
        vars(fresh).update(_memory=deepcopy(self._memory, memo), _view=None, _seen=None)
        return fresh

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: tokens and settings. Messages go nowhere until `notify` is set."""
        return {
            **vars(self),
            "notify": log,
            "progress": no_progress,
            "_view": None,
            "_seen": None,
        }

    def __repr__(self) -> str:
        count = 0 if self._memory.bank is None else len(self.support_)
        side = self.encoding_.resolution
        return f"HyperFSAD({self.settings.backbone!r}, {side} px, {count} normal images)"
