"""Which images are good and which are bad: from folders that the user names, or from a tree."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ...errors import UsageError
from ...images.finding import find_images, lies_in
from ..datasets import TestImage
from ..layouts import GOOD, read_test

PathLike: TypeAlias = str | os.PathLike[str]
Places: TypeAlias = PathLike | Sequence[PathLike]
"""Files, globs or folders: one or several."""


@dataclass(frozen=True)
class Truth:
    """Images with what is known of them."""

    images: tuple[TestImage, ...]
    notes: tuple[str, ...] = ()
    """What was passed over, a sentence each."""
    complete: bool = True
    """Whether every folder could be opened."""

    @property
    def has_masks(self) -> bool:
        """Whether there are bad parts, and each of them has a mask of its defect."""
        masks = [image.mask for image in self.images if image.anomalous]
        return bool(masks) and None not in masks

    def outside(self, folder: Path | None) -> "Truth":
        """Without the images in a folder, which holds results and no parts."""
        if folder is None:
            return self
        kept = [image for image in self.images if not lies_in(image.path, folder)]
        if not kept:
            raise UsageError(f"All images lie in the output folder {folder}.")
        return Truth(tuple(kept), self.notes, self.complete)


def from_folders(good: Places, bad: Places) -> Truth:
    """Good and bad parts in files, globs or folders; a folder below names the kind of defect."""
    images: dict[str, TestImage] = {}
    notes: list[str] = []
    complete = True
    for places, anomalous in ((_listed(good), False), (_listed(bad), True)):
        for place in places:
            found = find_images([place])
            notes += found.notes
            complete &= not found.failed
            for path in found.paths:
                kind = _kind(os.fspath(place), path) if anomalous else GOOD
                known = images.setdefault(os.path.realpath(path), _image(path, anomalous, kind))
                if known.anomalous != anomalous:
                    raise UsageError(f"{path} is named as good and as bad; name it once.")
    if not images:
        raise UsageError("No image was given; name good parts, bad parts or both.")
    return Truth(tuple(images.values()), tuple(notes), complete)


def from_tree(tree: PathLike) -> Truth:
    """The test images of a tree as MVTec AD has them, with masks if all bad parts have one."""
    folder = Path(tree)
    if not os.path.isdir(folder):
        raise UsageError(f"{folder} is no folder; give one that holds test/good and test/<defect>.")
    try:
        return Truth(read_test(folder))
    except UsageError as error:
        try:
            images = read_test(folder, masks=False)
        except UsageError:
            raise UsageError(
                f"{folder} holds no test images; give a folder with test/good and test/<defect>,"
                " or name the parts with --good and --bad."
            ) from None
        return Truth(images, (f"Places are not judged, only verdicts: {error}",))


def _image(path: str, anomalous: bool, kind: str) -> TestImage:
    return TestImage(path, anomalous, kind, None)


def _listed(places: Places) -> list[PathLike]:
    return [places] if isinstance(places, str | os.PathLike) else list(places)


def _kind(place: str, path: str) -> str:
    """The folder below the place that the user named, or else the one that the image lies in."""
    below = os.path.relpath(path, place).split(os.sep) if os.path.isdir(place) else []
    if len(below) > 1:
        return below[0]
    return os.path.basename(os.path.dirname(os.path.abspath(path))) or "bad"
