"""From a folder, a glob or a list to single images, read while the encoder works, each one once.

Decoding, drawing and waiting for the disk need no encoder. So one thread reads ahead and another
writes behind, in bounded memory. Each takes one item after the other: order and results are those
of a plain loop.
"""

import os
import queue
import threading
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Generic, TypeAlias, TypeGuard, TypeVar

import numpy as np
from PIL import Image

from ..errors import HyperfsadWarning, ImageError, UsageError, brief
from .arrays import is_tensor
from .finding import find_images, is_collection
from .loading import ImageSource, LoadedImage, NormalImage, fitting_memory, load_image

Images: TypeAlias = ImageSource | LoadedImage | Iterable[ImageSource | LoadedImage]

AHEAD = 2
"""Items that are read before they are asked for: one is ready while the next is being made."""
BEHIND = 2
"""Items that wait to be written: a picture of 12 million pixels takes 48 MB."""
PATIENCE = 5.0
"""Seconds that closing waits for a source which gives nothing, such as a camera without a part."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def is_one_image(images: object) -> TypeGuard[ImageSource | LoadedImage]:
    """Whether this is one image rather than a folder, a glob or several."""
    if isinstance(images, str | os.PathLike):
        return not is_collection(images)
    return isinstance(images, Image.Image | np.ndarray | LoadedImage) or is_tensor(images)


def check_images(images: object) -> None:
    """Refuses at once what are no images; what a generator gives is checked when it is taken."""
    if is_one_image(images) or isinstance(images, str | os.PathLike):
        return
    if isinstance(images, list | tuple):
        for item in images:
            check_images(item)
    elif isinstance(images, bytes | bytearray | Mapping) or not isinstance(images, Iterable):
        raise UsageError(
            "Images are a folder, a glob, paths, PIL images, NumPy arrays or torch tensors, not"
            f" {brief(images)}."
        )


def single_images(images: Images) -> Iterator[ImageSource | LoadedImage]:
    """The single images of a folder, a glob or an iterable of any of these, lazily."""
    check_images(images)
    return _single_images(images)


def _single_images(images: Images) -> Iterator[ImageSource | LoadedImage]:
    if is_one_image(images):
        yield images
    elif isinstance(images, str | os.PathLike):
        yield from find_images([images]).paths
    elif isinstance(images, Iterable):  # as it was checked to be
        for item in images:
            yield from single_images(item)


def distinct_images(
    images: Images,
    work: Callable[[LoadedImage], Item],
    skipped: list[ImageError],
    known: dict[str, str],
    *,
    kind: str = "An image",
    copies: bool = False,
    count: int = AHEAD,
    learnt: Collection[str] | None = None,
) -> Iterator[tuple[NormalImage, Item]]:
    """What `work` makes of each image, in their order, in a thread that reads ahead.

    An image that cannot be read is warned about and goes to `skipped`. `known` holds names by
    hash; a picture that is known already is warned about and left out, since a copy would count
    twice; others become known, unless `copies` of each other are welcome. `learnt` are the hashes
    that an earlier call of the user brought, where not all of `known` are. `count` images are read
    ahead.
    """

    def read(source: ImageSource | LoadedImage) -> tuple[NormalImage, Item] | ImageError:
        try:
            loaded = load_image(source)
            with fitting_memory(loaded.name):
                return NormalImage(loaded.name, loaded.sha256(), loaded.size), work(loaded)
        except ImageError as error:
            return error

    learnt = frozenset(known if learnt is None else learnt)
    with closing(ahead(read, single_images(images), count)) as found:
        for image in found:
            if isinstance(image, ImageError):
                skipped.append(image)
                told = f"{kind} is left out: {image}"
            elif (sha256 := image[0].sha256) in known:
                told = _told_twice(image[0].name, known[sha256], sha256 in learnt)
            else:
                if not copies:
                    known[sha256] = image[0].name
                yield image
                continue
            warnings.warn(told, HyperfsadWarning, stacklevel=4)


def _told_twice(name: str, first: str, learnt: bool) -> str:
    if learnt:
        under = "" if name == first else f", as {first},"
        return f"{name} was learnt already{under} and is left out."
    return f"{name} shows the same picture as {first} and is left out."


def ahead(
    work: Callable[[Item], Result], items: Iterable[Item], count: int = AHEAD
) -> Generator[Result, None, None]:
    """As `map(work, items)`, but a thread takes up to `count` items before they are asked for.

    An item is worked on before the next is taken, so a source may use one buffer again and again.
    What the source or the work raises is raised here, after all results before it. The thread
    starts with the first question and ends with the last item or when the iterator is closed.
    """
    done: queue.SimpleQueue[tuple[Result] | BaseException | None] = queue.SimpleQueue()
    room = threading.Semaphore(count - 1)
    closed = threading.Event()

    def read() -> None:
        try:
            for item in items:
                done.put((work(item),))
                del item  # a picture need not wait here for the next one
                room.acquire()
                if closed.is_set():
                    return
            done.put(None)
        except BaseException as error:
            done.put(error)

    # a daemon, so that an iterator that nobody closes never keeps the program from ending
    thread = threading.Thread(target=read, name="hyperfsad-ahead", daemon=True)
    thread.start()
    try:
        while (outcome := done.get()) is not None:
            if isinstance(outcome, BaseException):
                raise outcome
            room.release()
            yield outcome[0]
    finally:
        closed.set()
        room.release()
        thread.join(PATIENCE)


class Behind(Generic[Item]):
    """Does `work` on items in a thread of its own, in their order, while the caller goes on.

    Leaving the `with` block waits until all is done, also after an interruption. What the work
    raises is raised by the next `put` or on leaving; items after it are passed over.
    """

    def __init__(self, work: Callable[[Item], None], count: int = BEHIND) -> None:
        self._work = work
        self._waiting: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(count)
        self._error: BaseException | None = None
        self._hurry = False
        self._thread = threading.Thread(target=self._run, name="hyperfsad-behind", daemon=True)

    def put(self, item: Item) -> None:
        """Hands an item over; waits while too many are waiting already."""
        self._room.acquire()
        if self._error is not None:
            raise self._error
        self._waiting.put(item)

    def __enter__(self) -> "Behind[Item]":
        self._thread.start()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._waiting.put(None)
        try:
            self._thread.join()
        except KeyboardInterrupt:  # the second: only what is half written is finished
            self._hurry = True
            self._thread.join()
            raise
        if self._error is not None and self._error is not error:
            raise self._error

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            self._room.release()
            if self._error is None and not self._hurry:
                try:
                    self._work(item)
                except BaseException as error:
                    self._error = error
