"""From images to a result each: one by one, or many in batches while others are read ahead.

Whoever can read an image and judge a few of them answers this way, with torch or without. What goes
wrong with one of many images is its own error, and the others go on.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol, TypeVar

from ..errors import ImageError, NotFiniteError
from ..images import reading
from ..images.loading import ImageSource, LoadedImage, batched
from .result import AnomalyResult


class Named(Protocol):
    """An image that was read."""

    @property
    def name(self) -> str:
        """What errors call it."""
        ...


Image = TypeVar("Image", bound=Named)


def answer(image: Image, judge: Callable[[Sequence[Image]], list[AnomalyResult]]) -> AnomalyResult:
    """The result of one image; NotFiniteError with its name where it has none."""
    try:
        return judge([image])[0]
    except NotFiniteError as error:
        raise unjudged(image.name, error) from error


def answers(
    sources: Iterable[ImageSource | LoadedImage],
    read: Callable[[ImageSource | LoadedImage], Image],
    judge: Callable[[Sequence[Image]], list[AnomalyResult]],
    *,
    batch: int,
    read_ahead: int,
) -> Iterator[AnomalyResult]:
    """The results of many images, in their order; a thread of its own reads them."""

    def tried(source: ImageSource | LoadedImage) -> Image | AnomalyResult:
        try:
            return read(source)
        except ImageError as error:
            if isinstance(source, str | os.PathLike):
                name = os.fspath(source)
            else:
                name = source.name if isinstance(source, LoadedImage) else "image"
            return AnomalyResult.failed(name, str(error))

    with closing(reading.read_ahead(tried, sources, max(read_ahead, batch))) as images:
        for several in batched(images, batch):
            yield from _judged(several, judge)


def _judged(
    batch: list[Any], judge: Callable[[Sequence[Image]], list[AnomalyResult]]
) -> list[AnomalyResult]:
    """A result for each; the list is emptied, so that pictures go before others are read."""
    readable = [image for image in batch if not isinstance(image, AnomalyResult)]
    results = iter(_results_or_errors(readable, judge))
    found = [image if isinstance(image, AnomalyResult) else next(results) for image in batch]
    batch.clear()
    return found


def _results_or_errors(
    images: Sequence[Image], judge: Callable[[Sequence[Image]], list[AnomalyResult]]
) -> list[AnomalyResult]:
    """A result for each; what is not finite is the error of its image alone."""
    if not images:
        return []
    try:
        return judge(images)
    except NotFiniteError as error:
        if len(images) > 1:
            return [result for one in images for result in _results_or_errors([one], judge)]
        return [AnomalyResult.failed(images[0].name, str(unjudged(images[0].name, error)))]


def unjudged(name: str, error: NotFiniteError) -> NotFiniteError:
    """The error of an image, which had no name where it was found."""
    return NotFiniteError("not-judged", image=name, error=error)
