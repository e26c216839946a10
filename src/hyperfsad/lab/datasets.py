"""Public data sets on disk: where each keeps its normal images, test images and masks.

Folders are listed and names are matched; no pixel is read.
"""

import csv
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from ..errors import UsageError, reason
from ..quality.test_set import (
    DEFECT_FOLDERS,
    GOOD,
    GOOD_FOLDERS,
    PLAIN_LAYOUT,
    TestImage,
    TestLayout,
    all_masked,
    find_folder,
    folders_in,
    images_in,
    in_order,
    read_test_images,
)

_SPLIT_ROWS = {("train", "normal"), ("test", "normal"), ("test", "anomaly")}
_SPLIT_COLUMNS = ("object", "split", "label", "image", "mask")


@dataclass(frozen=True)
class Category:
    """One kind of object: its normal images, from which support is drawn, and its test images."""

    dataset: str
    name: str
    normal: tuple[str, ...]
    test: tuple[TestImage, ...]
    root: str = ""
    """The folder of the data set."""

    def name_of(self, path: str) -> str:
        """The path of an image relative to the data set, with forward slashes."""
        return os.path.relpath(path, self.root or os.curdir).replace(os.sep, "/")

    @property
    def has_masks(self) -> bool:
        """Whether there are anomalous test images, and each of them has a mask."""
        return all_masked(self.test)


Found: TypeAlias = "dict[str, Callable[[], Category]]"
"""The categories on disk by name, each read only when it is called for."""


@dataclass(frozen=True)
class DatasetLoader:
    """All that is particular to one data set."""

    find: Callable[[str, Path], Found]
    expected: str
    folders: tuple[str, ...] = ()
    """Names under which public copies unpack, in any letter case; looked for inside the root."""


@dataclass(frozen=True)
class _Layout:
    """Where a category keeps its normal images (the first place with any), and its test images."""

    normal: tuple[str, ...]
    test: TestLayout


def _read_tree(dataset: str, name: str, folder: Path, layout: _Layout) -> Category:
    places = (images_in(find_folder(folder, place)) for place in layout.normal)
    normal = next(filter(None, places), [])
    if not normal:
        expected = " or ".join(layout.normal)
        raise UsageError("no-normal-images", folder=folder, expected=expected)
    return _category(dataset, name, normal, read_test_images(folder, layout.test))


def _category(dataset: str, name: str, normal: list[Path], test: Sequence[TestImage]) -> Category:
    sources = sorted(normal, key=lambda path: path.parts)
    return Category(dataset, name, tuple(map(str, sources)), tuple(test))


def _find_categories(dataset: str, home: Path, layout: _Layout) -> Found:
    return {
        folder.name: partial(_read_tree, dataset, folder.name, folder, layout)
        for folder in folders_in(home)
        if find_folder(folder, "train", "test")
    }


def _find_medical(dataset: str, home: Path) -> Found:
    if not find_folder(home, "test") or not find_folder(home, "valid", "train"):
        return {}
    return {dataset: partial(_read_tree, dataset, dataset, home, _MEDICAL)}


def _find_folder(dataset: str, home: Path) -> Found:
    marks = ("train", "test", *GOOD_FOLDERS, *DEFECT_FOLDERS)
    if find_folder(home, *marks):
        found = {os.path.basename(os.path.abspath(home)): home}
    else:
        found = {folder.name: folder for folder in folders_in(home) if find_folder(folder, *marks)}
    return {name: partial(_read_tree, dataset, name, path, _FOLDER) for name, path in found.items()}


def _find_visa(dataset: str, home: Path) -> Found:
    """The copy as published, with its split in a table, or the one sorted into folders."""
    table = home / "split_csv" / "1cls.csv"
    if not os.path.isfile(table):
        found = _find_categories(dataset, home, _MVTEC)
        # MVTec AD is sorted alike, but names its defects
        return found if any(find_folder(home / name, "test/bad") for name in found) else {}
    rows = _read_split(table)
    return {
        name: partial(_read_rows, dataset, name, home, rows[name])
        for name in sorted(rows)
        if name and os.path.isdir(home / name)
    }


def _read_split(table: Path) -> dict[str, list[tuple[int, dict[str, str]]]]:
    """The rows of each object, each with the number of its line."""
    rows = defaultdict(list)
    try:
        with open(table, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            absent = [name for name in _SPLIT_COLUMNS if name not in (reader.fieldnames or ())]
            if absent:
                raise ValueError(f"no column {absent[0]} (expected {', '.join(_SPLIT_COLUMNS)})")
            for row in reader:
                rows[row["object"]].append((reader.line_num, row))
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError("split-unreadable", table=table, reason=reason(error)) from error
    return rows


def _read_rows(
    dataset: str, name: str, home: Path, rows: list[tuple[int, dict[str, str]]]
) -> Category:
    normal: list[Path] = []
    test: list[TestImage] = []
    seen: set[Path] = set()
    has_masks = any(row["mask"] for _, row in rows)
    for line, row in rows:
        split, label = row["split"], row["label"]
        if (split, label) not in _SPLIT_ROWS:
            raise UsageError("split-row-unknown", home=home, line=line, split=split, label=label)
        image = _named_file(home, row["image"], line)
        if image in seen:
            raise UsageError("split-image-twice", home=home, line=line, image=image)
        seen.add(image)
        if split == "train":
            normal.append(image)
        elif label == "normal":
            test.append(TestImage(str(image), False, GOOD, None))
        else:  # "bad" as in the copy sorted into folders, so that both give the same names
            mask = str(_named_file(home, row["mask"], line)) if has_masks else None
            test.append(TestImage(str(image), True, "bad", mask))
    if not normal or not test:
        kind = "test" if normal else "normal"
        raise UsageError("split-lacks-images", folder=home / name, kind=kind)
    return _category(dataset, name, normal, in_order(test))


def _named_file(home: Path, name: str, line: int) -> Path:
    if not name:
        raise UsageError("split-file-unnamed", home=home, line=line)
    if not os.path.isfile(home / name):
        raise UsageError("split-file-missing", home=home, line=line, file=home / name)
    return home / name


_MVTEC = _Layout(("train/good",), TestLayout())
_BTAD = _Layout(("train/ok",), TestLayout(good=("ok",), expected="test/ok and test/ko"))
_MEDICAL = _Layout(
    # MVFA draws the support from valid/good; BMAD's copies have train/good too.
    normal=("valid/good/img", "valid/good", "train/good/img", "train/good"),
    test=TestLayout(masks=(), expected="test/good/img and test/Ungood/img"),
)
_FOLDER = _Layout(("train/good", "train/normal", "train/ok", "normal", "good", "ok"), PLAIN_LAYOUT)

DATASETS: dict[str, DatasetLoader] = {
    "mvtec": DatasetLoader(
        partial(_find_categories, layout=_MVTEC),
        "<category>/train/good",
        ("mvtec", "mvtec_anomaly_detection", "mvtec_ad"),
    ),
    "visa": DatasetLoader(
        _find_visa,
        "split_csv/1cls.csv or <category>/test/bad",
        ("VisA", "VisA_20220922", "VisA_pytorch/1cls", "VisA/1cls", "1cls"),
    ),
    "mpdd": DatasetLoader(
        partial(_find_categories, layout=_MVTEC), "<category>/train/good", ("MPDD",)
    ),
    "btad": DatasetLoader(
        partial(_find_categories, layout=_BTAD),
        "<category>/train/ok",
        ("BTech_Dataset_transformed", "BTAD/BTech_Dataset_transformed", "BTAD"),
    ),
    "resc": DatasetLoader(
        _find_medical,
        "valid/good/img and test/Ungood/img",
        ("Retina_RESC_AD", "RetinaRESC_AD", "Retina_RESC", "RESC"),
    ),
    "brats": DatasetLoader(
        _find_medical,
        "valid/good/img and test/Ungood/img",
        ("Brain_AD", "BraTS2021_slice", "Brain", "BraTS"),
    ),
    "folder": DatasetLoader(_find_folder, "train/good or normal, or folders that hold these"),
}


def load_dataset(
    name: str, root: str | os.PathLike[str], categories: Sequence[str] | None = None
) -> list[Category]:
    """The categories on disk (or the named ones), sorted by name, their images sorted by path."""
    if name not in DATASETS:
        raise UsageError("dataset-unknown", name=name, known=", ".join(DATASETS))
    home, loader = Path(root), DATASETS[name]
    if not os.path.isdir(home):
        raise UsageError("dataset-root-not-a-folder", folder=home, name=name)
    inside = [folder for place in loader.folders if (folder := find_folder(home, place))]
    found = next((found for place in [*inside, home] if (found := loader.find(name, place))), {})
    if not found:
        facts = {"expected": loader.expected, "folders": loader.folders}
        raise UsageError("dataset-not-here", folder=home, name=name, **facts)
    unknown = sorted(set(categories or ()) - set(found))
    if unknown:
        facts = {"unknown": ", ".join(unknown), "known": ", ".join(found)}
        raise UsageError("category-unknown", folder=home, dataset=name, **facts)
    wanted = found if categories is None else set(categories)
    return [found[category]() for category in sorted(wanted)]
