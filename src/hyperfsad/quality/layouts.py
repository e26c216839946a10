"""Public data sets on disk: where each keeps its normal images, test images and masks.

Folders are listed and names are matched; no pixel is read. A mask is looked up by the image's stem
in the folder of masks: replacing words in a path would break on a root that holds the word.
"""

import csv
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from ..errors import UsageError, reason
from ..images.finding import SUFFIXES
from .datasets import Category, TestImage

GOOD = "good"

_ROWS = {("train", "normal"), ("test", "normal"), ("test", "anomaly")}
_COLUMNS = ("object", "split", "label", "image", "mask")

Found: TypeAlias = "dict[str, Callable[[], Category]]"
"""The categories on disk by name, each read only when it is called for."""


@dataclass(frozen=True)
class Loader:
    """All that is particular to one data set."""

    find: Callable[[str, Path], Found]
    expected: str
    folders: tuple[str, ...] = ()
    """Names under which public copies unpack, in any letter case; looked for inside the root."""


@dataclass(frozen=True)
class _Layout:
    """Names of folders below a category; of the places for normal images, the first with any."""

    normal: tuple[str, ...]
    good: tuple[str, ...] = (GOOD,)
    beside: tuple[str, ...] = ()
    """Folders of defects that may lie next to `test`, or instead of it."""
    masks: tuple[str, ...] = ("ground_truth",)
    test: str = "test/good and test/<defect>"


def _read_tree(dataset: str, name: str, folder: Path, layout: _Layout) -> Category:
    normal = next((found for at in layout.normal if (found := _images(_below(folder, at)))), [])
    if not normal:
        raise UsageError(
            f"{folder} holds no normal images; expected them in {' or '.join(layout.normal)}."
        )
    return _in_order(dataset, name, normal, _test_images(folder, layout))


def read_test(folder: Path, *, masks: bool = True) -> tuple[TestImage, ...]:
    """The test images of one tree: test/good and test/<defect>, and ground_truth if it is there.

    It needs no normal images. Without `masks` those are not looked for.
    """
    layout = replace(_FOLDER, beside=(), masks=_FOLDER.masks if masks else ())
    return _in_order("folder", folder.name, [], _test_images(folder, layout)).test


def _test_images(folder: Path, layout: _Layout) -> list[TestImage]:
    beside = [child for child in _folders(folder) if child.name.lower() in layout.beside]
    masks = _below(folder, *layout.masks)
    test: list[TestImage] = []
    for kind in [*_folders(_below(folder, "test")), *beside]:
        images = _images(_below(kind, "img") or kind)  # RESC and BraTS nest them
        if kind.name.lower() in layout.good:
            test += [TestImage(str(path), False, GOOD, None) for path in images]
        else:
            test += _anomalous(images, kind.name, _masks_of_kind(kind, masks))
    if not test:
        raise UsageError(f"{folder} holds no test images; expected them in {layout.test}.")
    return test


def _in_order(dataset: str, name: str, normal: list[Path], test: list[TestImage]) -> Category:
    by_parts = sorted(test, key=lambda image: Path(image.path).parts)
    owners: dict[str, str] = {}
    for image in by_parts:
        if image.mask and owners.setdefault(image.mask, image.path) != image.path:
            raise UsageError(
                f"{owners[image.mask]} and {image.path} share the mask {image.mask};"
                " give each image a mask of its own."
            )
    sources = sorted(normal, key=lambda path: path.parts)
    return Category(dataset, name, tuple(map(str, sources)), tuple(by_parts))


def _masks_of_kind(kind: Path, root: Path | None) -> Path | None:
    """Where the masks of a folder of defects lie; None where the category has none."""
    own = _below(kind, "anomaly_mask", "label")  # beside `img`: MVFA's name and BMAD's
    if own or root is None:
        return own
    # One folder for each defect; masks in the root itself serve where there is none.
    return _below(root, kind.name) or (root if _images(root) else root / kind.name)


def _anomalous(images: list[Path], defect: str, folder: Path | None) -> list[TestImage]:
    if folder is None:
        return [TestImage(str(image), True, defect, None) for image in images]
    stems = defaultdict(list)
    for mask in _images(folder):
        stems[mask.stem].append(mask)
    test = []
    for image in images:
        masks = stems.get(f"{image.stem}_mask") or stems.get(image.stem) or []
        if not masks:
            raise UsageError(
                f"{image} has no mask; expected {folder / image.stem}_mask.png or {image.stem}.png."
            )
        if len(masks) > 1:
            raise UsageError(f"{image} has two masks, {masks[0]} and {masks[1]}; keep one of them.")
        test.append(TestImage(str(image), True, defect, str(masks[0])))
    return test


def _find_categories(dataset: str, home: Path, layout: _Layout) -> Found:
    return {
        folder.name: partial(_read_tree, dataset, folder.name, folder, layout)
        for folder in _folders(home)
        if _below(folder, "train", "test")
    }


def _find_medical(dataset: str, home: Path) -> Found:
    if not _below(home, "test") or not _below(home, "valid", "train"):
        return {}
    return {dataset: partial(_read_tree, dataset, dataset, home, _MEDICAL)}


def _find_folder(dataset: str, home: Path) -> Found:
    marks = ("train", "test", *_NORMAL_NAMES, *_DEFECT_NAMES)
    if _below(home, *marks):
        found = {os.path.basename(os.path.abspath(home)): home}
    else:
        found = {folder.name: folder for folder in _folders(home) if _below(folder, *marks)}
    return {name: partial(_read_tree, dataset, name, path, _FOLDER) for name, path in found.items()}


def _find_visa(dataset: str, home: Path) -> Found:
    """The copy as published, with its split in a table, or the one sorted into folders."""
    table = home / "split_csv" / "1cls.csv"
    if not os.path.isfile(table):
        found = _find_categories(dataset, home, _MVTEC)
        # MVTec AD is sorted alike, but names its defects
        return found if any(_below(home / name, "test/bad") for name in found) else {}
    rows = _read_split(table)
    return {
        name: partial(_read_rows, dataset, name, home, rows[name])
        for name in sorted(rows)
        if name and os.path.isdir(home / name)
    }


def _read_split(table: Path) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """The rows of each object, each with the words that point at its line."""
    rows = defaultdict(list)
    try:
        with open(table, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            absent = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if absent:
                raise ValueError(f"no column {absent[0]} (expected {', '.join(_COLUMNS)})")
            for row in reader:
                rows[row["object"]].append((f"{table}, line {reader.line_num}", row))
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(f"{table} cannot be read: {reason(error)}.") from error
    return rows


def _read_rows(
    dataset: str, name: str, home: Path, rows: list[tuple[str, dict[str, str]]]
) -> Category:
    normal: list[Path] = []
    test: list[TestImage] = []
    seen: set[Path] = set()
    has_masks = any(row["mask"] for _, row in rows)
    for place, row in rows:
        split, label = row["split"], row["label"]
        if (split, label) not in _ROWS:
            raise UsageError(
                f"{place}: split {split} and label {label}; expected train normal, test normal"
                " or test anomaly."
            )
        image = _named_file(home, row["image"], place)
        if image in seen:
            raise UsageError(f"{place}: {image} is named a second time; name each image once.")
        seen.add(image)
        if split == "train":
            normal.append(image)
        elif label == "normal":
            test.append(TestImage(str(image), False, GOOD, None))
        else:  # "bad" as in the copy sorted into folders, so that both give the same names
            mask = str(_named_file(home, row["mask"], place)) if has_masks else None
            test.append(TestImage(str(image), True, "bad", mask))
    if not normal or not test:
        kind = "test" if normal else "normal"
        raise UsageError(f"{home / name} has no {kind} images in split_csv/1cls.csv.")
    return _in_order(dataset, name, normal, test)


def _named_file(home: Path, name: str, place: str) -> Path:
    if not name or not os.path.isfile(home / name):
        what = f"{home / name} does not exist" if name else "an image or its mask is not named"
        raise UsageError(f"{place}: {what}; complete the copy of the data set.")
    return home / name


def _below(folder: Path, *places: str) -> Path | None:
    """The first of the places (parts joined by /) that is a folder here, in any letter case."""
    for place in places:
        found: Path | None = folder
        for part in place.split("/"):
            same = [child for child in _folders(found) if child.name.lower() == part.lower()]
            found = min(same, key=lambda child: child.name != part, default=None)
        if found:
            return found
    return None


def _folders(folder: Path | None) -> list[Path]:
    return [path for path in _entries(folder) if os.path.isdir(path)]


def _images(folder: Path | None) -> list[Path]:
    files = [path for path in _entries(folder) if not os.path.isdir(path)]
    return [path for path in files if path.suffix.lower() in SUFFIXES]


def _entries(folder: Path | None) -> list[Path]:
    """What a folder holds, sorted, nothing hidden; nothing where there is no such folder."""
    if folder is None or not os.path.isdir(folder):
        return []
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise UsageError(f"{folder} cannot be opened: {reason(error)}.") from error
    return [folder / name for name in names if not name.startswith((".", "__MACOSX"))]


_NORMAL_NAMES = ("good", "normal", "ok")
_DEFECT_NAMES = ("abnormal", "bad", "defect", "ko", "anomaly")

_MVTEC = _Layout(normal=("train/good",))
_BTAD = _Layout(normal=("train/ok",), good=("ok",), test="test/ok and test/ko")
_MEDICAL = _Layout(
    # MVFA draws the support from valid/good; BMAD's copies have train/good too.
    normal=("valid/good/img", "valid/good", "train/good/img", "train/good"),
    masks=(),
    test="test/good/img and test/Ungood/img",
)
_FOLDER = _Layout(
    normal=("train/good", "train/normal", "train/ok", "normal", "good", "ok"),
    good=_NORMAL_NAMES,
    beside=_DEFECT_NAMES,
    masks=("ground_truth", "masks", "mask"),
    test=f"test/<defect> or {' or '.join(_DEFECT_NAMES)}",
)

DATASETS: dict[str, Loader] = {
    "mvtec": Loader(
        partial(_find_categories, layout=_MVTEC),
        "<category>/train/good",
        ("mvtec", "mvtec_anomaly_detection", "mvtec_ad"),
    ),
    "visa": Loader(
        _find_visa,
        "split_csv/1cls.csv or <category>/test/bad",
        ("VisA", "VisA_20220922", "VisA_pytorch/1cls", "VisA/1cls", "1cls"),
    ),
    "mpdd": Loader(partial(_find_categories, layout=_MVTEC), "<category>/train/good", ("MPDD",)),
    "btad": Loader(
        partial(_find_categories, layout=_BTAD),
        "<category>/train/ok",
        ("BTech_Dataset_transformed", "BTAD/BTech_Dataset_transformed", "BTAD"),
    ),
    "resc": Loader(
        _find_medical,
        "valid/good/img and test/Ungood/img",
        ("Retina_RESC_AD", "RetinaRESC_AD", "Retina_RESC", "RESC"),
    ),
    "brats": Loader(
        _find_medical,
        "valid/good/img and test/Ungood/img",
        ("Brain_AD", "BraTS2021_slice", "Brain", "BraTS"),
    ),
    "folder": Loader(_find_folder, "train/good or normal, or folders that hold these"),
}


def load_dataset(
    name: str, root: str | os.PathLike[str], categories: Sequence[str] | None = None
) -> list[Category]:
    """The categories on disk (or the named ones), sorted by name, their images sorted by path."""
    if name not in DATASETS:
        raise UsageError(f"There is no data set named {name}; known are {', '.join(DATASETS)}.")
    home, loader = Path(root), DATASETS[name]
    if not os.path.isdir(home):
        raise UsageError(f"{home} is not a folder; name the folder that holds the data set {name}.")
    inside = [folder for place in loader.folders if (folder := _below(home, place))]
    found = next((found for place in [*inside, home] if (found := loader.find(name, place))), {})
    if not found:
        also = f", there or in {' or '.join(loader.folders)} below it" if loader.folders else ""
        raise UsageError(
            f"{home} does not hold the data set {name}: expected {loader.expected}{also}."
        )
    unknown = sorted(set(categories or ()) - set(found))
    if unknown:
        raise UsageError(
            f"{home} has no category {', '.join(unknown)} of {name}; there are {', '.join(found)}."
        )
    wanted = found if categories is None else set(categories)
    return [found[category]() for category in sorted(wanted)]
