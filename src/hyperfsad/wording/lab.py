"""Sentences about `lab`."""

from collections.abc import Mapping
from typing import Any

from . import Sentences


def _dataset_not_here(
    folder: object, name: str, expected: str, folders: tuple[str, ...], **_: object
) -> str:
    also = f", there or in {' or '.join(folders)} below it" if folders else ""
    return f"{folder} does not hold the data set {name}: expected {expected}{also}."


_SPLIT = "{home}/split_csv/1cls.csv, line {line}: "


def _winclip_unavailable(encoder: str, reasons: Mapping[str, str], **_: Any) -> str:
    tried = "; ".join(f"{source}: {reason}" for source, reason in reasons.items())
    return (
        f"The weights of {encoder} are not on this machine and could not be downloaded ({tried});"
        " connect to the hub, or supply a folder with config.json, safetensors weights and"
        f" tokenizer files with `hyperfsad encoders fetch {encoder} --from FOLDER`."
    )


LAB_SENTENCES: Sentences = {
    "winclip-without-text": "{encoder} has no text tower; WinCLIP needs a CLIP with both towers and"
    " its tokenizer: clip-vitb16-text or clip-vitl14-336 from the hub, or a folder with"
    " config.json, safetensors weights and tokenizer files.",
    "winclip-unavailable": _winclip_unavailable,
    "tokenizer-missing": "{folder} holds no tokenizer; WinCLIP needs the tokenizer files of its"
    " CLIP.",
    "tokenizer-unreadable": "The tokenizer in {folder} cannot be read: {reason}.",
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
