"""HyperFSAD: the only class most users meet. Show it good parts, then ask about others."""

import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeGuard, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from . import storage
from .calibration import colour_scale
from .encoders import DEFAULT, REGISTRY, EncoderSettings, find_spec
from .encoders.encoder import Encoder, Tokens, load_encoder
from .encoders.store import Notify, silent
from .errors import DetectorFileError, HyperfsadWarning, ImageError, UsageError
from .images import ImageSource, LoadedImage, batched, find_images, is_collection, load_image
from .matching import LOOKUPS, reconstruct
from .memory import MemoryBank, NormalImage
from .results import AnomalyResult
from .scoring import Pooling, cls_score, image_score, patch_scores


class HyperFSAD:
    """Few-shot anomaly detector: frozen tokens, sparse reconstruction, two scores.

    >>> detector = HyperFSAD().fit("good/")
    >>> detector.predict("part.png").score
    """

    def __init__(
        self,
        backbone: str = DEFAULT,
        *,
        layers: Iterable[int] | None = None,
        resolution: int | None = None,
        lookup: str = "sparsemax",
        pooling: str = "max",
        lam: float = 0.5,
        device: str = "auto",
        batch_size: int | None = None,
        notify: Notify = silent,
    ) -> None:
        """`lam` is the paper's λ, the weight of the map in the score. `notify` takes messages."""
        self.backbone = backbone
        self.layers = None if layers is None else tuple(layers)
        self.resolution = resolution
        self.lookup = lookup
        self.pooling = pooling
        self.lam = lam
        self.device = device
        self.batch_size = batch_size
        self.notify = notify
        if lookup not in LOOKUPS:
            raise UsageError(f"The lookup is one of {', '.join(LOOKUPS)}, not {lookup!r}.")
        if not 0 <= lam <= 1:
            raise UsageError(f"λ lies between 0 and 1, not at {lam}.")
        if batch_size is not None and batch_size < 1:
            raise UsageError(f"The batch size is at least 1, not {batch_size}.")
        self._pool = Pooling.parse(pooling)
        self.settings = find_spec(backbone).settings(self.layers, resolution)
        self._encoder: Encoder | None = None
        self._fingerprint: str | None = None
        self.threshold_: float | None = None
        self.skipped_: list[ImageError] = []
        """Normal images of the last `fit` or `extend` that could not be read."""

    memory_: MemoryBank
    """The memory bank; there after `fit` or `load`."""
    scale_: tuple[float, float]
    """The colour scale of pictures, from the normal images."""

    def fit(self, images: "ImageSource | Iterable[ImageSource]") -> "HyperFSAD":
        """Remembers good parts: a folder, a glob, paths, PIL images or arrays."""
        return self._remember(self._remembered(images, known=()))

    def extend(self, images: "ImageSource | Iterable[ImageSource]") -> "HyperFSAD":
        """Remembers more good parts; the same as fitting on all of them at once."""
        self._require_fitted()
        return self._remember([self.memory_, *self._remembered(images, self.memory_.images)])

    @overload  # an array could be iterated too, but is always one image
    def predict(  # type: ignore[overload-overlap]
        self, images: "Image.Image | NDArray[Any]"
    ) -> AnomalyResult: ...
    @overload
    def predict(self, images: str | os.PathLike[str]) -> Any: ...
    @overload
    def predict(self, images: "Iterable[ImageSource]") -> Iterator[AnomalyResult]: ...
    def predict(self, images: "ImageSource | Iterable[ImageSource]") -> Any:
        """Scores one image, or lazily each of several.

        One image gives an `AnomalyResult` or raises `ImageError`. An iterable, a folder or a glob
        gives an iterator that reads images only as it is asked, in their order; there an image
        that cannot be read gives a result with `error` set, and the others go on.
        """
        self._require_fitted()
        if _is_one_image(images):
            loaded = load_image(images)
            return self._results([(images, loaded)])[0]
        return self._predict_each(_sources(images))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything but the encoder's weights into one file."""
        header = self._header()
        storage.write_detector(Path(path), self.memory_, header)

    def identity(self) -> str:
        """A hash of all that its scores depend on: equal detectors, equal results."""
        header = self._header()
        images = [image.sha256 for image in self.memory_.images]
        text = json.dumps([header, images], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _header(self) -> dict[str, Any]:
        self._require_fitted()
        return {
            "encoder": {**asdict(self.settings), "fingerprint": self.encoder_fingerprint_},
            "lookup": self.lookup,
            "pooling": self.pooling,
            "lambda": self.lam,
            "scale": list(self.scale_),
            "threshold": self.threshold_,
        }

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        backbone: str | None = None,
        device: str = "auto",
        batch_size: int | None = None,
        notify: Notify = silent,
    ) -> "HyperFSAD":
        """Reads a detector file; safe with files from strangers. Weights load at the first image.

        `backbone` names the encoder's folder where it lies elsewhere than on the machine that
        wrote the file; its weights must be the same.
        """
        bank, header = storage.read_detector(Path(path))
        try:
            stored = dict(header["encoder"])
            fingerprint = str(stored.pop("fingerprint"))
            if backbone is not None:
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
                layers=settings.layers,
                resolution=settings.resolution,
                lookup=header["lookup"],
                pooling=header["pooling"],
                lam=header["lambda"],
                device=device,
                batch_size=batch_size,
                notify=notify,
            )
            low, high = map(float, header["scale"])
            detector.threshold_ = header["threshold"]
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, UsageError):
                raise
            raise DetectorFileError(f"{path} is damaged: {error!r}.") from error
        detector.settings = settings
        detector.memory_ = bank
        detector.scale_ = (low, high)
        detector._fingerprint = fingerprint
        return detector

    @property
    def encoder_(self) -> Encoder:
        """The encoder, loaded when it is first needed."""
        if self._encoder is None:
            encoder = load_encoder(self.settings, self.device, self.notify)
            if self._fingerprint not in (None, encoder.fingerprint):
                raise DetectorFileError(
                    f"This detector was made with other weights of {self.settings.name} than those"
                    " on this machine; its scores would be wrong. Fit it again."
                )
            self._encoder = encoder
            if hasattr(self, "memory_"):
                self.memory_ = self.memory_.to(encoder.device)
        return self._encoder

    @property
    def encoder_fingerprint_(self) -> str:
        """The hash of the weights that made the tokens."""
        return self._fingerprint or self.encoder_.fingerprint

    def score_tokens(self, tokens: Tokens) -> list[tuple[NDArray[np.float32], float, float]]:
        """Map, map score and CLS score of each image of a batch."""
        lookup = LOOKUPS[self.lookup]
        grid = self.settings.grid
        scored = []
        for patches, cls in zip(tokens.patches, tokens.cls, strict=True):
            rebuilt = [
                reconstruct(query, normal, lookup)
                for query, normal in zip(patches, self.memory_.patches, strict=True)
            ]
            anomaly_map = patch_scores(tuple(patches), rebuilt).reshape(grid, grid)
            score_map = float(self._pool(anomaly_map))
            score_cls = float(cls_score(cls, self.memory_.cls))
            scored.append((anomaly_map.cpu().numpy(), score_map, score_cls))
        return scored

    def _remember(self, banks: list[MemoryBank]) -> "HyperFSAD":
        self.memory_ = MemoryBank.joined(banks).to(self.encoder_.device)
        self.scale_ = colour_scale(self.memory_, self.settings.grid, LOOKUPS[self.lookup])
        return self

    def _predict_each(self, sources: Iterable[ImageSource]) -> Iterator[AnomalyResult]:
        for batch in batched(sources, self._batch_size):
            failures: dict[int, AnomalyResult] = {}
            pairs: list[tuple[ImageSource, LoadedImage]] = []
            for index, source in enumerate(batch):
                try:
                    pairs.append((source, load_image(source)))
                except ImageError as error:
                    name = os.fspath(source) if isinstance(source, str | os.PathLike) else "image"
                    failures[index] = AnomalyResult.failed(name, str(error))
            results = iter(self._results(pairs) if pairs else ())
            for index in range(len(batch)):
                yield failures[index] if index in failures else next(results)

    def _results(self, pairs: list[tuple[ImageSource, LoadedImage]]) -> list[AnomalyResult]:
        tokens = self.encoder_.encode([image for _, image in pairs])
        return [
            AnomalyResult(
                image.name,
                image_score(score_map, score_cls, self.lam),
                score_map,
                score_cls,
                anomaly_map,
                image.size,
                self.scale_,
                source,
                self.threshold_,
            )
            for (source, image), (anomaly_map, score_map, score_cls) in zip(
                pairs, self.score_tokens(tokens), strict=True
            )
        ]

    def _remembered(
        self, images: "ImageSource | Iterable[ImageSource]", known: tuple[NormalImage, ...]
    ) -> list[MemoryBank]:
        """A bank for each batch of normal images that are readable and new."""
        self.skipped_ = []
        hashes = {image.sha256: image.name for image in known}
        banks = []
        for batch in batched(self._new_images(images, hashes), self._batch_size):
            tokens = self.encoder_.encode([loaded for loaded, _ in batch])
            banks.append(MemoryBank.of(tokens, [normal for _, normal in batch]))
        if not banks and not known:
            reasons = " ".join(str(error) for error in self.skipped_) or "None was given."
            raise UsageError(f"There is no normal image to learn from. {reasons}")
        return banks

    def _new_images(
        self, images: "ImageSource | Iterable[ImageSource]", hashes: dict[str, str]
    ) -> Iterator[tuple[LoadedImage, NormalImage]]:
        for source in _sources(images):
            try:
                loaded = load_image(source)
            except ImageError as error:
                self.skipped_.append(error)
                _warn(f"A normal image is left out: {error}")
                continue
            digest = loaded.sha256()
            if digest in hashes:  # a copy would change the weights of sparsemax
                known = hashes[digest]
                _warn(f"{loaded.name} shows the same picture as {known} and is left out.")
                continue
            hashes[digest] = loaded.name
            yield loaded, NormalImage(loaded.name, digest)

    def _require_fitted(self) -> None:
        if not hasattr(self, "memory_"):
            raise UsageError("This detector has seen no normal image yet; call fit first.")

    @property
    def _batch_size(self) -> int:
        """On a CPU one image at a time is as fast, and its tokens never depend on its company."""
        if self.batch_size is not None:
            return self.batch_size
        return 1 if self.encoder_.device.type == "cpu" else 8


def _warn(sentence: str) -> None:
    warnings.warn(sentence, HyperfsadWarning, stacklevel=5)


def _is_one_image(images: object) -> TypeGuard[ImageSource]:
    if isinstance(images, str | os.PathLike):
        return not is_collection(images)
    return isinstance(images, Image.Image | np.ndarray)


def _sources(images: "ImageSource | Iterable[ImageSource]") -> Iterator[ImageSource]:
    """The single images of a folder, a glob or an iterable of any of these, lazily."""
    if isinstance(images, Image.Image | np.ndarray):
        yield images
    elif isinstance(images, str | os.PathLike):
        yield from find_images([images]).paths if is_collection(images) else [images]
    else:
        for item in images:
            yield from _sources(item)
