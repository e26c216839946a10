"""Which files are meant: folders, globs and names become paths of images, in a fixed order."""

import glob
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..errors import HyperfsadWarning, UsageError, reason

SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".dib", ".tif", ".tiff"}
    | {".webp", ".gif", ".ppm", ".pgm", ".pbm", ".pnm"}
)

RUN_FILES = frozenset({"results.jsonl", "results.partial.jsonl", "cluster.json"})
"""What marks a folder as the output of a run."""


@dataclass(frozen=True)
class FoundImages:
    """The paths of images in a fixed order, and a sentence on whatever was passed over."""

    paths: list[str]
    notes: list[str]
    failed: bool = False
    """Whether a folder could not be opened."""


def find_images(sources: Iterable[str | os.PathLike[str]]) -> FoundImages:
    """Expands files, globs and folders (recursively) into paths, sorted within each source.

    A path is kept as it was given, below a folder joined with it; one that is given again, in
    whatever spelling, is there once. Files in a folder that are no images by their suffix are
    passed over with a note; a file that is named itself is kept.
    """
    paths: list[str] = []
    notes: list[str] = []
    closed: list[str] = []
    for source in [os.fspath(source) for source in sources]:
        if os.path.isdir(source):
            found, junk = _sorted_files(source, closed)
            if not found:
                notes.append(f"{source} holds no images{_listing(junk, '; passed over: ')}.")
            elif junk:
                notes.append(
                    f"{source}: {len(junk)} file{'s' * (len(junk) > 1)} passed over that"
                    f" {'are no images' if len(junk) > 1 else 'is no image'}{_listing(junk, ': ')}."
                )
            paths += found
        elif _is_pattern(source):
            found = [path for path in glob.glob(source, recursive=True) if not os.path.isdir(path)]
            if not found:
                notes.append(f"No file matches {source}.")
            paths += sorted(found)
        elif os.path.lexists(source) or has_image_suffix(source):
            paths.append(source)
        else:
            notes.append(f"{source} does not exist.")
    notes += closed
    if not paths:
        raise UsageError(" ".join(notes) or "No image was given.")
    distinct: dict[str, str] = {}
    for path in paths:
        distinct.setdefault(os.path.abspath(path), path)
    return FoundImages(list(distinct.values()), notes, failed=bool(closed))


def _sorted_files(folder: str, closed: list[str]) -> tuple[list[str], list[str]]:
    """All images below a folder and all other files; folders that cannot be opened are `closed`."""

    def refuse(error: OSError) -> None:
        closed.append(f"{error.filename} cannot be opened: {reason(error).lower()}.")

    paths = [os.path.join(parent, name) for parent, name in walk(folder, refuse)]
    paths.sort(key=lambda path: path.split(os.sep))
    images = list(filter(has_image_suffix, paths))
    return images, [path for path in paths if not has_image_suffix(path)]


def product_folders(root: str | os.PathLike[str]) -> dict[str, FoundImages]:
    """The images of each product in a folder of folders, by the folder's name, sorted.

    Every product must have images; images beside the folders are left out with a warning.
    """
    root = os.fspath(root)
    if not os.path.isdir(root):
        raise UsageError(f"{root} is no folder; give a folder with one folder for each product.")
    names = sorted(name for name in os.listdir(root) if not name.startswith("."))
    folders = [name for name in names if os.path.isdir(os.path.join(root, name))]
    if not folders:
        raise UsageError(
            f"{root} holds no folders; put the good parts of each product into a folder of its own."
        )
    loose = [name for name in names if name not in folders and has_image_suffix(name)]
    if loose:
        more = f" and {len(loose) - 1} more" if len(loose) > 1 else ""
        warnings.warn(
            f"{os.path.join(root, loose[0])}{more} beside the folders of products is left out; it"
            " belongs to none of them.",
            HyperfsadWarning,
            stacklevel=2,
        )
    return {name: _product_images(os.path.join(root, name), name) for name in folders}


def _product_images(folder: str, name: str) -> FoundImages:
    split = [kind for kind in ("train", "test") if os.path.isdir(os.path.join(folder, kind))]
    if len(split) == 2:
        raise UsageError(
            f"{folder} holds a folder train and a folder test, as data sets with defects do; the"
            " folder of a product holds nothing but good parts."
        )
    try:
        return find_images([folder])
    except UsageError as error:
        raise UsageError(f"The product {name} cannot be learnt: {error}") from error


def lies_in(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Whether a path lies in a folder, wherever links lead; one that leads to itself does not."""
    real, place = os.path.realpath(path), os.path.realpath(folder)
    return real.startswith(place.rstrip(os.sep) + os.sep)


def has_image_suffix(name: str) -> bool:
    """Whether a file of this name is an image by its suffix."""
    return os.path.splitext(name)[1].lower() in SUFFIXES


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

    Links to folders are followed once. `refuse` hears of each folder that cannot be opened. The
    folder `exclude` and the heat maps of an earlier run hold no pictures of parts.
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


def _listing(names: list[str], lead: str, most: int = 3) -> str:
    if not names:
        return ""
    shown = ", ".join(os.path.basename(name) for name in names[:most])
    return lead + shown + (f" and {len(names) - most} more" if len(names) > most else "")
