"""Asking about images: one by one, or lazily each of several, read ahead of the encoder."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, overload

from numpy.typing import NDArray

from ..encoders import EncoderSettings
from ..encoders.encoder import Encoder
from ..encoders.prepared import PreparedImage, prepared
from ..errors import ImageError
from ..images.loading import ImageSource, LoadedImage, batched
from ..images.pipeline import AHEAD, ahead
from ..images.reading import Images, is_one_image, single_images
from ..results.result import AnomalyResult

if TYPE_CHECKING:
    from PIL import Image


class Predictor(ABC):
    """Answers with an `AnomalyResult` for each image; subclasses judge those that were read."""

    settings: EncoderSettings
    batch_size: int | None
    needs_pictures: bool = False
    """Whether images are taken apart by the detector itself: then one at a time is held."""

    @property
    @abstractmethod
    def encoder_(self) -> Encoder:
        """The encoder, loaded when it is first needed."""

    def seen(self, image: LoadedImage) -> LoadedImage:
        """What the encoder is shown of an image."""
        return image

    @abstractmethod
    def _results(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        """The results of a few images that were read, as one batch."""

    @abstractmethod
    def _require_fitted(self) -> None:
        """Refuses to answer before a good part was seen."""

    @overload  # an array could be iterated too, but is always one image
    def predict(  # type: ignore[overload-overlap]
        self, images: "Image.Image | NDArray[Any]", *, keep_pictures: bool = ...
    ) -> AnomalyResult: ...
    @overload
    def predict(self, images: str | os.PathLike[str], *, keep_pictures: bool = ...) -> Any: ...
    @overload
    def predict(
        self, images: "Iterable[ImageSource]", *, keep_pictures: bool = ...
    ) -> Iterator[AnomalyResult]: ...
    def predict(self, images: Images, *, keep_pictures: bool = False) -> Any:
        """Scores one image, or lazily each of several.

        One image gives an `AnomalyResult` or raises `ImageError`. An iterable, a folder or a glob
        gives an iterator, in their order; there an image that cannot be read gives a result with
        `error` set, and the others go on. A thread of its own reads a few images ahead of the
        encoder; it ends with the iterator. `keep_pictures` leaves the decoded image in each
        result, so that `plot` need not read it again; large ones are never kept.
        """
        self._require_fitted()
        if is_one_image(images):
            return self._results([self._prepared(images, keep_pictures)])[0]
        return self._predict_each(single_images(images), keep_pictures)

    def _predict_each(
        self, sources: Iterable[ImageSource], keep_pictures: bool
    ) -> Iterator[AnomalyResult]:
        def read(source: ImageSource) -> PreparedImage | AnomalyResult:
            try:
                return self._prepared(source, keep_pictures)
            except ImageError as error:
                name = os.fspath(source) if isinstance(source, str | os.PathLike) else "image"
                return AnomalyResult.failed(name, str(error))

        size = self._held_at_once
        with closing(ahead(read, sources, max(self.read_ahead, size))) as images:
            for batch in batched(images, size):
                yield from self._judged(batch)

    def _prepared(self, source: ImageSource, keep_picture: bool) -> PreparedImage:
        return prepared(
            source, self.settings, keep_picture, self.seen, keep_whole=self.needs_pictures
        )

    def _judged(self, batch: list[PreparedImage | AnomalyResult]) -> list[AnomalyResult]:
        """A result for each; the list is emptied, so that pictures go before others are read."""
        readable = [image for image in batch if isinstance(image, PreparedImage)]
        results = iter(self._results(readable) if readable else ())
        found = [image if isinstance(image, AnomalyResult) else next(results) for image in batch]
        batch.clear()
        return found

    @property
    def _held_at_once(self) -> int:
        """Images that are held as pictures: of several that are cut into tiles memory would run
        out."""
        return 1 if self.needs_pictures else self._batch_size

    @property
    def read_ahead(self) -> int:
        """Images that are read before they are asked for."""
        return 1 if self.needs_pictures else AHEAD

    @property
    def _batch_size(self) -> int:
        """On a CPU one image at a time is as fast, and its tokens never depend on its company."""
        if self.batch_size is not None:
            return self.batch_size
        return 1 if self.encoder_.device.type == "cpu" else 8
