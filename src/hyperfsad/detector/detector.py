"""HyperFSAD: the only class most users meet. Show it good parts, then ask about others."""

import hashlib
import itertools
import json
import math
import os
import weakref
from collections.abc import Collection, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import asdict, replace
from typing import Any, overload

import torch
from numpy.typing import NDArray
from PIL import Image

from ..decisions.region_of_interest import FixedRegion, RegionOfInterest, make_region
from ..decisions.roi import Roi
from ..decisions.routing import foreign_distance, strangers
from ..decisions.thresholds import FALSE_ALARM_RATE, Calibration, check_rate, from_support
from ..encoders import REGISTRY, EncoderSettings
from ..encoders.encoder import Encoder, PreparedImage, Tokens, prepared
from ..encoders.quantisation import Quantised
from ..encoders.runtime import INT8, engine_for, precision_in
from ..errors import DetectorFileError, ImageError, NotFiniteError, UsageError
from ..evidence.evidence import Evidence
from ..evidence.hypergraph import Hypergraph
from ..images.geometry import rotated_copies
from ..images.loading import (
    ImageSource,
    LoadedImage,
    NormalImage,
    fitting_memory,
    load_image,
)
from ..images.reading import READ_AHEAD, Images, check_images, distinct_images
from ..messages import Notice, Notify, Progress, no_progress, silent
from ..method.coreset import Coreset, compact_count, cover
from ..method.matching import Comparison
from ..method.memory import MemoryBank
from ..method.scoring import ImageScoring, Pooling, TokenScore, branch_weights
from ..results.result import AnomalyResult
from ..views import TiledView, View, ViewSettings, WholeView
from . import file, pipeline
from .calibration import (
    anomalous_before,
    calibrate_from,
    notify_about_foreign,
    notify_about_learnt,
    notify_about_support,
)
from .encoding import EncodedMemory
from .fit import (
    MAX_COST,
    ROTATED_COPIES,
    ROTATIONS_COST,
    RotationChoice,
    SupportReader,
    choose_rotations,
    choose_view,
    first_few,
    first_size,
    quantise_by,
    upright,
)
from .pipeline import Levels
from .settings import COMPACT, EXACT, Settings, find_recipe

SCORING = ("lookup", "pooling", "lam", "sharpness", "smooth", "missing")
"""Choices on which scores depend, beside what `fit` has learnt."""


class HyperFSAD:
    """Few-shot anomaly detector: frozen tokens, sparse reconstruction, two branches.

    >>> detector = HyperFSAD().fit("good/")
    >>> detector.predict("part.png").score
    """

    def __init__(
        self,
        backbone: str | None = None,
        *,
        settings: Settings | None = None,
        notify: Notify = silent,
        **choices: Any,
    ) -> None:
        """Takes the choices of `Settings` by name, or `settings` itself; `notify` takes messages.

        `recipe` (default, paper, paper-offline) sets every choice that is not given.
        """
        if not callable(notify):
            raise UsageError("notify-not-callable", given=type(notify).__name__)
        self.settings = settings or Settings(backbone=backbone, **choices)  # type: ignore[arg-type]
        self.notify = notify
        self.progress: Progress = no_progress
        """How long work on images shows how far it is; commands have a bar."""
        self.min_area = 0.0
        """Regions of fewer pixels of the image are left out."""
        self.tile_side_ = self.settings.tile_side
        """Of a tile in pixels of the image; None: images are seen as a whole."""
        chosen = self.settings.rotations
        self.rotations_ = chosen if isinstance(chosen, int) else 1
        """In how many orientations each normal image is remembered."""
        self.tentative_ = False
        """Whether rotated copies count only for images that they fit clearly better."""
        self.core_: Coreset | None = None
        """What a compact memory compares with; None means all."""
        self.calibration_: Calibration | None = None
        """How the thresholds came about; None where they were set by hand, or there are none."""
        self.threshold_: float | None = None
        self.map_threshold_: float | None = None
        """Above it a place of the map counts as a defect; without it results have no regions."""
        self.foreign_: float | None = None
        """Beyond this distance of CLS tokens an image looks like another product."""
        self.skipped_: list[ImageError] = []
        """Images of the last `fit`, `extend` or `calibrate` that could not be read."""
        self._scale: tuple[float, float] | None = None
        self._memory = EncodedMemory(
            self.settings.encoding, self.settings.device, self.settings.engine, notify
        )
        self._seen: MemoryBank | None = None
        """The memory bank that the view knows."""
        self.view_ = self._new_view()
        """How images are seen; after `fit` it knows the memory bank."""

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
        encoder = self._memory.encoder
        self._follow_device()
        return encoder

    @property
    def quantised_(self) -> Quantised | None:
        """Its own 8-bit encoder, where it has one."""
        return self._memory.quantised

    def use_encoder(self, encoder: Encoder) -> bool:
        """Takes an encoder that was loaded elsewhere, with the same settings; says if it is new."""
        is_new = self._memory.use(encoder)
        self._follow_device()
        return is_new

    def _follow_device(self) -> None:
        """The view knows the bank where the encoder is."""
        if self._seen is not None and self._memory.bank is not self._seen:
            self._prepare_view()

    @property
    def support_(self) -> tuple[NormalImage, ...]:
        """The normal images."""
        return self.memory_.normal_images

    @property
    def products_(self) -> Mapping[str, "HyperFSAD"]:
        """The detector of its one product, which has no name."""
        return {"": self}

    @property
    def roi_(self) -> Roi | None:
        """The region of interest, where it is the same in all images; known after the first one."""
        return self.view_.region.roi

    @property
    def described(self) -> list[str]:
        """What it holds beside good parts and thresholds, in a few words each."""
        found = []
        if self.rotations_ > 1:
            each = "each " if len(self.support_) > 1 else ""
            found.append(f"{each}in {self.rotations_} orientations")
        if self.roi_ is not None:  # a wrong mask shows here first
            found.append(f"region of interest {100 * self.roi_.share:.0f} % of the picture")
        if self.core_ is not None:
            kept = self.core_.kept
            found.append(f"compared with {int(kept.sum()):,} of {len(kept):,} patches")
        return found

    def check(self, use: str) -> None:
        """Refuses a use that does not go with its settings, or with what `fit` chose."""
        self.settings.check(use, tiles=self.tile_side_)

    def require_fitted(self) -> None:
        """Refuses to answer before it has learnt a good part."""
        self.memory_  # noqa: B018 (which raises)

    def fit(
        self, images: Images, *, threshold: bool = True, false_alarm_rate: float = FALSE_ALARM_RATE
    ) -> "HyperFSAD":
        """Remembers good parts: a folder, a glob, paths, PIL images or arrays.

        Then it estimates the thresholds from them alone, by leaving each out in turn;
        `threshold=False` leaves that out.
        """
        check_rate(false_alarm_rate)
        check_images(images)
        given = self.settings
        if given.resolution is None and given.tiles is None and given.roi is None:
            images = self._choose_view(images)
        self.view_ = self._new_view()  # a mask or a polygon is measured by the first image
        if given.precision == INT8:
            few, others = first_few(images)
            self._memory.quantise(quantise_by(few, self.view_, self.encoding_, self.notify))
            images = itertools.chain(few, others)
        self.rotations_ = given.rotations if isinstance(given.rotations, int) else 1
        self.tentative_ = False
        reader = self._new_reader()
        if self._may_rotate:
            few, images = first_few(images)
            banks = self._banks_of_first(reader, few)
        else:
            banks = []
        banks += reader.banks(images, (), self._orientations)
        self.remember(reader.joined(banks))
        if (note := self.view_.region.note) is not None:
            self.notify(note)
        self._set_thresholds(None)
        self._find_foreign_distance()
        if threshold:
            self.calibrate(false_alarm_rate=false_alarm_rate)
        return self._compacted()

    def _choose_view(self, images: Images) -> Images:
        """Chooses resolution or tiles from the first few pictures; gives back all of them."""
        few, others = first_few(images)
        plain, cost = self.settings.encoding, self.settings.max_cost
        self._memory.see(plain)
        self.tile_side_ = None
        size = first_size(few)
        if size is not None:
            may_tile = self.settings.precision != INT8
            choice = choose_view(size, plain, cost, tiles=may_tile)
            if choice.tile is not None and self._may_rotate and len(few) > 1:
                rotations, _ = self._tried(self._new_reader(), few)
                if rotations.rotations > 1 and not rotations.tentative:
                    choice = choose_view(size, plain, cost, tiles=False)  # tiles lie still
            if choice.notice is not None:
                self.notify(choice.notice)
            self._memory.see(replace(plain, resolution=choice.resolution))
            self.tile_side_ = choice.tile
        return itertools.chain(few, others)

    @property
    def _may_rotate(self) -> bool:
        """Whether it may find out if rotated copies help."""
        cost = MAX_COST if self.settings.max_cost is None else self.settings.max_cost
        asked = self.settings.rotations == "auto" and self.tile_side_ is None
        return asked and cost >= ROTATIONS_COST

    def _tried(
        self, reader: SupportReader, few: Images
    ) -> "tuple[RotationChoice, MemoryBank | None]":
        """What a few good parts in all orientations say of rotated copies, and their bank."""
        banks = reader.banks(few, (), lambda image: self._rotated(image, ROTATED_COPIES))
        bank = MemoryBank.joined(banks) if banks else None
        return choose_rotations(bank), bank

    def _banks_of_first(self, reader: SupportReader, few: Images) -> list[MemoryBank]:
        """Finds out whether rotated copies help; the banks of the images that were tried."""
        choice, bank = self._tried(reader, few)
        self.rotations_, self.tentative_ = choice.rotations, choice.tentative
        if choice.notice is not None:
            self.notify(choice.notice)
        if bank is None:
            return []
        return [bank if choice.rotations > 1 else upright(bank)]

    def extend(self, images: Images, *, product: str | None = None) -> "HyperFSAD":
        """Remembers more good parts; the same as fitting on all of them at once.

        What `auto` chose for `rotations` stays, unless it had one good part alone to choose from.
        Thresholds that came from the normal images are estimated again; those from further good
        parts are marked as stale.
        """
        if product is not None:
            self.check("product")
        self.require_fitted()
        check_images(images)
        before, calibration = len(self.support_), self.calibration_
        memory, view = self.memory_, self.view_
        banks = self._new_reader().banks(images, memory.images, self._orientations)
        if banks:
            self.remember(MemoryBank.joined([memory, *banks]))
        if self.threshold_ is not None:
            parts = anomalous_before(view, self.memory_, self._level)
            if parts:
                self.notify(Notice("good-parts-were-anomalous", parts=parts))
        if self.foreign_ is not None:
            notify_about_foreign(strangers(memory, self.memory_, self.foreign_), self.notify)
        if self.tentative_ and len(self.support_) > before:  # there is more to tell it from
            choice = choose_rotations(self.memory_)
            if choice.notice is not None:
                self.notify(choice.notice)
            self.rotations_, self.tentative_ = choice.rotations, choice.tentative
            bank = self.memory_
            self.remember(bank if choice.rotations > 1 else upright(bank))
        self._find_foreign_distance()
        if len(self.support_) > before:
            self._threshold_again(calibration)
            self._compacted()
        return self

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
        self._find_foreign_distance()
        self._threshold_again(calibration)
        return self._compacted()

    def remember(self, bank: MemoryBank, core: Coreset | None = None) -> "HyperFSAD":
        """Takes a memory bank that was made elsewhere with the same encoder and settings."""
        self._memory.keep(bank)
        self.core_ = core
        self._scale = None
        self._prepare_view()
        return self

    def _prepare_view(self) -> None:
        view = self._view_of(self.view_.region)
        self._seen = self.memory_
        self.view_ = view.fitted(self._seen)
        if self.core_ is not None:
            self.view_ = self.view_.compacted(self.core_.kept)

    def _compacted(self) -> "HyperFSAD":
        """Chooses what a compact memory compares with; thresholds come from all of it."""
        if self.settings.memory == COMPACT:
            patches = self.memory_.patches
            self.core_ = cover(patches, compact_count(len(patches[0])))
            self._prepare_view()
        return self

    def _new_view(self) -> View:
        self._seen = None
        return self._view_of(make_region(self.settings.roi))

    def _view_of(self, region: RegionOfInterest) -> View:
        """Sees images whole, or in tiles: this alone asks which."""
        side = self.tile_side_
        if side is None:
            return WholeView(self._rules(), region)
        return TiledView(self._rules(), side)

    def _rules(self) -> ViewSettings:
        chosen, grid = self.settings, self.encoding_.grid
        return ViewSettings(
            self.encoding_,
            Comparison(grid, chosen.lookup, chosen.sharpness, chosen.smooth),
            ImageScoring(Pooling.parse(chosen.pooling), branch_weights(chosen.lam, chosen.missing)),
            self.rotations_,
            self.tentative_,
            chosen.batch_size,
            self.notify,
        )

    def _new_reader(self) -> SupportReader:
        reader = SupportReader(self.view_, self.encoder_, self.batch, self.read_ahead)
        self.skipped_ = reader.skipped
        return reader

    def _orientations(self, image: LoadedImage) -> list[LoadedImage]:
        """A normal image in all orientations that are remembered, itself first."""
        return self._rotated(image, self.rotations_)

    def _rotated(self, image: LoadedImage, rotations: int) -> list[LoadedImage]:
        return rotated_copies(image, rotations, 2 * self.encoding_.resolution)

    def calibrate(
        self,
        images: "Images | None" = None,
        *,
        false_alarm_rate: float = FALSE_ALARM_RATE,
        keep_outliers: bool = False,
    ) -> "HyperFSAD":
        """Sets the thresholds between good and anomalous.

        `images` are good parts that were not learnt: with 1/α − 1 of them or more (19 for 5 %) at
        most a share α of good parts is called anomalous, on average over the draw of these images.
        One that stands far apart from all others is left out and named, unless `keep_outliers`: it
        would set the threshold alone. Without images the thresholds are an estimate from the normal
        ones.
        """
        self.require_fitted()
        check_rate(false_alarm_rate)
        if images is not None:
            check_images(images)
        found = self.view_.leave_one_out(self.progress)
        support = from_support(found, false_alarm_rate, find_recipe(self.settings.recipe).lone)
        notify_about_learnt(found, [image.name for image in self.support_], self.notify)
        if images is None:
            notify_about_support(found, self.notify)
            self._set_thresholds(support)
            return self
        scores = self._scores_of(images)
        limit = math.inf if self.foreign_ is None else self.foreign_
        foreign = [name for name, one in scores if one.branches.values["cls"] > limit]
        notify_about_foreign(foreign, self.notify)
        levels = [(name, support.strength(one.score, one.peak)) for name, one in scores]
        self._set_thresholds(
            calibrate_from(levels, false_alarm_rate, support, keep_outliers, self.notify)
        )
        return self

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

    def _set_thresholds(self, calibration: Calibration | None) -> None:
        self.calibration_ = calibration
        self.threshold_ = None if calibration is None else calibration.threshold
        self.map_threshold_ = None if calibration is None else calibration.map_threshold

    def _threshold_again(self, calibration: Calibration | None) -> None:
        """After the memory has changed: an estimate is made again, a calibration is stale."""
        if calibration is not None and calibration.method == "support":
            self.calibrate(false_alarm_rate=calibration.rate)
        elif calibration is not None:
            self.calibration_ = calibration.outdated()

    def _find_foreign_distance(self) -> None:
        """Finds out how far an image may be from the good parts before it shows another product."""
        share = find_recipe(self.settings.recipe).foreign
        self.foreign_ = foreign_distance(self.memory_, self.encoder_.empty_cls, share)

    def _level(self, score: float, peak: float) -> float:
        """How far an image reaches against its thresholds; above 1 it is anomalous."""
        reach = score / self.threshold_ if self.threshold_ else 0.0
        return max(reach, peak / self.map_threshold_ if self.map_threshold_ else 0.0)

    @property
    def threshold_from_(self) -> str | None:
        """How the threshold came about, in a few words."""
        if self.threshold_ is None:
            return None
        by_itself = self.calibration_ and self.calibration_.threshold == self.threshold_
        return self.calibration_.words if self.calibration_ and by_itself else "set by hand"

    @property
    def scale_(self) -> tuple[float, float]:
        """The colour scale of pictures, from the normal images alone."""
        if self._scale is None:
            self.require_fitted()
            self._scale = self.view_.colour_scale()
        return self._scale

    def levels(self) -> Levels:
        """What scores and maps are held against.

        Colours begin where the map says that an image is anomalous, and end at twice that.
        """
        start = 0.0 if self.calibration_ is None else self.map_threshold_ or 0.0
        return Levels(
            self.threshold_,
            self.map_threshold_,
            self.threshold_from_,
            self.calibration_,
            self.foreign_,
            (start, 2 * start) if start > 0 else self.scale_,
            self.min_area,
        )

    @overload  # an array could be iterated too, but is always one image
    def predict(
        self, images: "Image.Image | NDArray[Any] | torch.Tensor", *, keep_pictures: bool = ...
    ) -> AnomalyResult: ...
    @overload
    def predict(self, images: Any, *, keep_pictures: bool = ...) -> Any: ...
    def predict(self, images: Any, *, keep_pictures: bool = False) -> Any:
        """Scores one image, or lazily each of several.

        One image gives an `AnomalyResult` or raises `ImageError`. An iterable, a folder or a glob
        gives an iterator, in their order; there an image that cannot be read gives a result with
        `error` set, and the others go on. A thread of its own reads a few images ahead of the
        encoder; it ends with the iterator. `keep_pictures` leaves the decoded image in each
        result, so that `plot` need not read it again; large ones are never kept.
        """
        self.require_fitted()
        return pipeline.predict(self, images, keep_pictures)

    @property
    def batch(self) -> int:
        """Images that are encoded at once; of several large pictures memory would run out."""
        if self.view_.needs_pictures:
            return 1
        return self.settings.batch_size or self.encoder_.usual_batch

    @property
    def read_ahead(self) -> int:
        """Images that are read before they are asked for."""
        return 1 if self.view_.needs_pictures else READ_AHEAD

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
        return self.view_.score(images, self.encoder_)

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
        found = self.view_.evidence(load_image(image), x, y, self.encoder_)
        return replace(found, orientations=self._orientations)

    def hypergraph(self, image: ImageSource | LoadedImage, layer: int | None = None) -> Hypergraph:
        """Which normal patches rebuild which patches of an image; default: in the last layer."""
        self.require_fitted()
        self.check("hypergraph")
        found = self.view_.hypergraph(load_image(image), layer, self.encoder_)
        return replace(found, orientations=self._orientations)

    def part(self) -> file.StoredPart:
        """All that a file holds of it."""
        calibration, core, interest = self.calibration_, self.core_, self.view_.region
        header = {
            "settings": self.settings.to_dict(),
            "encoder": {**asdict(self.encoding_), "fingerprint": self._memory.fingerprint},
            "rotations": self.rotations_,
            "tentative": self.tentative_,
            "roi": interest.described(),
            "tiles": self.view_.described,
            "compact": core and {"kept": int(core.kept.sum()), "radius": core.radius},
            "scale": list(self.scale_),
            "threshold": self.threshold_,
            "map_threshold": self.map_threshold_,
            "foreign": self.foreign_,
            "calibration": calibration and calibration.to_dict(),
        }
        tensors = dict(interest.tensors())
        if core is not None:
            tensors["core"] = core.kept.cpu().to(torch.uint8)
        return file.StoredPart(
            header, self.memory_, {**tensors, **file.quantised_tensors(self.quantised_)}
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything but the encoder's weights into one file."""
        target = file.file_path(path)
        reads_from_it = self.view_.reads_from(target)
        file.write_detector(target, self.part(), self.view_)
        if reads_from_it:  # from here on it reads from the new file
            (stored,) = file.open_file(target).parts()
            self.remember(replace(self.memory_, extras=stored.bank.extras), self.core_)

    @classmethod
    def load(
        cls, path: "str | os.PathLike[str] | file.DetectorFile", **machine: Any
    ) -> "HyperFSAD":
        """Reads a detector file; safe with files from strangers. Weights load at the first image.

        One of 8 bits holds a graph that OpenVINO reads then: as safe as its reader.

        `backbone` names the encoder's folder where it lies elsewhere than on the machine that
        wrote the file; its weights must be the same. `device`, `engine`, `batch_size` and `notify`
        as in `HyperFSAD`.
        """
        opened = file.open_file(path)
        if opened.holds == file.PRODUCTS:
            raise DetectorFileError("file-holds-products", path=opened.path)
        return cls.restored(opened.parts()[0], opened.path, **machine)

    @classmethod
    def restored(
        cls,
        part: file.StoredPart,
        path: os.PathLike[str],
        *,
        backbone: str | None = None,
        notify: Notify = silent,
        engine: str = "auto",
        **machine: Any,
    ) -> "HyperFSAD":
        """A detector from its part of a file; `path` is what errors call it."""
        header, encoding = part.header, file.encoder_of(part.header)
        if backbone is not None:
            if encoding.name in REGISTRY and backbone != encoding.name:
                raise UsageError("encoder-fixed", path=path, encoder=encoding.name)
            encoding = replace(encoding, name=backbone)
        if encoding.name not in REGISTRY and not os.path.isdir(encoding.name):
            raise UsageError("encoder-folder-missing", path=path, folder=encoding.name)
        fingerprint = header["encoder"]["fingerprint"]
        machine["engine"] = engine_for(engine, fingerprint, os.fspath(path))
        chosen = {**header["settings"], "backbone": encoding.name, **machine}
        roi = header["roi"]
        region = None
        if isinstance(roi, dict):
            try:
                region = FixedRegion(Roi.stored(part.tensors["roi"], roi))
            except ValueError as error:
                raise DetectorFileError("file-damaged", path=path) from error
            chosen["roi"] = Image.fromarray(part.tensors["roi"].numpy() * 255)
        settings = Settings(**chosen)
        settings.check("saved", fitted_in=precision_in(fingerprint))
        detector = cls(settings=settings, notify=notify)
        if detector.encoding_.patch != encoding.patch:
            raise DetectorFileError("file-damaged", path=path)
        detector._memory.see(encoding)
        detector._memory.stored_fingerprint = fingerprint
        detector._memory.quantised = file.read_quantised(part, path)
        if region is not None:
            detector.view_.region = region
        detector.rotations_, detector.tentative_ = header["rotations"], header["tentative"]
        tiles, compact, stored = header["tiles"], header["compact"], header["calibration"]
        detector.tile_side_ = None if tiles is None else tiles["side"]
        detector.threshold_, detector.map_threshold_ = header["threshold"], header["map_threshold"]
        detector.foreign_ = header["foreign"]
        detector.calibration_ = file.read_calibration(stored, path)
        memory = COMPACT if compact else EXACT
        settings.check(tiles=detector.tile_side_, rotations=detector.rotations_, memory=memory)
        core = compact and Coreset(part.tensors["core"].bool(), compact["radius"])
        detector.remember(part.bank, core)
        low, high = header["scale"]
        detector._scale = low, high
        return detector

    def identity(self) -> str:
        """A hash of all that its scores depend on: equal detectors, equal results.

        Devices and engines of float32 are left out: they differ by rounding (below 1e-4 in a
        score), so a run may be resumed with another one. Results are the same bytes only with the
        same one.
        """
        method = {name: getattr(self.settings, name) for name in SCORING}
        header = {**self.part().header, "settings": method, "foreign": None}
        images = [image.sha256 for image in self.support_]
        return hashlib.sha256(json.dumps([header, images], sort_keys=True).encode()).hexdigest()

    def leaving_out(self, entries: Sequence[int]) -> "HyperFSAD":
        """A copy that has never seen a normal image, given by its entries in the memory bank."""
        return copy(self).remember(self.memory_.without(*entries))

    def unfitted(self) -> "HyperFSAD":
        """A copy with the same settings and encoder that has seen no normal image."""
        fresh = HyperFSAD(settings=self.settings, notify=self.notify)
        fresh.progress, fresh.min_area = self.progress, self.min_area
        fresh._memory = copy(self._memory)
        fresh._memory.bank = None
        fresh.view_ = fresh._new_view()
        return fresh

    def __copy__(self) -> "HyperFSAD":
        """Another detector of the same encoder and tokens."""
        fresh = object.__new__(type(self))
        fresh.__dict__.update(self.__dict__)
        fresh._memory = copy(self._memory)
        return fresh

    def __deepcopy__(self, memo: dict[int, Any]) -> "HyperFSAD":
        """Tokens and settings of its own; the encoder, which never changes, is shared."""
        fresh = object.__new__(type(self))
        state = self.__getstate__()
        own = {name: deepcopy(value, memo) for name, value in state.items() if name != "settings"}
        fresh.__setstate__({**own, "settings": self.settings})
        fresh.notify, fresh.progress = self.notify, self.progress
        return fresh

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: tokens and settings. Messages go nowhere until `notify` is set."""
        silenced = {"notify": silent, "progress": no_progress}
        return {**self.__dict__, **silenced, "view_": self.view_.region, "_seen": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.view_ = self._view_of(state["view_"])
        if self._memory.bank is not None:
            self._prepare_view()

    def __repr__(self) -> str:
        count = 0 if self._memory.bank is None else len(self.support_)
        side = self.encoding_.resolution
        return f"HyperFSAD({self.settings.backbone!r}, {side} px, {count} normal images)"
