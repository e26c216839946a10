"""Several products in one detector: each image is judged by the detector of its own product."""

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..decisions.routing import Route, Router, least_similarities, look_alikes
from ..decisions.thresholds import FALSE_ALARM_RATE, Calibration
from ..encoders.encoder import Encoder, PreparedImage, Tokens
from ..errors import DetectorFileError, HyperfsadWarning, ImageError, UsageError
from ..evidence.evidence import Evidence
from ..evidence.hypergraph import Hypergraph
from ..images.loading import ChannelOrder, ImageSource, LoadedImage, NormalImage, load_image
from ..images.reading import Images, product_folders, single_images
from ..messages import Notice, Notify, Progress, log
from ..results.result import AnomalyResult
from . import file, habits, pipeline
from .detector import HyperFSAD
from .settings import Machine, Settings, find_recipe, takes

if TYPE_CHECKING:
    from typing_extensions import Unpack  # type checkers know it without the package


class ProductDetector:
    """A detector for each product, one encoder for all; an image goes to the product it looks like.

    detector = ProductDetector().fit("products/")  # a folder of good parts for each product
    detector.predict("part.png").product
    """

    threshold_from_: str | None = None
    """Each product has a threshold of its own."""
    calibration_: Calibration | None = None
    """Each product has one of its own."""

    @takes(Settings)
    def __init__(self, settings: Settings) -> None:
        """All that `HyperFSAD` takes; it holds for every product."""
        settings.check("products")
        self._begin(settings, HyperFSAD.of(settings.changed(tiles=False)))

    @classmethod
    def of(cls, settings: Settings, notify: Notify = log) -> "ProductDetector":
        """One with choices that were made already; `notify` takes messages."""
        settings.check("products")
        detector = cls.__new__(cls)
        detector._begin(settings, HyperFSAD.of(settings.changed(tiles=False), notify))
        return detector

    def _begin(self, settings: Settings, plain: HyperFSAD) -> None:
        self.settings = settings
        self._plain = plain  # never fitted: what all products share
        self.products_: dict[str, HyperFSAD] = {}
        """The detector of each product, by name."""
        self.least_: dict[str, float] = {}
        """The least similarity with which an image still fits a product."""
        self.skipped_: list[ImageError] = []
        """Normal images of the last `fit` or `extend` that could not be read."""
        self._router: Router | None = None

    @property
    def progress(self) -> Progress:
        """Shows how far long work on images is, on any product."""
        return self._plain.progress

    @progress.setter
    def progress(self, value: Progress) -> None:
        for each in (self._plain, *self.products_.values()):
            each.progress = value

    @property
    def notify(self) -> Notify:
        """Takes messages on any product."""
        return self._plain.notify

    @notify.setter
    def notify(self, value: Notify) -> None:
        for each in (self._plain, *self.products_.values()):
            each.notify = value

    @property
    def min_area(self) -> float:
        """Regions of fewer pixels of the image are left out, on any product."""
        return self._plain.min_area

    @min_area.setter
    def min_area(self, value: float) -> None:
        for each in (self._plain, *self.products_.values()):
            each.min_area = value

    @property
    def threshold_(self) -> float | None:
        """The lowest threshold of a product; None where none has one."""
        found = [d.threshold_ for d in self.products_.values() if d.threshold_ is not None]
        return min(found, default=None)

    @property
    def map_threshold_(self) -> float | None:
        """The lowest threshold of the map of a product; None where none has one."""
        found = [d.map_threshold_ for d in self.products_.values() if d.map_threshold_ is not None]
        return min(found, default=None)

    @property
    def described(self) -> list[str]:
        """What it holds beside good parts and thresholds."""
        return [f"{len(self.products_)} product{'' if len(self.products_) == 1 else 's'}"]

    @property
    def encoder_(self) -> Encoder:
        """The encoder of all products, loaded when it is first needed."""
        encoder = self._plain.encoder_
        for detector in self.products_.values():
            if detector.use_encoder(encoder):
                self._router = None  # on the encoder's device
        return encoder

    @property
    def support_(self) -> tuple[NormalImage, ...]:
        """The normal images of all products."""
        return tuple(image for each in self.products_.values() for image in each.support_)

    def fit(
        self,
        images: "str | os.PathLike[str] | Mapping[str, Images]",
        *,
        channels: ChannelOrder = "rgb",
        threshold: bool = True,
        false_alarm_rate: float = FALSE_ALARM_RATE,
    ) -> "ProductDetector":
        """Remembers the good parts of each product: a folder of folders, or images by name."""
        if isinstance(images, str | os.PathLike):
            images = {name: found.paths for name, found in product_folders(images).items()}
        if not images:
            raise UsageError("no-product")
        self.skipped_ = []
        fitted = {
            name: self._learnt(name, single_images(parts, channels), threshold, false_alarm_rate)
            for name, parts in images.items()
        }
        self.products_ = fitted
        self._settle(*fitted)
        return self

    def extend(
        self, images: Images, *, channels: ChannelOrder = "rgb", product: str | None = None
    ) -> "ProductDetector":
        """Remembers more good parts of a product, or those of a new one."""
        self.require_fitted()
        if product is None:
            raise UsageError("product-unnamed", products=list(self.products_))
        images = single_images(images, channels)
        self.skipped_ = []
        self.encoder_  # noqa: B018 (a new product shares it)
        if product in self.products_:
            known = self.products_[product]
            known.extend(images)
            self.skipped_ = known.skipped_
        else:
            self.products_[product] = self._learnt(product, images, True, FALSE_ALARM_RATE)
        self._settle(product)
        return self

    def calibrate(
        self,
        images: "Images | None" = None,
        *,
        channels: ChannelOrder = "rgb",
        false_alarm_rate: float = FALSE_ALARM_RATE,
        keep_outliers: bool = False,
    ) -> "ProductDetector":
        """Estimates the thresholds of all products again; further good parts calibrate the detector
        of their own product (`products_`)."""
        self.require_fitted()
        if images is not None:
            raise UsageError("product-unnamed", products=list(self.products_))
        for detector in self.products_.values():
            detector.calibrate(false_alarm_rate=false_alarm_rate, keep_outliers=keep_outliers)
        return self

    def adapt(self, images: Images, *, channels: ChannelOrder = "rgb") -> "ProductDetector":
        """Unlabelled parts belong to one product: its own detector learns them (`products_`)."""
        raise UsageError("product-unnamed", products=list(self.products_))

    def teach(
        self,
        images: Images,
        defect: str,
        *,
        at: tuple[float, float] | None = None,
        product: str | None = None,
    ) -> "ProductDetector":
        """Learns what a defect of a product is called, from bad parts that have it."""
        known = self._known(product)
        self.encoder_  # noqa: B018 (which it shares)
        known.teach(images, defect, at=at)
        self.skipped_ = known.skipped_
        return self

    def forget_defect(self, defect: str, *, product: str | None = None) -> "ProductDetector":
        """Forgets the examples of a defect of a product."""
        self._known(product).forget_defect(defect)
        return self

    def _known(self, product: str | None) -> HyperFSAD:
        """The detector of a product that it has learnt."""
        self.require_fitted()
        if product is None:
            raise UsageError("product-unnamed", products=list(self.products_))
        if product not in self.products_:
            raise UsageError("product-unknown", product=product, products=list(self.products_))
        return self.products_[product]

    def move_threshold(self, threshold: float) -> None:
        """Each product has a threshold of its own (`products_`)."""
        raise UsageError("product-unnamed", products=list(self.products_))

    def route(self, image: ImageSource) -> Route:
        """The product of an image, without judging it."""
        return self._route(load_image(image))

    def explain(
        self, image: ImageSource | LoadedImage, x: float | None = None, y: float | None = None
    ) -> Evidence:
        """Which normal patches of its product rebuilt the patch at x, y of an image."""
        picture = load_image(image)
        route = self._route(picture)
        return replace(self.products_[route.nearest].explain(picture, x, y), route=route)

    def hypergraph(self, image: ImageSource | LoadedImage, layer: int | None = None) -> Hypergraph:
        """Which normal patches of its product rebuild which patches of an image, in a layer."""
        picture = load_image(image)
        route = self._route(picture)
        return replace(self.products_[route.nearest].hypergraph(picture, layer), route=route)

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

    def set_params(self, **choices: Any) -> "ProductDetector":
        """Changes choices; it forgets what it has learnt, since it learnt that with the others."""
        fresh = ProductDetector(**{**self.settings.given, **choices})
        fresh.notify, fresh.progress, fresh.min_area = self.notify, self.progress, self.min_area
        vars(self).clear()
        vars(self).update(vars(fresh))
        return self

    @property
    def batch(self) -> int:
        """Images that are encoded at once."""
        self.encoder_  # noqa: B018 (all products share it)
        return self._plain.batch

    @property
    def read_ahead(self) -> int:
        """Images that are read before they are needed."""
        return self._plain.read_ahead

    def prepare(
        self, source: ImageSource | LoadedImage, keep_picture: bool = False
    ) -> PreparedImage:
        """Reads an image as its encoder takes it."""
        return self._plain.prepare(source, keep_picture)

    def judge(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        """The results of a few images, each by the detector of its product."""
        tokens = self.encoder_.encode_prepared([image.pixels for image in images])
        results = []
        for place, (image, route) in enumerate(zip(images, self._routes(tokens), strict=True)):
            detector = self.products_[route.nearest]
            own = slice(place, place + 1)
            (scored,) = detector.score_tokens(Tokens(tokens.patches[own], tokens.cls[own]))
            found = detector.result(image, scored)
            results.append(replace(found, route=route, foreign=None))  # the route says it
        return results

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything but the encoder's weights into one file."""
        self.require_fitted()
        parts = []
        for name, detector in self.products_.items():
            part, own = detector.part(), {"name": name, "least_similarity": self.least_[name]}
            parts.append(replace(part, header={**own, **part.header}))
        file.write_file(file.file_path(path), parts, several=True)

    def identity(self) -> str:
        """A hash of all that its results depend on: equal detectors, equal results."""
        self.require_fitted()
        parts = [(name, d.identity(), self.least_[name]) for name, d in self.products_.items()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @classmethod
    def load(
        cls, path: "str | os.PathLike[str] | file.DetectorFile", **machine: "Unpack[Machine]"
    ) -> "ProductDetector":
        """Reads a file of several products; safe with files from strangers.

        `machine` as in `HyperFSAD.load`.
        """
        opened = file.open_file(path)
        if not opened.several:
            raise DetectorFileError("file-not-products", path=opened.path)
        parts = {part.header["name"]: part for part in opened.parts()}
        products = {
            name: HyperFSAD.restored(part, opened.path, **machine) for name, part in parts.items()
        }
        plain = next(iter(products.values())).unfitted()
        detector = cls.__new__(cls)
        detector._begin(plain.settings, plain)
        detector.products_ = products
        detector.least_ = {name: each.header["least_similarity"] for name, each in parts.items()}
        return detector

    def check(self, use: str) -> None:
        """Refuses a use that does not go with its settings."""
        self.settings.check(use, several=True)

    def require_fitted(self) -> None:
        """Refuses to answer before it has learnt a product."""
        if not self.products_:
            raise UsageError("detector-not-fitted")

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled or copied: the products; each knows how."""
        return {**self.__dict__, "_router": None}

    def __repr__(self) -> str:
        count = sum(len(each.memory_) for each in self.products_.values())
        return f"ProductDetector({list(self.products_)}, {count} normal images)"

    def _learnt(
        self, name: str, images: Images, threshold: bool, false_alarm_rate: float
    ) -> HyperFSAD:
        if not name.strip():
            raise UsageError("product-without-name")
        self._plain.encoder_  # noqa: B018 (loaded once, before the copy)
        try:
            detector = self._plain.unfitted().fit(
                images, threshold=threshold, false_alarm_rate=false_alarm_rate
            )
        except UsageError as error:
            raise UsageError("product-not-learnt", product=name, cause=error) from error
        self.skipped_ += detector.skipped_
        return detector

    def _settle(self, *changed: str) -> None:
        """Updates what follows from the good parts; warns about products that look alike now."""
        self._router = None
        empty = self.encoder_.empty_cls
        banks = {name: detector.memory_ for name, detector in self.products_.items()}
        self.least_ = least_similarities(banks, empty, find_recipe(self.settings.recipe).foreign)
        for alike in look_alikes(banks):
            if alike.product in changed or alike.other in changed:
                notice = Notice("products-alike", **asdict(alike))
                warnings.warn(notice, HyperfsadWarning, stacklevel=3)

    def _route(self, picture: LoadedImage) -> Route:
        self.require_fitted()
        return self._routes(self.encoder_.encode([picture]))[0]

    def _routes(self, tokens: Tokens) -> list[Route]:
        if self._router is None:
            banks = {name: detector.memory_ for name, detector in self.products_.items()}
            self._router = Router(banks, self.least_)
        return [self._router.route(cls) for cls in tokens.cls]


def load_detector(
    path: "str | os.PathLike[str] | file.DetectorFile", **machine: "Unpack[Machine]"
) -> HyperFSAD | ProductDetector:
    """Reads a detector file, whatever it holds; see `HyperFSAD.load`."""
    opened = file.open_file(path)
    if opened.several:
        return ProductDetector.load(opened, **machine)
    return HyperFSAD.load(opened, **machine)
