"""From a folder, a glob or a list to single images, read while the encoder works, each one once.

Decoding and waiting for the disk need no encoder. So a thread reads ahead, in bounded memory. It
takes one item after the other: order and results are those of a plain loop.
"""

import glob
import os
import queue
import threading
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
from PIL import Image

from ..errors import HyperfsadWarning, ImageError, UsageError, brief, reason
from ..messages import Notice
from .loading import (
    ChannelOrder,
    FileContent,
    ImageSource,
    LoadedImage,
    NamedFile,
    NormalImage,
    fitting_memory,
    is_file,
    is_tensor,
    kept,
    load_image,
)

IMAGE_SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".dib", ".tif", ".tiff"}
    | {".webp", ".gif", ".ppm", ".pgm", ".pbm", ".pnm"}
)

RUN_FILES = frozenset({"results.jsonl", "results.partial.jsonl", "cluster.json"})
"""What marks a folder as the output of a run."""


@dataclass(frozen=True)
class FoundImages:
    """The paths of images in a fixed order, and a notice for whatever was ignored."""

    paths: list[str]
    notes: list[Notice]
    failed: bool = False
    """Whether a folder could not be opened."""


def find_images(sources: Iterable[str | os.PathLike[str]]) -> FoundImages:
    """Expands files, globs and folders (recursively) into paths, sorted within each source.

    Paths stay as given, below a folder joined with it; a file that is given twice, in whatever
    spelling, appears once. Files of a folder without the suffix of an image are ignored with a
    notice; a file that is named itself is kept.
    """
    paths: list[str] = []
    notes: list[Notice] = []
    unreadable: list[Notice] = []

    def refuse(error: OSError) -> None:
        facts = {"folder": error.filename, "reason": reason(error).lower()}
        unreadable.append(Notice("folder-unreadable", **facts))

    for source in [os.fspath(source) for source in sources]:
        if os.path.isdir(source):
            files = [os.path.join(parent, name) for parent, name in walk(source, refuse)]
            files.sort(key=lambda path: path.split(os.sep))
            found = list(filter(has_image_suffix, files))
            others = [os.path.basename(path) for path in files if not has_image_suffix(path)]
            if not found:
                notes.append(Notice("folder-without-images", folder=source, ignored=others))
            elif others:
                notes.append(Notice("files-ignored", folder=source, ignored=others))
            paths += found
        elif _is_pattern(source):
            found = [path for path in glob.glob(source, recursive=True) if not os.path.isdir(path)]
            if not found:
                notes.append(Notice("pattern-unmatched", pattern=source))
            paths += sorted(found)
        elif os.path.lexists(source) or has_image_suffix(source):
            paths.append(source)
        else:
            notes.append(Notice("path-missing", path=source))
    notes += unreadable
    if not paths:
        raise UsageError("no-images", notes=notes)
    distinct: dict[str, str] = {}
    for path in paths:
        distinct.setdefault(os.path.abspath(path), path)
    return FoundImages(list(distinct.values()), notes, failed=bool(unreadable))


def product_folders(root: str | os.PathLike[str]) -> dict[str, FoundImages]:
    """The images of each product in a folder of folders, by the folder's name, sorted.

    Every product must have images; images beside the folders are left out with a warning.
    """
    root = os.fspath(root)
    if not os.path.isdir(root):
        raise UsageError("products-not-a-folder", path=root)
    names = sorted(name for name in os.listdir(root) if not name.startswith("."))
    folders = [name for name in names if os.path.isdir(os.path.join(root, name))]
    if not folders:
        raise UsageError("products-without-folders", folder=root)
    loose = [name for name in names if name not in folders and has_image_suffix(name)]
    if loose:
        notice = Notice("products-loose-images", folder=root, images=loose)
        warnings.warn(notice, HyperfsadWarning, stacklevel=2)
    found = {}
    for name in folders:
        folder = os.path.join(root, name)
        if all(os.path.isdir(os.path.join(folder, kind)) for kind in ("train", "test")):
            raise UsageError("product-with-defects", folder=folder)
        try:
            found[name] = find_images([folder])
        except UsageError as error:
            raise UsageError("product-without-images", product=name, error=error) from error
    return found


def lies_in(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Whether a path lies in a folder, links resolved."""
    real, place = os.path.realpath(path), os.path.realpath(folder)
    return real.startswith(place.rstrip(os.sep) + os.sep)


def has_image_suffix(name: str) -> bool:
    """Whether a file of this name is an image by its suffix."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES


def is_collection(source: str | os.PathLike[str]) -> bool:
    """Whether a path stands for several images: a folder or a glob."""
    path = os.fspath(source)
    return os.path.isdir(path) or _is_pattern(path)


def _is_pattern(path: str) -> bool:
    return glob.has_magic(path) and not os.path.lexists(path)


def walk(
    folder: str, refuse: Callable[[OSError], None], exclude: str = ""
) -> Iterator[tuple[str, str]]:
    """The parent and the name of each file below a folder; hidden ones are left out.

    Links to folders are followed once. `refuse` is called for each folder that cannot be opened.
    The folder `exclude` and the heat maps of another run hold no pictures of parts.
    """
    visited = {os.path.realpath(exclude)} if exclude else set()
    for parent, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        real = os.path.realpath(parent)  # some network shares give all folders one inode
        if real in visited:
            folders.clear()
            continue
        visited.add(real)
        ours = ("heatmaps",) if RUN_FILES.intersection(files) else ()
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n not in ours)
        yield from ((parent, name) for name in files if not name.startswith("."))


Images: TypeAlias = ImageSource | LoadedImage | Iterable[ImageSource | LoadedImage]

READ_AHEAD = 2
"""Items that are read before they are asked for: one is ready while the next is being made."""
CLOSE_TIMEOUT = 5.0
"""Seconds that closing waits for a silent source, such as a camera without a part."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def is_one_image(images: object) -> TypeGuard[ImageSource | LoadedImage]:
    """Whether this is one image rather than a folder, a glob or several."""
    if isinstance(images, str | os.PathLike):
        return isinstance(images, NamedFile) or not is_collection(images)
    kinds = Image.Image | np.ndarray | LoadedImage | FileContent | bytes | bytearray
    return isinstance(images, kinds) or is_tensor(images) or is_file(images)


def check_one_image(image: object) -> None:
    """Refuses what is not one image; several are for `predict_many`."""
    if is_one_image(image):
        return
    if isinstance(image, str | os.PathLike) or _holds_several(image):
        raise UsageError("image-several", given=brief(image))
    raise UsageError("image-type", given=brief(image))


def check_images(images: object) -> None:
    """Refuses at once what cannot be images; items of a generator are checked when taken."""
    if is_one_image(images) or isinstance(images, str | os.PathLike):
        return
    if not _holds_several(images):
        raise UsageError("images-type", given=brief(images))
    if isinstance(images, list | tuple):
        for item in images:
            _check_item(item)


def _holds_several(images: object) -> bool:
    return isinstance(images, Iterable) and not isinstance(images, Mapping)


def _check_item(item: object) -> None:
    """Refuses what cannot be an image among others, such as a pair of an image and its label."""
    if is_one_image(item) or isinstance(item, str | os.PathLike):
        return
    if isinstance(item, list | tuple):
        raise UsageError("image-with-label", kind=type(item).__name__, count=len(item))
    raise UsageError("images-type", given=brief(item))


def single_images(
    images: Images, channels: ChannelOrder = "rgb"
) -> Iterator[ImageSource | LoadedImage]:
    """The single images of a folder, a glob or an iterable of any of these, lazily."""
    check_images(images)
    if isinstance(images, str | os.PathLike) and not is_collection(images):
        path = os.fspath(images)
        if not has_image_suffix(path) and not os.path.lexists(path):  # meant for a folder
            raise UsageError("no-images", notes=[Notice("path-missing", path=path)])
    return _single_images(images, channels)


def _single_images(images: Any, channels: ChannelOrder) -> Iterator[ImageSource | LoadedImage]:
    if is_one_image(images):
        yield kept(images, channels)
    elif isinstance(images, str | os.PathLike):
        yield from find_images([images]).paths
    else:
        for item in images:
            _check_item(item)
            yield from _single_images(item, channels)


def distinct_images(
    images: Images,
    work: Callable[[LoadedImage], Item],
    skipped: list[ImageError],
    known: dict[str, str],
    *,
    copies: bool = False,
    count: int = READ_AHEAD,
    learnt: Collection[str] | None = None,
) -> Iterator[tuple[NormalImage, Item]]:
    """What `work` makes of each image, in their order, in a thread that reads `count` ahead.

    An image that cannot be read goes to `skipped` with a warning. `known` holds names by hash; a
    known picture is left out with a warning, since a copy would count twice; others become known,
    unless `copies` are welcome. `learnt` are the hashes of earlier calls (default: all of `known`).
    """

    def read(source: ImageSource | LoadedImage) -> tuple[NormalImage, Item] | ImageError:
        try:
            loaded = load_image(source)
            with fitting_memory(loaded.name):
                return NormalImage(loaded.name, loaded.sha256(), loaded.size), work(loaded)
        except ImageError as error:
            return error

    learnt = frozenset(known if learnt is None else learnt)
    with closing(read_ahead(read, single_images(images), count)) as found:
        for image in found:
            if isinstance(image, ImageError):
                skipped.append(image)
                notice = Notice("image-skipped", error=image)
            elif (sha256 := image[0].sha256) in known:
                notice = Notice(
                    "image-repeated",
                    name=image[0].name,
                    first=known[sha256],
                    learnt=sha256 in learnt,
                )
            else:
                if not copies:
                    known[sha256] = image[0].name
                yield image
                continue
            warnings.warn(notice, HyperfsadWarning, stacklevel=4)


def read_ahead(
    work: Callable[[Item], Result], items: Iterable[Item], count: int = READ_AHEAD
) -> Generator[Result, None, None]:
    """As `map(work, items)`, but a thread takes up to `count` items before they are asked for.

    An item is worked on before the next is taken, so a source may use one buffer again and again.
    Errors of the source or the work are raised here, after all results before them. The thread
    starts with the first request and ends with the last item or when the iterator is closed.
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
    thread = threading.Thread(target=read, name="hyperfsad-reader", daemon=True)
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
        thread.join(CLOSE_TIMEOUT)
