"""HyperFSAD: the only class most users meet. Show it good parts, then ask about others."""

import itertools
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..decisions.region_of_interest import make_region
from ..decisions.roi import Roi, RoiSource
from ..decisions.routing import strangers
from ..decisions.thresholds import FALSE_ALARM_RATE, check_rate
from ..encoders.encoder import PreparedImage, Tokens
from ..encoders.runtime import INT8, named_engine, precision_of
from ..errors import ImageError, UsageError
from ..evidence.evidence import Evidence
from ..evidence.hypergraph import Hypergraph
from ..images.geometry import rotated_copies
from ..images.loading import ImageSource, LoadedImage, load_image
from ..images.reading import Images, check_images, single_images
from ..messages import Notify, silent
from ..method.coreset import COMPACT, EXACT, Coreset, compact_count, cover
from ..method.matching import Comparison
from ..method.memory import MemoryBank
from ..method.scoring import ImageScoring, Pooling, TokenScore, branch_weights
from ..views import Rules, View, make_view, refuse_with_tiles, tile_side
from . import storage
from .calibrating import anomalous_before
from .checks import checked, file_path
from .closer import BUDGET, TURNING, look_closer
from .compacting import check_compact
from .header import header_of, identity_of, restored
from .judging import JudgingDetector
from .orientation import AUTO_ROTATIONS as AUTO_COUNT
from .orientation import (
    Read,
    check_rotations,
    choose_rotations,
    chosen_again,
    first_few,
    read_in_orientations,
)
from .recipes import DEFAULT_RECIPE, find_recipe
from .remarks import about_anomalous, about_strangers
from .support import SupportReader

if TYPE_CHECKING:
    import torch


class HyperFSAD(JudgingDetector):
    """Few-shot anomaly detector: frozen tokens, sparse reconstruction, two branches.

    >>> detector = HyperFSAD().fit("good/")
    >>> detector.predict("part.png").score
    """

    def __init__(
        self,
        backbone: str | None = None,
        *,
        recipe: str = DEFAULT_RECIPE,
        layers: Iterable[int] | None = None,
        resolution: int | None = None,
        lookup: str | None = None,
        pooling: str | None = None,
        lam: float | None = None,
        sharpness: float | None = None,
        smooth: bool | None = None,
        last_norm: bool | None = None,
        missing: float | None = None,
        rotations: int | str | None = None,
        roi: "RoiSource | None" = None,
        tiles: int | bool | None = None,
        budget: float | None = None,
        memory: str | None = None,
        device: str = "auto",
        engine: str = "auto",
        batch_size: int | None = None,
        notify: Notify = silent,
    ) -> None:
        """`recipe` (default, paper, paper-offline) sets every choice that is not given.

        `lam` is the paper's λ, the weight of the map in the score; `missing` is that of pieces that
        good parts have and an image lacks. `last_norm` lets the encoder's last block, if it is
        used, pass the final norm. `rotations` remembers each good part in that many orientations;
        `auto` finds out whether that helps. `roi` says where to look: a mask, the corners of a
        polygon in pixels of the first good part, or `auto`, the part itself. `tiles` cuts images
        into tiles of that many pixels a side (True: as many as the encoder takes, so that no detail
        is lost), for large images and small defects. `budget` is what an image may cost, as a
        multiple of the plain cost: `fit` then chooses tiles or a higher resolution by itself where
        neither is given (default: turned copies alone, for at most 2). `memory` is exact, or
        compact: of a large bank a coreset is compared with, for less time. `notify` takes messages.
        `device` and `engine` (auto, torch, openvino) say where and how the encoder runs; they are
        not saved with the detector. An engine of less than float32 (openvino-bf16,
        openvino-int8) is: memory and thresholds are made with it and hold for it alone.
        """
        chosen = find_recipe(checked("recipe", recipe))
        backbone, resolution = checked("backbone", backbone), checked("resolution", resolution)
        lookup, pooling = checked("lookup", lookup), checked("pooling", pooling)
        lam, missing = checked("lam", lam), checked("missing", missing)
        sharpness = checked("sharpness", sharpness)
        smooth, budget = checked("smooth", smooth), checked("budget", budget)
        usual = chosen.settings(backbone, resolution)
        super().__init__(
            usual.name,
            layers=usual.layers if layers is None else layers,
            resolution=resolution,
            last_norm=chosen.last_norm if last_norm is None else last_norm,
            device=device,
            engine=engine,
            batch_size=batch_size,
            notify=notify,
        )
        self.recipe = recipe
        self.lookup = chosen.lookup if lookup is None else lookup
        self.pooling = chosen.pooling if pooling is None else pooling
        self.lam = chosen.lam if lam is None else lam
        self.sharpness = chosen.sharpness if sharpness is None else sharpness
        self.smooth = chosen.smooth if smooth is None else smooth
        self.missing = chosen.missing if missing is None else missing
        if rotations is None:
            rotations = 1 if tiles else chosen.rotations
        check_rotations(rotations)
        self.rotations = rotations
        self.rotations_ = rotations if isinstance(rotations, int) else 1
        """In how many orientations each normal image is remembered."""
        self.tentative_ = False
        """Whether turned copies count only for images that they fit clearly better."""
        self.budget = budget
        if budget is not None and not budget >= 1:
            raise UsageError(f"The budget is at least 1, the plain cost of an image, not {budget}.")
        self._plain = self.settings
        """How an image is encoded before `fit` chooses to look closer."""
        self._may_look_closer = resolution is None and tiles is None and roi is None
        self.roi = roi
        self.tile_side = tile_side(tiles, self.settings.resolution, self.settings.grid)
        """Of a tile in pixels of the image; None: images are looked at as a whole."""
        refuse_with_tiles(self.tile_side, rotations, roi)
        self.memory = checked("memory", memory) or EXACT
        check_compact(
            self.memory,
            tiles=self.tile_side is not None,
            budget=budget,
            lookup=self.lookup,
        )
        self.core_: Coreset | None = None
        """What a compact memory compares with; None means all."""
        self.view_ = self._new_view()
        """How images are looked at; after `fit` it knows the memory bank."""

    def _compacted(self) -> "HyperFSAD":
        """Chooses what a compact memory compares with; thresholds come from all of it."""
        if self.memory == COMPACT:
            patches = self.memory_.patches
            self.core_ = cover(patches, compact_count(len(patches[0])))
            self.learn()
        return self

    def remember(self, bank: MemoryBank) -> "HyperFSAD":
        """Takes a memory bank that was made elsewhere with the same encoder and settings."""
        if bank is not getattr(self, "memory_", None):
            self.core_ = None
        return super().remember(bank)

    def _new_view(self) -> View:
        return make_view(self._rules(), make_region(self.roi), self.tile_side)

    def _rules(self) -> Rules:
        return Rules(
            self.settings,
            Comparison(self.settings.grid, self.lookup, self.sharpness, self.smooth),
            ImageScoring(Pooling.parse(self.pooling), branch_weights(self.lam, self.missing)),
            self.rotations_,
            self.tentative_,
            self.batch_size,
            self.notify,
        )

    @property
    def _sight(self) -> View:
        return self.view_

    @property
    def roi_(self) -> Roi | None:
        """The region of interest, where it is the same in all images; known after the first one."""
        return self.view_.region.roi

    def fit(
        self,
        images: Images,
        *,
        threshold: bool = True,
        false_alarm_rate: float = FALSE_ALARM_RATE,
    ) -> "HyperFSAD":
        """Remembers good parts: a folder, a glob, paths, PIL images or arrays.

        Then it estimates the thresholds from them alone, by leaving each out in turn;
        `threshold=False` leaves that out.
        """
        check_rate(false_alarm_rate)
        check_images(images)
        if self._may_look_closer:
            images = self._look_closer(images)
        self.view_ = self._new_view()  # a mask or a polygon is measured by the first image
        if precision_of(named_engine(self.engine)) == INT8:
            images = self._quantise(images)
        if self._may_turn:
            self._fit_orientations(images)
        else:
            self.rotations_ = self.rotations if isinstance(self.rotations, int) else 1
            self.tentative_ = False
            super().fit(images)
        self._tell(self.view_.region.note)
        self._decide(None)
        self._know_strangers()
        if threshold:
            self.calibrate(false_alarm_rate=false_alarm_rate)
        return self._compacted()

    def _quantise(self, images: Images) -> Images:
        """Makes the encoder of 8 bits by the first few pictures; gives back all of them."""
        from .quantised import quantised_by

        sources = single_images(images)
        first = first_few(sources)
        self._encoder = self._fingerprint = None  # those of other good parts
        self.__dict__.pop("memory_", None)
        self.quantised_ = quantised_by(first, self.view_, self.settings, self.notify)
        return itertools.chain(first, sources)

    @property
    def _may_turn(self) -> bool:
        """Whether it may find out if turned copies help."""
        asked = not isinstance(self.rotations, int) and self.tile_side is None
        return asked and (BUDGET if self.budget is None else self.budget) >= TURNING

    def _look_closer(self, images: Images) -> Images:
        """Chooses resolution or tiles from the first few pictures; gives back all of them."""
        sources = single_images(images)
        first = first_few(sources)
        self.settings, self.tile_side = self._plain, None
        size = next((size for source in first if (size := _size(source)) is not None), None)
        if size is not None:
            look = look_closer(size, self._plain, self.budget)
            if look.tile is not None and self._may_turn and len(first) > 1:
                tried = self._read_turned(self._new_reader())(first, AUTO_COUNT)
                choice = choose_rotations(tried)
                if choice.rotations > 1 and not choice.tentative:  # tiles need parts that lie still
                    look = look_closer(size, self._plain, self.budget, tiles=False)
            if look.reason is not None:
                self.notify(look.reason)
            self.settings = replace(self._plain, resolution=look.resolution)
            self.tile_side = look.tile
        if self._encoder is not None and self._encoder.settings.grid != self.settings.grid:
            self._encoder = None  # loaded again with another resolution
            self.__dict__.pop("memory_", None)  # of the look before
        return itertools.chain(first, sources)

    def keep_plain(self) -> None:
        """Never looks closer than it was told."""
        self._may_look_closer = False

    def _read_turned(self, reader: SupportReader) -> Read:
        return lambda images, rotations: reader.banks(
            images, (), partial(self._turned, rotations=rotations)
        )

    def _fit_orientations(self, images: Images) -> None:
        reader = self._new_reader()
        choice, banks = read_in_orientations(images, self._read_turned(reader), self.notify)
        self.rotations_, self.tentative_ = choice.rotations, choice.tentative
        self.remember(reader.joined(banks))

    def orientations(self, image: LoadedImage) -> list[LoadedImage]:
        """A normal image in all orientations that are remembered, itself first."""
        return self._turned(image, self.rotations_)

    def _turned(self, image: LoadedImage, rotations: int) -> list[LoadedImage]:
        return rotated_copies(image, rotations, 2 * self.settings.resolution)

    def learn(self) -> None:
        """Prepares the memory bank for matching."""
        view = make_view(self._rules(), self.view_.region, self.tile_side)
        self.view_ = view.fitted(self.memory_)
        if self.core_ is not None:
            self.view_ = self.view_.compacted(self.core_.kept)

    def unfitted(self) -> "HyperFSAD":
        """A copy with the same settings and encoder that has seen no normal image."""
        fresh = super().unfitted()
        fresh.core_ = None
        fresh.view_ = fresh._new_view()
        return fresh

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "view_": self.view_.region}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.view_ = make_view(self._rules(), state["view_"], self.tile_side)
        super().__setstate__({**state, "view_": self.view_})

    def extend(self, images: Images) -> "HyperFSAD":
        """Remembers more good parts; the same as fitting on all of them at once.

        What `auto` chose for `rotations` stays, unless it had one good part alone to choose from.
        Thresholds that came from the normal images are estimated again; those from further good
        parts are marked as stale.
        """
        self.require_fitted()
        before, calibration = len(self.support_), self.calibration_
        memory, limit, view = self.memory_, self.foreign_, self.view_
        super().extend(images)
        thresholds = self.threshold_, self.map_threshold_
        self._tell(about_anomalous(anomalous_before(view, self.memory_, *thresholds)))
        if limit is not None:
            self._tell(about_strangers(strangers(memory, self.memory_, limit)))
        if self.tentative_ and len(self.support_) > before:  # there is more to tell it from
            choice = chosen_again(self.memory_, self.notify)
            self.rotations_, self.tentative_ = choice.rotations, choice.tentative
            self.remember(*choice.banks)
        self._know_strangers()
        if len(self.support_) > before:
            self._decided_again(calibration)
            self._compacted()
        return self

    def forget(self, hashes: Collection[str]) -> "HyperFSAD":
        """Forgets good parts, given by the hashes of their pixels (`support_`), as if they had
        never been learnt. What `auto` chose for `rotations` stays.

        Thresholds follow as in `extend`.
        """
        self.require_fitted()
        images = self.memory_.images
        gone = [place for place, image in enumerate(images) if image.sha256 in hashes]
        if not gone:
            raise UsageError("The detector has learnt none of these pictures.")
        if len(gone) == len(images):
            raise UsageError("A detector keeps at least one good part; learn another one first.")
        calibration = self.calibration_
        self.remember(self.memory_.without(*gone))
        self._know_strangers()
        self._decided_again(calibration)
        return self._compacted()

    def score_images(self, images: Sequence[PreparedImage]) -> list[TokenScore]:
        """The scores of a few images that were read, as one batch."""
        return self.view_.score(images, self.encoder_)

    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        """The scores of images of which only the tokens as a whole are known."""
        return self.view_.score_tokens(tokens)

    def colour_scale(self) -> tuple[float, float]:
        """From how well the normal images explain each other."""
        return self.view_.colour_scale()

    def evidence(
        self, image: ImageSource | LoadedImage, x: float | None = None, y: float | None = None
    ) -> Evidence:
        """Which normal patches rebuilt the patch at x, y (default: the map's peak) of an image."""
        self.require_fitted()
        found = self.view_.evidence(load_image(image), x, y, self.encoder_)
        return replace(found, orientations=self.orientations)

    def hypergraph(
        self,
        image: ImageSource | LoadedImage,
        layer: int | None = None,
    ) -> Hypergraph:
        """Which normal patches rebuild which patches of an image, in a layer (default: last)."""
        self.require_fitted()
        found = self.view_.hypergraph(load_image(image), layer, self.encoder_)
        return replace(found, orientations=self.orientations)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything but the encoder's weights into one file."""
        header, target, view = self.header(), file_path(path), self.view_
        reads_from_it = view.reads_from(target)
        further: dict[str, torch.Tensor] = {}
        if self.quantised_ is not None:
            from .quantised import tensors_of

            further = tensors_of(self.quantised_)
        storage.write_detector(target, self.memory_, header, view, further)
        if reads_from_it:  # from here on it reads from the new file
            stored = storage.read_detector(target)[0]
            self.memory_ = replace(self.memory_, extras=stored.extras)
            self.learn()

    def identity(self) -> str:
        """A hash of all that its scores depend on: equal detectors, equal results.

        Devices and engines of float32 are left out: they differ by rounding (below 1e-4 in a
        score), so a run may be resumed with another one. Results are the same bytes only with the
        same one.
        """
        return identity_of(self)

    def header(self) -> dict[str, Any]:
        """All that a file says of it beside the memory bank."""
        self.require_fitted()
        return header_of(self)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, backbone: str | None = None, **machine: Any
    ) -> "HyperFSAD":
        """Reads a detector file; safe with files from strangers. Weights load at the first image.

        One of 8 bits holds a graph that OpenVINO reads then: as safe as its reader.

        `backbone` names the encoder's folder where it lies elsewhere than on the machine that
        wrote the file; its weights must be the same. `device`, `engine`, `batch_size` and `notify`
        as in `HyperFSAD`.
        """
        bank, header = storage.read_detector(file_path(path))
        return cls.restored(bank, header, os.fspath(path), backbone=backbone, **machine)

    @classmethod
    def restored(
        cls,
        bank: MemoryBank,
        header: dict[str, Any],
        path: str,
        *,
        backbone: str | None,
        prefix: str = "",
        **machine: Any,
    ) -> "HyperFSAD":
        """A detector from its memory bank and what `header` said of it; `path` names the file, and
        `prefix` begins the names of its further tensors there."""
        detector: HyperFSAD = restored(cls, bank, header, path, backbone, machine, prefix)
        return detector

    def __repr__(self) -> str:
        count = len(self.memory_.normal_images) if hasattr(self, "memory_") else 0
        return f"HyperFSAD({self.backbone!r}, {self.settings.resolution} px, {count} normal images)"


def _size(source: ImageSource | LoadedImage) -> tuple[int, int] | None:
    """Width and height of a picture; None where it cannot be read."""
    try:
        return load_image(source).size
    except ImageError:
        return None
