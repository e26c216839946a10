"""HyperFSAD: the only class most users meet. Show it good parts, then ask about others."""

import hashlib
import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor

from . import storage
from .base import FewShotDetector, ImageTokens
from .calibration import FALSE_ALARM_RATE, Calibration, check_rate
from .colours import colour_scale
from .encoders import REGISTRY, EncoderSettings
from .encoders.store import Notify, silent
from .errors import DetectorFileError, HyperfsadWarning, UsageError
from .evidence import Evidence, explain
from .foreground import Foreground, find_foreground
from .images import ImageSource, LoadedImage, load_image
from .matcher import Comparison, Matcher
from .memory import MemoryBank
from .orientation import AUTO_ROTATIONS, check_rotations, choose_rotations, first_few
from .recipes import DEFAULT_RECIPE, find_recipe, recipe_layers
from .rehearsal import calibrated_on_good_parts, calibrated_on_support
from .roi import AUTO, Roi, RoiSource, make_roi, parse_polygon
from .scoring import Pooling, cls_score, image_score
from .sources import Images, single_images
from .turning import angle_of, turned


class HyperFSAD(FewShotDetector):
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
        device: str = "auto",
        engine: str = "auto",
        batch_size: int | None = None,
        notify: Notify = silent,
    ) -> None:
        """`recipe` (default, paper) says what the other choices are unless they are given.

        `lam` is the paper's λ, the weight of the map in the score. `rotations` remembers each good
        part in so many orientations; `auto` finds out whether that helps. `roi` says where to look:
        a mask, the corners of a polygon in pixels of the first good part, or `auto`, the part
        itself. `notify` takes messages.
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
        each of the first six; `threshold=False` leaves that out.
        """
        check_rate(false_alarm_rate)
        self.roi_ = None  # a mask or a polygon is measured by the first image
        self._fit_turning(images)
        if self._looks_for_parts and self._foreground is None:
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

    def _fit_turning(self, images: Images) -> "HyperFSAD":
        if isinstance(self.rotations, int):
            return super().fit(images)
        sources = single_images(images)
        first = first_few(sources)
        self.rotations_ = AUTO_ROTATIONS if len(first) > 1 else 1
        looked_at = self._new_banks(first, known=())
        skipped = self.skipped_
        choice = choose_rotations(looked_at)
        self.rotations_ = choice.rotations
        self.notify(choice.reason)
        known = tuple(image for bank in choice.banks for image in bank.images)
        in_hand = self._in_hand
        banks = [*choice.banks, *self._new_banks(sources, known)]
        self._in_hand = {**in_hand, **self._in_hand}
        self.skipped_ = skipped + self.skipped_
        return self.remember(self._joined(banks))

    def seen(self, image: LoadedImage) -> LoadedImage:
        """The image without what lies outside the region of interest."""
        if self.roi is None or self._looks_for_parts:
            return image
        if self.roi_ is None:
            self.roi_ = make_roi(self.roi, image.size)
        return self.roi_.hide(image, self.settings.mean)

    def inside(self, image: ImageTokens) -> Tensor | None:
        """Which patches of an image lie in the region of interest, (N,); None means all."""
        return self.comparison.patches(image.patches)

    @property
    def _looks_for_parts(self) -> bool:
        return isinstance(self.roi, str) and self.roi == AUTO

    def support_views(self, image: LoadedImage) -> list[LoadedImage]:
        """A normal image in all orientations that are remembered, itself first."""
        return turned(image, self.rotations_, 2 * self.settings.resolution)

    def angle_of_view(self, view: int) -> float:
        """Degrees, against the clock, by which a view of a normal image is turned."""
        return angle_of(view, self.rotations_) if self.rotations_ > 1 else 0.0

    def learn(self) -> None:
        """Prepares each layer of the memory bank for matching."""
        if self._looks_for_parts:
            self._foreground = find_foreground(self.memory_, self.settings.grid)
        self._matcher = Matcher(self.memory_, self.comparison)

    def unfitted(self) -> "HyperFSAD":
        """A copy with the same settings and encoder that has seen no normal image."""
        fresh = super().unfitted()
        fresh.__dict__.pop("_matcher", None)
        return fresh

    def patch_scores(self, image: ImageTokens) -> Tensor:
        """Sparse Hyper Matching: how far each patch is from its reconstruction, at each scale."""
        return self._matcher.distances(image.patches)

    def image_score(self, anomaly_map: Tensor, image: ImageTokens) -> tuple[float, float, float]:
        """Dual-Branch Image Scoring."""
        inside = self.inside(image)
        values = anomaly_map.flatten() if inside is None else anomaly_map.flatten()[inside]
        score_map = float(self._pool(values))
        score_cls = float(cls_score(image.cls, self.memory_.cls))
        return image_score(score_map, score_cls, self.lam), score_map, score_cls

    def colour_scale(self) -> tuple[float, float]:
        """From how well the normal images explain each other."""
        return colour_scale(self.memory_, self.comparison)

    def evidence(
        self, image: ImageSource, x: float | None = None, y: float | None = None
    ) -> Evidence:
        """Which normal patches rebuilt the patch at x, y (default: the map's peak) of an image."""
        self._require_fitted()
        return explain(self, load_image(image), x, y)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything but the encoder's weights into one file."""
        header = self._header()
        further = {} if self.roi_ is None else {"roi": self.roi_.tensor()}
        storage.write_detector(Path(path), self.memory_, header, further)

    def identity(self) -> str:
        """A hash of all that its scores depend on: equal detectors, equal results.

        Devices and engines are left out: they differ by rounding (below 1e-4 in a score), so a run
        may be resumed with another one. Results are the same bytes only with the same one.
        """
        header = self._header()
        images = [image.sha256 for image in self.memory_.normal_images]
        text = json.dumps([header, images], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def __repr__(self) -> str:
        count = len(self.memory_.normal_images) if hasattr(self, "memory_") else 0
        return f"HyperFSAD({self.backbone!r}, {self.settings.resolution} px, {count} normal images)"

    def _header(self) -> dict[str, Any]:
        self._require_fitted()
        fingerprint = self._fingerprint or self.encoder_.fingerprint
        return {
            "encoder": {**asdict(self.settings), "fingerprint": fingerprint},
            "recipe": self.recipe,
            "lookup": self.lookup,
            "sharpness": self.sharpness,
            "scales": list(self.scales),
            "pooling": self.pooling,
            "lambda": self.lam,
            "rotations": self.rotations_,
            "roi": AUTO if self._looks_for_parts else self.roi_ and self.roi_.described(),
            "scale": list(self.scale_),
            "threshold": self.threshold_,
            "map_threshold": self.map_threshold_,
            "calibration": self.calibration_.to_dict() if self.calibration_ else None,
        }

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        backbone: str | None = None,
        device: str = "auto",
        engine: str = "auto",
        batch_size: int | None = None,
        notify: Notify = silent,
    ) -> "HyperFSAD":
        """Reads a detector file; safe with files from strangers. Weights load at the first image.

        `backbone` names the encoder's folder where it lies elsewhere than on the machine that
        wrote the file; its weights must be the same.
        """
        bank, header = storage.read_detector(Path(path))
        return cls.restored(
            bank,
            header,
            os.fspath(path),
            backbone=backbone,
            device=device,
            engine=engine,
            batch_size=batch_size,
            notify=notify,
        )

    @classmethod
    def restored(
        cls,
        bank: MemoryBank,
        header: dict[str, Any],
        path: str,
        *,
        backbone: str | None,
        **machine: Any,
    ) -> "HyperFSAD":
        """A detector from its memory bank and what `_header` said of it; `path` names the file."""
        try:
            stored = dict(header["encoder"])
            fingerprint = str(stored.pop("fingerprint"))
            if backbone is not None:
                if stored["name"] in REGISTRY and backbone != stored["name"]:
                    raise UsageError(
                        f"{path} was made with {stored['name']} and works with no other encoder;"
                        " --backbone only names the place of a folder that moved."
                    )
                stored["name"] = backbone
            for name in ("layers", "mean", "std"):
                stored[name] = tuple(stored[name])
            settings = EncoderSettings(**stored)
            if settings.name not in REGISTRY and not os.path.isdir(settings.name):
                raise UsageError(
                    f"{path} needs the encoder folder {settings.name}, which is not there;"
                    " give its place as backbone (--backbone FOLDER)."
                )
            detector = cls(
                settings.name,
                recipe=header.get("recipe", "paper"),  # as all were before there were recipes
                layers=settings.layers,
                resolution=settings.resolution,
                lookup=header["lookup"],
                sharpness=header.get("sharpness", 1.0),
                scales=header.get("scales", (1,)),
                pooling=header["pooling"],
                lam=header["lambda"],
                rotations=int(header.get("rotations", 1)),
                roi=AUTO if header.get("roi") == AUTO else None,
                **machine,
            )
            if isinstance(described := header.get("roi"), dict):
                mask = storage.read_further(Path(path), header, "roi")
                detector.roi_ = Roi.stored(mask, described)
                detector.roi = Image.fromarray(mask.numpy() * 255)
            low, high = map(float, header["scale"])
            detector.threshold_ = header["threshold"]
            level = header.get("map_threshold")  # detectors of before have none
            detector.map_threshold_ = None if level is None else float(level)
            lines = header.get("calibration")
            detector.calibration_ = None if lines is None else Calibration.from_dict(lines)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, UsageError):
                raise
            raise DetectorFileError(f"{path} is damaged: {error!r}.") from error
        detector.settings = settings
        detector.remember(bank)
        detector._scale = (low, high)
        detector._fingerprint = fingerprint
        return detector
