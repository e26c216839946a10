"""What the rest of the house asks of a detector, whichever it is."""

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ..images.loading import ChannelOrder, ImageSource, LoadedImage, NormalImage

if TYPE_CHECKING:
    from ..decisions.thresholds import Calibration
    from ..encoders.encoder import Encoder
    from ..errors import ImageError
    from ..evidence.evidence import Evidence
    from ..evidence.hypergraph import Hypergraph
    from ..images.reading import Images
    from ..messages import Progress
    from ..results.result import AnomalyResult
    from .settings import Settings


class Predictor(Protocol):
    """Whatever judges images: detectors, peers and exported models."""

    def predict(
        self,
        image: ImageSource | LoadedImage,
        *,
        channels: ChannelOrder = "rgb",
        keep_pictures: bool = False,
    ) -> "AnomalyResult":
        """What is said of one image."""

    def predict_many(
        self, images: "Images", *, channels: ChannelOrder = "rgb", keep_pictures: bool = False
    ) -> "Iterator[AnomalyResult]":
        """What is said of each image of a folder, a glob or an iterable, lazily."""


class KnownProduct(Protocol):
    """What a report says of one product that a detector knows."""

    @property
    def support_(self) -> tuple[NormalImage, ...]:
        """The normal images."""

    @property
    def threshold_(self) -> float | None:
        """Above it an image is anomalous; of several products the lowest."""

    @property
    def threshold_from_(self) -> str | None:
        """How the threshold came about, in a few words."""


class Inspecting(Predictor, KnownProduct, Protocol):
    """What `inspect` needs: a detector, or an exported model."""

    min_area: float
    """Regions of fewer pixels of the image are left out."""

    @property
    def products_(self) -> "Mapping[str, KnownProduct]":
        """What is known of each product by its name; "" is that of a detector of one product."""

    def identity(self) -> str:
        """A hash of all that results depend on: equal detectors, equal results."""


class Detector(Inspecting, Protocol):
    """What users fit: of one product, of several, or with tiles."""

    settings: "Settings"
    progress: "Progress"
    """Shows how far long work on images is."""

    @property
    def products_(self) -> "Mapping[str, Detector]":
        """The detector of each product by its name; "" is that of a detector of one product."""

    @property
    def map_threshold_(self) -> float | None:
        """Above it a place of the map counts as a defect."""

    @property
    def calibration_(self) -> "Calibration | None":
        """How the thresholds came about; None where they were set by hand."""

    @property
    def skipped_(self) -> "list[ImageError]":
        """Normal images of the last `fit`, `extend` or `calibrate` that could not be read."""

    @property
    def encoder_(self) -> "Encoder":
        """The encoder, loaded when it is first needed."""

    @property
    def described(self) -> list[str]:
        """What it holds beside good parts and thresholds, in a few words each."""

    def fit(
        self,
        images: Any,
        *,
        channels: ChannelOrder = "rgb",
        threshold: bool = True,
        false_alarm_rate: float = 0.05,
    ) -> "Detector":
        """Learns good parts; of several products, by their names."""

    def extend(
        self, images: "Images", *, channels: ChannelOrder = "rgb", product: str | None = None
    ) -> "Detector":
        """Learns more good parts, of one of several products."""

    def calibrate(
        self,
        images: "Images | None" = None,
        *,
        channels: ChannelOrder = "rgb",
        false_alarm_rate: float = 0.05,
        keep_outliers: bool = False,
    ) -> "Detector":
        """Sets the thresholds, from further good parts or from the normal images."""

    def adapt(self, images: "Images", *, channels: ChannelOrder = "rgb") -> "Detector":
        """Learns from unlabelled parts of the line, of which nearly all are good."""

    def teach(
        self,
        images: "Images",
        defect: str,
        *,
        at: tuple[float, float] | None = None,
        product: str | None = None,
    ) -> "Detector":
        """Learns what a defect is called, from bad parts that have it."""

    def forget_defect(self, defect: str, *, product: str | None = None) -> "Detector":
        """Forgets the examples of a defect."""

    def move_threshold(self, threshold: float) -> None:
        """Sets the threshold by hand."""

    def explain(
        self, image: ImageSource | LoadedImage, x: float | None = None, y: float | None = None
    ) -> "Evidence":
        """Which normal patches rebuilt the patch at x, y of an image."""

    def hypergraph(
        self, image: ImageSource | LoadedImage, layer: int | None = None
    ) -> "Hypergraph":
        """Which normal patches rebuild which patches of an image."""

    def check(self, use: str) -> None:
        """Refuses a use that does not go with its settings, or with what `fit` chose."""

    def require_fitted(self) -> None:
        """Refuses to answer before it has learnt a good part."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything but the encoder's weights into one file."""
