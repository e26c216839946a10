"""HyperFSAD: the only class most users meet. Show it good parts, then ask about others."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace

from torch import Tensor

from ..decisions.foreground import Foreground, find_foreground
from ..decisions.roi import AUTO, Roi, RoiSource, make_roi, parse_polygon
from ..decisions.thresholds import FALSE_ALARM_RATE, Calibration, check_rate
from ..encoders.prepared import PreparedImage
from ..encoders.tokens import ImageTokens
from ..errors import HyperfsadWarning, UsageError
from ..evidence.evidence import Evidence
from ..evidence.explaining import explain
from ..images.loading import ImageSource, LoadedImage, NormalImage, load_image
from ..images.reading import Images
from ..images.rotation import angle_of, turned
from ..messages import Notify, silent
from ..method.matcher import Comparison, Matcher
from ..method.memory import MemoryBank
from ..method.scoring import Pooling, TokenScore, cls_score, image_score
from ..views import tiled
from ..views.colours import colour_scale
from ..views.rehearsal import calibrated_on_good_parts, calibrated_on_support
from ..views.tile_files import Spool
from ..views.tile_memory import TileMemory
from .archive import ArchivedDetector
from .orientation import check_rotations, learnt_in_orientations
from .recipes import DEFAULT_RECIPE, find_recipe, recipe_layers


class HyperFSAD(ArchivedDetector):
    """Few-shot anomaly detector: frozen tokens, sparse reconstruction, two scores.

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
        scales: Iterable[int] | None = None,
        rotations: int | str = 1,
        roi: "RoiSource | None" = None,
        tiles: int | bool | None = None,
        device: str = "auto",
        engine: str = "auto",
        batch_size: int | None = None,
        notify: Notify = silent,
    ) -> None:
        """`recipe` (default, paper) says what the other choices are unless they are given.

        `lam` is the paper's λ, the weight of the map in the score. `rotations` remembers each good
        part in so many orientations; `auto` finds out whether that helps. `roi` says where to look:
        a mask, the corners of a polygon in pixels of the first good part, or `auto`, the part
        itself. `tiles` cuts images into tiles of so many pixels a side (True: as many as the
        encoder takes, so that no detail is lost), for large images and small defects. `notify`
        takes messages.
        `device` and `engine` (auto, torch, openvino) say where and how the encoder runs, and are no
        part of the detector: it is saved without them.
        """
        chosen = find_recipe(recipe)
        encoder, usual = recipe_layers(recipe, backbone)
        super().__init__(
            encoder,
            layers=usual if layers is None else layers,
            resolution=resolution,
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
        self.scales = chosen.scales if scales is None else tuple(scales)
        if not 0 <= self.lam <= 1:
            raise UsageError(f"λ lies between 0 and 1, not at {self.lam}.")
        check_rotations(rotations)
        self.rotations = rotations
        self.rotations_ = rotations if isinstance(rotations, int) else 1
        """In how many orientations each normal image is remembered."""
        self.roi = roi
        self.roi_: Roi | None = None
        """Where to look, if that is the same place in all images; known after the first one."""
        self._foreground: Foreground | None = None
        if roi is not None:
            parse_polygon(roi)  # refuses what is neither
        self.tile_side = tiled.tile_side(tiles, self.settings.resolution, self.settings.grid)
        """Of a tile in pixels of the image; None: images are looked at as a whole."""
        self.needs_pictures = self.tile_side is not None
        if self.needs_pictures:
            tiled.refuse_together(rotations, roi)
        self._spool: Spool | None = None
        self.comparison  # noqa: B018 (refuses what cannot be compared)
        self._pool = Pooling.parse(self.pooling)

    @property
    def comparison(self) -> Comparison:
        """How patches are compared with normal ones."""
        inside = self.roi_ or self._foreground
        return Comparison(self.settings.grid, self.lookup, self.sharpness, self.scales, inside)

    def fit(
        self,
        images: Images,
        *,
        threshold: bool = True,
        false_alarm_rate: float = FALSE_ALARM_RATE,
    ) -> "HyperFSAD":
        """Remembers good parts: a folder, a glob, paths, PIL images or arrays.

        Then it draws the line from them alone, which takes the time of five further images for
        each of the first six, or of up to 85 tiles for each of the first four; `threshold=False`
        leaves that out.
        """
        check_rate(false_alarm_rate)
        self.roi_ = None  # a mask or a polygon is measured by the first image
        if isinstance(self.rotations, int):
            super().fit(images)
        else:
            self.remember(learnt_in_orientations(self, images))
        if self.looks_for_parts and self._foreground is None:
            self.notify(
                "No part stands out from its surroundings in these pictures; the region of interest"
                " is the whole picture."
            )
        self._draw(None)
        return self.calibrate(false_alarm_rate=false_alarm_rate) if threshold else self

    def extend(self, images: Images) -> "HyperFSAD":
        """Remembers more good parts; the same as fitting on all of them at once.

        A line that was drawn from the normal images is drawn again, where their files are still
        there; one from further good parts is marked as stale.
        """
        self._require_fitted()
        before, lines = len(self.support_), self.calibration_
        super().extend(images)
        if lines is None or len(self.support_) == before:
            return self
        if lines.method == "support":
            return self.calibrate(false_alarm_rate=lines.rate)
        self.calibration_ = lines.outdated()
        return self

    def calibrate(
        self, images: "Images | None" = None, *, false_alarm_rate: float = FALSE_ALARM_RATE
    ) -> "HyperFSAD":
        """Draws the line between good and anomalous.

        `images` are good parts that were not learnt: with 1/α − 1 of them or more (19 for 5 %) at
        most a share α of good parts is called anomalous, on average over the draw of these images.
        Without them the line is an estimate from the normal images.
        """
        self._require_fitted()
        if images is not None:
            self._draw(calibrated_on_good_parts(self, images, false_alarm_rate))
            return self
        lines = calibrated_on_support(self, self._in_hand, false_alarm_rate)
        self._in_hand = {}
        if lines is not None:
            self._draw(lines)
            return self
        warnings.warn(
            "No normal image could be read again, so no threshold was found from them; calibrate"
            " with good parts instead.",
            HyperfsadWarning,
            stacklevel=2,
        )
        if self.calibration_ is not None:
            self.calibration_ = self.calibration_.outdated()
        return self

    def _draw(self, lines: Calibration | None) -> None:
        self.calibration_ = lines
        self.threshold_ = None if lines is None else lines.threshold
        self.map_threshold_ = None if lines is None else lines.map_threshold

    def seen(self, image: LoadedImage) -> LoadedImage:
        """The image without what lies outside the region of interest."""
        if self.roi is None or self.looks_for_parts:
            return image
        if self.roi_ is None:
            self.roi_ = make_roi(self.roi, image.size, self.settings.grid)
        return self.roi_.hide(image, self.settings.mean)

    def inside(self, image: ImageTokens) -> Tensor | None:
        """Which patches of an image lie in the region of interest, (N,); None means all."""
        return self.comparison.patches(image.patches)

    @property
    def looks_for_parts(self) -> bool:
        """Whether the region of interest is found in each picture."""
        return isinstance(self.roi, str) and self.roi == AUTO

    def support_views(self, image: LoadedImage) -> list[LoadedImage]:
        """A normal image in all orientations that are remembered, itself first."""
        return turned(image, self.rotations_, 2 * self.settings.resolution)

    def angle_of_view(self, view: int) -> float:
        """Degrees, against the clock, by which a view of a normal image is turned."""
        return angle_of(view, self.rotations_) if self.rotations_ > 1 else 0.0

    def learn(self) -> None:
        """Prepares each layer of the memory bank for matching."""
        if self.looks_for_parts:
            self._foreground = find_foreground(self.memory_, self.settings.grid)
        bank = self.memory_
        self._matcher = Matcher(bank, self.comparison)
        if len(bank.tiles) != (len(bank) if self.needs_pictures else 0):
            raise UsageError("This memory bank was made with other tiles than the detector's.")
        self.tile_memory_ = TileMemory(bank.tiles, self.comparison, bank.cls.device)

    def _new_banks(self, images: Images, known: tuple[NormalImage, ...]) -> list[MemoryBank]:
        try:
            return super()._new_banks(images, known)
        finally:
            self._spool = None  # from here on it lives as long as the tiles in it

    def closer(self, bank: MemoryBank, pictures: Sequence[LoadedImage]) -> MemoryBank:
        """Adds the tiles of normal images."""
        if not self.needs_pictures:
            return bank
        self._spool = spool = self._spool or Spool()
        return replace(bank, tiles=tuple(tiled.remembered(self, p, spool) for p in pictures))

    def look(self, images: Sequence[PreparedImage]) -> list[TokenScore]:
        """The scores of a few images that were read; where there are tiles, from theirs."""
        found = super().look(images)
        if not self.needs_pictures:
            return found
        return [tiled.look_closer(self, *pair) for pair in zip(images, found, strict=True)]

    def unfitted(self) -> "HyperFSAD":
        """A copy with the same settings and encoder that has seen no normal image."""
        fresh = super().unfitted()
        for derived in ("_matcher", "tile_memory_"):
            fresh.__dict__.pop(derived, None)
        return fresh

    def patch_scores(self, image: ImageTokens) -> Tensor:
        """Sparse Hyper Matching: how far each patch is from its reconstruction, at each scale."""
        return self._matcher.distances(image.patches)

    def image_score(self, anomaly_map: Tensor, image: ImageTokens) -> tuple[float, float, float]:
        """Dual-Branch Image Scoring."""
        inside = self.inside(image)
        values = anomaly_map.flatten() if inside is None else anomaly_map.flatten()[inside]
        score_map = self.pooled(values)
        score_cls = float(cls_score(image.cls, self.memory_.cls))
        return image_score(score_map, score_cls, self.lam), score_map, score_cls

    def pooled(self, values: Tensor) -> float:
        """What the map says of the image as a whole.

        Where there are tiles, a share is one of a tile's patches, wherever in the image they lie:
        of a hundred million pixels 2 % would be a thousand times a small defect, which would drown.
        """
        return float(self._pool(values, self.settings.grid**2 if self.needs_pictures else None))

    def colour_scale(self) -> tuple[float, float]:
        """From how well the normal images explain each other."""
        if self.needs_pictures:
            return tiled.colour_scale(self.memory_, self.comparison)
        return colour_scale(self.memory_, self.comparison)

    def evidence(
        self, image: ImageSource, x: float | None = None, y: float | None = None
    ) -> Evidence:
        """Which normal patches rebuilt the patch at x, y (default: the map's peak) of an image."""
        self._require_fitted()
        return explain(self, load_image(image), x, y)

    def __repr__(self) -> str:
        count = len(self.memory_.normal_images) if hasattr(self, "memory_") else 0
        return f"HyperFSAD({self.backbone!r}, {self.settings.resolution} px, {count} normal images)"
