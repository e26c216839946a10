"""Answering for images, one by one or lazily each of several, whatever the detector."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ..encoders import EncoderSettings
from ..encoders.encoder import Encoder, PreparedImage, prepared
from ..images.loading import ImageSource, LoadedImage
from ..images.reading import READ_AHEAD, Images, is_one_image, single_images
from ..results.answering import answer, answers
from ..results.result import AnomalyResult
from ..views import Plain


class Predictor(ABC):
    """Answers with an `AnomalyResult` for each image, one by one or lazily each of several."""

    settings: EncoderSettings
    batch_size: int | None

    @property
    @abstractmethod
    def encoder_(self) -> Encoder:
        """The encoder, loaded when it is first needed."""

    @abstractmethod
    def _results(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        """The results of a few images that were read, as one batch."""

    @abstractmethod
    def require_fitted(self) -> None:
        """Refuses to answer before it has learnt a good part."""

    @property
    def _sight(self) -> Plain:
        """What is shown to the encoder."""
        return Plain()

    @overload  # an array could be iterated too, but is always one image
    def predict(  # type: ignore[overload-overlap]
        self, images: "Image.Image | NDArray[Any] | Tensor", *, keep_pictures: bool = ...
    ) -> AnomalyResult: ...
    @overload
    def predict(self, images: str | os.PathLike[str], *, keep_pictures: bool = ...) -> Any: ...
    @overload
    def predict(
        self, images: "Iterable[ImageSource | LoadedImage]", *, keep_pictures: bool = ...
    ) -> Iterator[AnomalyResult]: ...
    def predict(self, images: Images, *, keep_pictures: bool = False) -> Any:
        """Scores one image, or lazily each of several.

        One image gives an `AnomalyResult` or raises `ImageError`. An iterable, a folder or a glob
        gives an iterator, in their order; there an image that cannot be read gives a result with
        `error` set, and the others go on. A thread of its own reads a few images ahead of the
        encoder; it ends with the iterator. `keep_pictures` leaves the decoded image in each
        result, so that `plot` need not read it again; large ones are never kept.
        """
        self.require_fitted()
        if is_one_image(images):
            return answer(self._prepared(images, keep_pictures), self._results)
        return self._predict_each(single_images(images), keep_pictures)

    def _predict_each(
        self, sources: Iterable[ImageSource | LoadedImage], keep_pictures: bool
    ) -> Iterator[AnomalyResult]:
        yield from answers(  # the encoder is loaded when the first result is asked for
            sources,
            lambda source: self._prepared(source, keep_pictures),
            self._results,
            batch=self._batch,
            read_ahead=self._read_ahead,
        )

    def _prepared(
        self, source: ImageSource | LoadedImage, keep_picture: bool = False
    ) -> PreparedImage:
        sight = self._sight
        return prepared(
            source,
            self.settings,
            sight.visible,
            keep_picture=keep_picture,
            keep_whole=sight.needs_pictures,
        )

    @property
    def _batch(self) -> int:
        """Images that are encoded at once; of several large pictures memory would run out."""
        if self._sight.needs_pictures:
            return 1
        return self.batch_size or self.encoder_.usual_batch

    @property
    def _read_ahead(self) -> int:
        """Images that are read before they are asked for."""
        return 1 if self._sight.needs_pictures else READ_AHEAD
