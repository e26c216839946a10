"""Several products in one detector: each image is judged by the detector of its own product."""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..decisions.region_of_interest import AUTO_ROI
from ..decisions.route import Route
from ..decisions.routing import Router, least_similarities, look_alikes
from ..decisions.thresholds import FALSE_ALARM_RATE
from ..encoders.encoder import Encoder, PreparedImage, Tokens
from ..encoders.runtime import INT8, named_engine, precision_of
from ..errors import HyperfsadWarning, ImageError, UsageError
from ..evidence.evidence import Evidence
from ..evidence.hypergraph import Hypergraph
from ..images.loading import ImageSource, LoadedImage, NormalImage, load_image
from ..images.reading import Images, product_folders
from ..method.coreset import COMPACT
from ..results.result import AnomalyResult
from . import storage
from .cascade import CascadeDetector
from .checks import file_path
from .hyperfsad import HyperFSAD
from .predictor import Predictor
from .recipes import find_recipe


class ProductDetector(Predictor):
    """A detector for each product, one encoder for all; an image goes to the product it looks like.

    >>> detector = ProductDetector().fit("products/")  # a folder of good parts for each product
    >>> detector.predict("part.png").product
    """

    def __init__(self, backbone: str | None = None, **settings: Any) -> None:
        """All that `HyperFSAD` takes; it holds for every product."""
        plain = HyperFSAD(backbone, **settings)
        if plain.roi not in (None, AUTO_ROI):
            raise UsageError(
                "A mask or polygon is the region of one product; with several, the region of"
                " interest is auto, or each product has a detector of its own."
            )
        if plain.view_.needs_pictures:
            raise UsageError(
                "Images of several products are not cut into tiles; fit a detector with tiles for"
                " each product."
            )
        if plain.budget is not None:
            raise UsageError(
                "A budget chooses the view of one product; with several, give --resolution."
            )
        if plain.memory == COMPACT:
            raise UsageError(
                "A compact memory is for one product; with several, leave --memory compact out."
            )
        if precision_of(named_engine(plain.engine)) == INT8:
            raise UsageError(
                "The engine openvino-int8 is calibrated on one product; with several, take"
                " openvino, or fit a detector for each."
            )
        plain.keep_plain()
        self._begin(plain)

    def _begin(self, plain: HyperFSAD) -> None:
        self._plain = plain  # never fitted: what all products share
        self.settings, self.batch_size = plain.settings, plain.batch_size
        self.products_: dict[str, HyperFSAD] = {}
        """The detector of each product, by name."""
        self.least_: dict[str, float] = {}
        """The least similarity with which an image still fits a product."""
        self.skipped_: list[ImageError] = []
        """Normal images of the last `fit` or `extend` that could not be read."""
        self._router: Router | None = None

    @property
    def threshold_(self) -> float | None:
        """The lowest threshold of a product; None where none has one."""
        found = [d.threshold_ for d in self.products_.values() if d.threshold_ is not None]
        return min(found, default=None)

    @property
    def min_area(self) -> float:
        """Regions of fewer pixels of the image are left out."""
        return self._plain.min_area

    @min_area.setter
    def min_area(self, pixels: float) -> None:
        for detector in (self._plain, *self.products_.values()):
            detector.min_area = pixels

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
        products: "str | os.PathLike[str] | Mapping[str, Images]",
        *,
        false_alarm_rate: float = FALSE_ALARM_RATE,
    ) -> "ProductDetector":
        """Remembers the good parts of each product: a folder of folders, or images by name."""
        if isinstance(products, str | os.PathLike):
            products = {name: found.paths for name, found in product_folders(products).items()}
        if not products:
            raise UsageError("There is no product to learn.")
        self.skipped_ = []
        fitted = {
            name: self._learnt(name, images, false_alarm_rate) for name, images in products.items()
        }
        self.products_ = fitted
        self._settle(*fitted)
        return self

    def extend(self, product: str, images: Images) -> "ProductDetector":
        """Remembers more good parts of a product, or those of a new one."""
        self.require_fitted()
        self.skipped_ = []
        self.encoder_  # noqa: B018 (a new product shares it)
        if product in self.products_:
            known = self.products_[product]
            known.extend(images)
            self.skipped_ = known.skipped_
        else:
            self.products_[product] = self._learnt(product, images)
        self._settle(product)
        return self

    def route(self, image: ImageSource) -> Route:
        """The product of an image, without judging it."""
        return self._route(load_image(image))

    def evidence(
        self, image: ImageSource | LoadedImage, x: float | None = None, y: float | None = None
    ) -> Evidence:
        """Which normal patches of its product rebuilt the patch at x, y of an image."""
        picture = load_image(image)
        route = self._route(picture)
        return replace(self.products_[route.nearest].evidence(picture, x, y), route=route)

    def hypergraph(
        self,
        image: ImageSource | LoadedImage,
        layer: int | None = None,
    ) -> Hypergraph:
        """Which normal patches of its product rebuild which patches of an image, in a layer."""
        picture = load_image(image)
        route = self._route(picture)
        return replace(self.products_[route.nearest].hypergraph(picture, layer), route=route)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything but the encoder's weights into one file."""
        self.require_fitted()
        products = {
            name: (detector.memory_, {**detector.header(), "least_similarity": self.least_[name]})
            for name, detector in self.products_.items()
        }
        storage.write_products(file_path(path), products)

    def identity(self) -> str:
        """A hash of all that its results depend on: equal detectors, equal results."""
        self.require_fitted()
        parts = [(name, d.identity(), self.least_[name]) for name, d in self.products_.items()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, backbone: str | None = None, **machine: Any
    ) -> "ProductDetector":
        """Reads a file of several products; safe with files from strangers.

        `backbone`, `device`, `engine`, `batch_size` and `notify` as in `HyperFSAD.load`.
        """
        stored = storage.read_products(file_path(path))
        products = {
            name: HyperFSAD.restored(bank, header, os.fspath(path), backbone=backbone, **machine)
            for name, (bank, header) in stored.items()
        }
        least = {name: own["least_similarity"] for name, (_, own) in stored.items()}
        detector = cls.__new__(cls)
        detector._begin(next(iter(products.values())).unfitted())
        detector.products_, detector.least_ = products, least
        return detector

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled or copied: the products; each knows how."""
        return {**self.__dict__, "_router": None}

    def __repr__(self) -> str:
        count = sum(len(each.memory_) for each in self.products_.values())
        return f"ProductDetector({list(self.products_)}, {count} normal images)"

    def _learnt(
        self, name: str, images: Images, false_alarm_rate: float = FALSE_ALARM_RATE
    ) -> HyperFSAD:
        if not name.strip():
            raise UsageError("A product needs a name.")
        self._plain.encoder_  # noqa: B018 (loaded once, before the copy)
        try:
            detector = self._plain.unfitted().fit(images, false_alarm_rate=false_alarm_rate)
        except UsageError as error:
            raise UsageError(f"The product {name} cannot be learnt: {error}") from error
        self.skipped_ += detector.skipped_
        return detector

    def _settle(self, *changed: str) -> None:
        """Updates what follows from the good parts; warns about products that look alike now."""
        self._router = None
        empty = self.encoder_.empty_cls
        banks = {name: detector.memory_ for name, detector in self.products_.items()}
        self.least_ = least_similarities(banks, empty, find_recipe(self._plain.recipe).foreign)
        for alike in look_alikes(banks):
            if alike.product in changed or alike.other in changed:
                _warn(
                    f"{alike.product} looks like {alike.other}: {alike.nearer} of its"
                    f" {alike.count} good parts could be taken for it, and defects will be judged"
                    " by the wrong one; give more good parts, or make them one product."
                )

    def _route(self, picture: LoadedImage) -> Route:
        self.require_fitted()
        return self._routes(self.encoder_.encode([picture]))[0]

    def _routes(self, tokens: Tokens) -> list[Route]:
        if self._router is None:
            banks = {name: detector.memory_ for name, detector in self.products_.items()}
            self._router = Router(banks, self.least_)
        return [self._router.route(cls) for cls in tokens.cls]

    def _results(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        tokens = self.encoder_.encode_prepared([image.pixels for image in images])
        results = []
        for place, (image, route) in enumerate(zip(images, self._routes(tokens), strict=True)):
            detector = self.products_[route.nearest]
            own = slice(place, place + 1)
            (scored,) = detector.score_tokens(Tokens(tokens.patches[own], tokens.cls[own]))
            found = detector.result(image, scored)
            results.append(replace(found, route=route, foreign=None))  # the route says it
        return results

    def require_fitted(self) -> None:
        """Refuses to answer before it has learnt a product."""
        if not self.products_:
            raise UsageError("This detector has seen no product yet; call fit first.")


def load_detector(
    path: str | os.PathLike[str], *, backbone: str | None = None, **machine: Any
) -> HyperFSAD | ProductDetector | CascadeDetector:
    """Reads a detector file, whether of one product, perhaps with a fast look, or of several.

    `backbone`, `device`, `engine`, `batch_size` and `notify` as in `HyperFSAD.load`.
    """
    header = storage.read_header(file_path(path))
    kind: type[HyperFSAD | ProductDetector | CascadeDetector] = HyperFSAD
    if storage.holds_products(header):
        kind = ProductDetector
    elif storage.holds_cascade(header):
        kind = CascadeDetector
    return kind.load(path, backbone=backbone, **machine)


def _warn(sentence: str) -> None:
    warnings.warn(sentence, HyperfsadWarning, stacklevel=4)
