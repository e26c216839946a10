"""From what a user names to single images: folders, globs and iterables, read one ahead."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import TypeAlias, TypeGuard, TypeVar

import numpy as np
from PIL import Image

from ..errors import HyperfsadWarning, ImageError, UsageError
from .finding import find_images, is_collection
from .loading import ImageSource, LoadedImage, NormalImage, load_image
from .pipeline import AHEAD, ahead

Images: TypeAlias = ImageSource | Iterable[ImageSource]

Item = TypeVar("Item")


def is_one_image(images: object) -> TypeGuard[ImageSource]:
    """Whether this is one image rather than a folder, a glob or several."""
    if isinstance(images, str | os.PathLike):
        return not is_collection(images)
    return isinstance(images, Image.Image | np.ndarray)


def single_images(images: Images) -> Iterator[ImageSource]:
    """The single images of a folder, a glob or an iterable of any of these, lazily."""
    if isinstance(images, Image.Image | np.ndarray):
        yield images
    elif isinstance(images, str | os.PathLike):
        yield from find_images([images]).paths if is_collection(images) else [images]
    elif isinstance(images, Iterable):
        for item in images:
            yield from single_images(item)
    else:
        raise UsageError(
            "Images are a folder, a glob, paths, PIL images or NumPy arrays,"
            f" not {type(images).__name__}."
        )


def distinct_images(
    images: Images,
    work: Callable[[LoadedImage], Item],
    skipped: list[ImageError],
    known: dict[str, str],
    *,
    kind: str = "An image",
    copies: bool = False,
    count: int = AHEAD,
) -> Iterator[tuple[NormalImage, Item]]:
    """What `work` makes of each image, in their order, in a thread that reads ahead.

    An image that cannot be read is warned about and goes to `skipped`. `known` holds names by
    hash; a picture that is known already is warned about and left out, since a copy would count
    twice; others become known, unless `copies` of each other are welcome. `count` images are read
    ahead.
    """

    def read(source: ImageSource) -> tuple[NormalImage, Item] | ImageError:
        try:
            loaded = load_image(source)
            return NormalImage(loaded.name, loaded.sha256(), loaded.size), work(loaded)
        except ImageError as error:
            return error

    learnt = frozenset(known)
    with closing(ahead(read, single_images(images), count)) as found:
        for image in found:
            if isinstance(image, ImageError):
                skipped.append(image)
                _warn(f"{kind} is left out: {image}")
                continue
            normal = image[0]
            if normal.sha256 in known:
                _warn(_twice(normal, known[normal.sha256], normal.sha256 in learnt))
                continue
            if not copies:
                known[normal.sha256] = normal.name
            yield image


def _twice(image: NormalImage, first: str, learnt: bool) -> str:
    if learnt:
        under = "" if image.name == first else f", as {first},"
        return f"{image.name} was learnt already{under} and is left out."
    return f"{image.name} shows the same picture as {first} and is left out."


def _warn(sentence: str) -> None:
    warnings.warn(sentence, HyperfsadWarning, stacklevel=5)
