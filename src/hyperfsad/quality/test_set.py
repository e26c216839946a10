"""Test images with their ground truth: good or which defect, and where a mask marks the defect.

Folders are listed and names are matched. A mask is looked up by the image's stem in the folder of
masks: replacing words in a path would break on a root that contains the word.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps

from ..errors import UsageError, reason
from ..images.loading import NamedFile, opened_picture
from ..images.reading import IMAGE_SUFFIXES, find_images, lies_in
from ..messages import Notice
from ..report.interchange.labels import image_of, read_labels
from ..report.interchange.places import ANOMALY, VERDICTS, Outline

PathLike: TypeAlias = str | os.PathLike[str]
Places: TypeAlias = PathLike | Sequence[PathLike]
"""Files, globs or folders: one or several."""

GOOD = "good"
GOOD_FOLDERS = ("good", "normal", "ok")
GOOD_NAMES = (*GOOD_FOLDERS, "fine")
"""What other programs may call a good part."""
DEFECT_FOLDERS = ("abnormal", "bad", "defect", "ko", "anomaly")
_ASPECT_TOLERANCE = 0.01
_SIDEWAYS = (5, 6, 7, 8)  # the EXIF orientations that swap width and height


@dataclass(frozen=True)
class TestImage:
    """One image and its ground truth."""

    __test__ = False  # or pytest would take it for a class of tests

    path: str
    anomalous: bool
    defect: str
    """The kind of defect, or good."""
    mask: str | None
    name: str | None = None
    """What results call it; None: its path."""
    outlines: tuple[Outline, ...] = ()
    """Where the defect is, if there is no mask."""

    @property
    def source(self) -> str | NamedFile:
        """What a detector is asked to judge."""
        return self.path if self.name is None else NamedFile(self.path, self.name)


@dataclass(frozen=True)
class TestLayout:
    """How a data set names the folders of its test images and masks."""

    __test__ = False

    good: tuple[str, ...] = (GOOD,)
    beside: tuple[str, ...] = ()
    """Folders of defects that may lie next to `test`, or instead of it."""
    masks: tuple[str, ...] = ("ground_truth",)
    expected: str = "test/good and test/<defect>"


PLAIN_LAYOUT = TestLayout(
    good=GOOD_FOLDERS,
    beside=DEFECT_FOLDERS,
    masks=("ground_truth", "masks", "mask"),
    expected=f"test/<defect> or {' or '.join(DEFECT_FOLDERS)}",
)
"""What is accepted of a user's own folders."""


@dataclass(frozen=True)
class TestSet:
    """Images whose ground truth is known."""

    __test__ = False

    images: tuple[TestImage, ...]
    notes: tuple[str, ...] = ()
    """What was skipped, a sentence each."""
    complete: bool = True
    """Whether every folder could be opened."""

    @property
    def has_masks(self) -> bool:
        """Whether there are bad parts, and each of them has a mask of its defect."""
        return all_masked(self.images)

    def outside(self, folder: Path) -> "TestSet":
        """Without the images in a folder that holds results and not parts."""
        kept = [image for image in self.images if not lies_in(image.path, folder)]
        if not kept:
            raise UsageError("all-images-in-output", folder=folder)
        return replace(self, images=tuple(kept))

    @classmethod
    def from_folders(cls, good: Places, bad: Places) -> "TestSet":
        """Good and bad parts in files, globs or folders; a subfolder names the kind of defect."""
        images: dict[str, TestImage] = {}
        notes: list[str] = []
        complete = True
        for places, anomalous in ((good, False), (bad, True)):
            for place in [places] if isinstance(places, str | os.PathLike) else places:
                found = find_images([place])
                notes += found.notes
                complete &= not found.failed
                for path in found.paths:
                    kind = _kind(os.fspath(place), path) if anomalous else GOOD
                    image = TestImage(path, anomalous, kind, None)
                    known = images.setdefault(os.path.realpath(path), image)
                    if known.anomalous != anomalous:
                        raise UsageError("both-good-and-bad", image=path)
        if not images:
            raise UsageError("no-test-images-given")
        return cls(tuple(images.values()), tuple(notes), complete)

    @classmethod
    def from_labels(cls, file: PathLike, folder: PathLike | None = None) -> "TestSet":
        """What was labelled in another program: COCO, CVAT, FiftyOne, Label Studio or YOLO.

        `folder` holds the images, where they lie elsewhere than the labels say.
        """
        images: list[TestImage] = []
        lost: list[str] = []
        for one in read_labels(file):
            path = image_of(one, Path(file), None if folder is None else Path(folder))
            if path is None:
                lost.append(one.image)
                continue
            bad = [name for name in one.names if name.lower() not in GOOD_NAMES]
            named = [name for name in bad if name not in (ANOMALY, VERDICTS[True])]
            kind = (named or [ANOMALY])[0] if bad else GOOD
            outlines = one.outlines if bad else ()
            images.append(TestImage(path, bool(bad), kind, None, outlines=outlines))
        if not images:
            raise UsageError("labels-without-images", path=file, images=lost)
        notes = (Notice("labelled-images-lost", images=lost),) if lost else ()
        return cls(in_order(images), notes, not lost)

    @classmethod
    def from_tree(cls, tree: PathLike) -> "TestSet":
        """The test images of a folder as MVTec AD has it, with masks if all bad parts have one."""
        folder = Path(tree)
        if not os.path.isdir(folder):
            raise UsageError("test-tree-not-a-folder", folder=folder)
        layout = replace(PLAIN_LAYOUT, beside=(), expected=TestLayout.expected)
        try:
            return cls(read_test_images(folder, layout))
        except UsageError as error:
            try:
                images = read_test_images(folder, replace(layout, masks=()))
            except UsageError:
                raise UsageError("test-tree-without-images", folder=folder) from None
            return cls(images, (no_pixel_figures(error),))


def all_masked(images: Iterable[TestImage]) -> bool:
    """Whether some images are anomalous, and each of those has a mask."""
    marked = [bool(image.mask or image.outlines) for image in images if image.anomalous]
    return bool(marked) and all(marked)


def no_pixel_figures(error: Exception) -> str:
    """The note for masks that cannot be used."""
    return f"Verdicts are evaluated, but not places: {error}"


def _kind(place: str, path: str) -> str:
    """The folder below the place that the user named, or else the one that holds the image."""
    below = os.path.relpath(path, place).split(os.sep) if os.path.isdir(place) else []
    if len(below) > 1:
        return below[0]
    return os.path.basename(os.path.dirname(os.path.abspath(path))) or "bad"


def read_test_images(folder: Path, layout: TestLayout) -> tuple[TestImage, ...]:
    """The test images below a folder, sorted by path, with their masks."""
    beside = [child for child in folders_in(folder) if child.name.lower() in layout.beside]
    masks = find_folder(folder, *layout.masks)
    test: list[TestImage] = []
    for kind in [*folders_in(find_folder(folder, "test")), *beside]:
        images = images_in(find_folder(kind, "img") or kind)  # RESC and BraTS nest them
        if kind.name.lower() in layout.good:
            test += [TestImage(str(path), False, GOOD, None) for path in images]
        else:
            test += _anomalous(images, kind.name, _mask_folder(kind, masks))
    if not test:
        raise UsageError("no-test-images", folder=folder, expected=layout.expected)
    return in_order(test)


def in_order(test: Iterable[TestImage]) -> tuple[TestImage, ...]:
    """Test images sorted by path; two that share a mask are refused."""
    by_parts = sorted(test, key=lambda image: Path(image.path).parts)
    owners: dict[str, str] = {}
    for image in by_parts:
        if image.mask and (first := owners.setdefault(image.mask, image.path)) != image.path:
            raise UsageError("shared-mask", first=first, second=image.path, mask=image.mask)
    return tuple(by_parts)


def _mask_folder(kind: Path, root: Path | None) -> Path | None:
    """Where the masks of a folder of defects lie; None if the data set has none."""
    own = find_folder(kind, "anomaly_mask", "label")  # beside `img`: MVFA's name and BMAD's
    if own or root is None:
        return own
    # One folder for each defect; masks in the root itself serve where there is none.
    return find_folder(root, kind.name) or (root if images_in(root) else root / kind.name)


def _anomalous(images: list[Path], defect: str, folder: Path | None) -> list[TestImage]:
    if folder is None:
        return [TestImage(str(image), True, defect, None) for image in images]
    stems = defaultdict(list)
    for mask in images_in(folder):
        stems[mask.stem].append(mask)
    test = []
    for image in images:
        masks = stems.get(f"{image.stem}_mask") or stems.get(image.stem) or []
        if not masks:
            raise UsageError("no-mask", image=image, folder=folder, stem=image.stem)
        if len(masks) > 1:
            raise UsageError("two-masks", image=image, first=masks[0], second=masks[1])
        test.append(TestImage(str(image), True, defect, str(masks[0])))
    return test


def find_folder(folder: Path, *places: str) -> Path | None:
    """The first of the places (parts joined by /) that is a folder here, in any letter case."""
    for place in places:
        found: Path | None = folder
        for part in place.split("/"):
            same = [child for child in folders_in(found) if child.name.lower() == part.lower()]
            found = min(same, key=lambda child: child.name != part, default=None)
        if found:
            return found
    return None


def folders_in(folder: Path | None) -> list[Path]:
    """The folders in a folder, sorted."""
    return [path for path in _entries(folder) if os.path.isdir(path)]


def images_in(folder: Path | None) -> list[Path]:
    """The image files in a folder, sorted."""
    files = [path for path in _entries(folder) if not os.path.isdir(path)]
    return [path for path in files if path.suffix.lower() in IMAGE_SUFFIXES]


def _entries(folder: Path | None) -> list[Path]:
    """What a folder holds, sorted, without hidden files; nothing if the folder does not exist."""
    if folder is None or not os.path.isdir(folder):
        return []
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise UsageError("folder-unreadable", folder=folder, reason=reason(error)) from error
    return [folder / name for name in names if not name.startswith((".", "__MACOSX"))]


def load_mask(image: TestImage, size: int) -> NDArray[np.bool_]:
    """Where the defect is, (size, size), resized nearest; all False for a good image."""
    if not image.anomalous:
        return np.zeros((size, size), dtype=np.bool_)
    if image.outlines:
        return _drawn(image.outlines, size)
    if image.mask is None:
        raise UsageError("anomalous-without-mask", image=image.path)
    with opened_picture(image.path, image.path) as picture:
        width, height = _upright_size(picture)
    with opened_picture(image.mask, image.mask) as picture:
        defect = _nonzero(picture)
    mask_height, mask_width = defect.shape
    aspect = (mask_width * height) / (mask_height * width)
    if max(aspect, 1 / aspect) > 1 + _ASPECT_TOLERANCE:
        raise UsageError(
            "mask-shape",
            mask=image.mask,
            mask_size=f"{mask_width}×{mask_height}",
            image=image.path,
            size=f"{width}×{height}",
        )
    resized = Image.fromarray(defect).resize((size, size), Image.Resampling.NEAREST)
    return np.array(resized, dtype=np.bool_)


def _drawn(outlines: Iterable[Outline], size: int) -> NDArray[np.bool_]:
    """The pixels whose middle lies in an outline: an odd number of its sides are left of it."""
    middles, mask = (np.arange(size) + 0.5) / size, np.zeros((size, size), dtype=np.bool_)
    for outline in outlines:
        inside = np.zeros_like(mask)
        for (x0, y0), (x1, y1) in zip(outline, (*outline[1:], outline[0]), strict=True):
            rows = np.flatnonzero((y0 <= middles) != (y1 <= middles))
            if len(rows):
                at = x0 + (middles[rows] - y0) * (x1 - x0) / (y1 - y0)
                inside[rows] ^= middles >= at[:, None]
        mask |= inside
    return mask


def _upright_size(image: Image.Image) -> tuple[int, int]:
    width, height = image.size
    # A PNG is decoded to the end for its orientation; most sets are square and need none.
    if width != height and image.getexif().get(ExifTags.Base.Orientation) in _SIDEWAYS:
        return height, width
    return width, height


def _nonzero(mask: Image.Image) -> NDArray[np.bool_]:
    upright = ImageOps.exif_transpose(mask)
    if upright.mode in ("1", "L", "F") or upright.mode.startswith("I"):
        return np.asarray(np.asarray(upright) != 0)
    # What can be seen on black counts: an opaque alpha channel alone is not a defect.
    values = np.asarray(upright.convert("RGBA"))
    return np.asarray(values[:, :, :3].any(axis=2) & (values[:, :, 3] > 0))
