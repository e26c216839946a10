"""Sentences about `lab`."""

from . import Sentences


def _dataset_not_here(
    folder: object, name: str, expected: str, folders: tuple[str, ...], **_: object
) -> str:
    also = f", there or in {' or '.join(folders)} below it" if folders else ""
    return f"{folder} does not hold the data set {name}: expected {expected}{also}."


_SPLIT = "{home}/split_csv/1cls.csv, line {line}: "

LAB_SENTENCES: Sentences = {
    "category-unknown": (
        "{folder} has no category {unknown} of {dataset}; the categories are {known}."
    ),
    "dataset-not-here": _dataset_not_here,
    "dataset-root-not-a-folder": (
        "{folder} is not a folder; name the folder that holds the data set {name}."
    ),
    "dataset-unknown": "The data set {name} is unknown; known are {known}.",
    "no-normal-images": "{folder} holds no normal images; expected them in {expected}.",
    "split-file-missing": _SPLIT + "{file} does not exist; complete the copy of the data set.",
    "split-file-unnamed": (
        _SPLIT + "an image or its mask is not named; complete the copy of the data set."
    ),
    "split-image-twice": _SPLIT + "{image} is named a second time; name each image once.",
    "split-lacks-images": "{folder} has no {kind} images in split_csv/1cls.csv.",
    "split-row-unknown": (
        _SPLIT
        + "split {split} and label {label}; expected train normal, test normal or test anomaly."
    ),
    "split-unreadable": "{table} cannot be read: {reason}.",
}
