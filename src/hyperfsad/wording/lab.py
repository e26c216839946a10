"""Sentences about `lab`."""

from collections.abc import Mapping
from typing import Any

from . import Sentences


def _dataset_not_here(
    folder: object, name: str, expected: str, folders: tuple[str, ...], **_: object
) -> str:
    also = f", there or in {' or '.join(folders)} below it" if folders else ""
    return f"{folder} does not hold the data set {name}: expected {expected}{also}."


def _import_incomplete(
    file: object,
    image: str,
    missing: int,
    dataset: str,
    category: str,
    shots: int | None,
    run: int | None,
    **_: object,
) -> str:
    more = f" and {missing - 1:,} more images" if missing > 1 else ""
    where = "" if shots is None else f", {shots} shots"
    where += "" if run is None else f", run {run}"
    return (
        f"{file} has no score for {image}{more} of {dataset}/{category}{where}; score all of its"
        " test images, or none."
    )


def _absent_dataset(dataset: str, error: object, source: str | None, file: str, **_: object) -> str:
    way = f"Get it from its authors ({source}), and" if source else "To measure it,"
    return f"The data set {dataset} is not measured: {error} {way} name its folder in {file}."


_ENTRY = '{{"dataset": "mvtec", "category": "bottle", "run": 0, "shots": 1, "images": ["003.png"]}}'
_SPLIT = "{home}/split_csv/1cls.csv, line {line}: "


def _winclip_unavailable(encoder: str, reasons: Mapping[str, str], **_: Any) -> str:
    tried = "; ".join(f"{source}: {reason}" for source, reason in reasons.items())
    return (
        f"The weights of {encoder} are not on this machine and could not be downloaded ({tried});"
        " connect to the hub, or supply a folder with config.json, safetensors weights and"
        f" tokenizer files with `hyperfsad encoders fetch {encoder} --from FOLDER`."
    )


LAB_SENTENCES: Sentences = {
    "lab-needs-package": "This part of the lab needs {package}; install it with: pip install"
    " 'hyperfsad[bench]'.",
    "winclip-without-text": "{encoder} has no text tower; WinCLIP needs a CLIP with both towers"
    " and its tokenizer: clip-vitb16-text or clip-vitl14-336 from the hub, or a folder with"
    " config.json, safetensors weights and tokenizer files.",
    "winclip-unavailable": _winclip_unavailable,
    "tokenizer-missing": "{folder} holds no tokenizer; WinCLIP needs the tokenizer files of its"
    " CLIP.",
    "tokenizer-unreadable": "The tokenizer in {folder} cannot be read: {reason}.",
    "category-unknown": "{folder} has no category {unknown} of {dataset}; the categories are"
    " {known}.",
    "dataset-not-here": _dataset_not_here,
    "dataset-root-not-a-folder": "{folder} is not a folder; name the folder that holds the data"
    " set {name}.",
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
    "absent-dataset": _absent_dataset,
    "absent-encoder": lambda encoder, error, **_: f"The encoder {encoder} is not used: {error}",
    "absent-figures": "Figures are not drawn: matplotlib or scikit-learn is not installed; run pip"
    " install 'hyperfsad[bench]'.",
    "absent-preset": (
        lambda preset, encoder, error, **_: (
            f"The preset {preset} is not run with {encoder}: {error}"
        )
    ),
    "import-ambiguous": "{file}, line {line}: {image} could be {first} or {second}; write more of"
    " the path.",
    "import-incomplete": _import_incomplete,
    "import-map": "{map} holds {problem}; a map is a grid of finite numbers, or a grey picture of"
    " 8 or 16 bits.",
    "import-map-missing": "The map {map} of {image} does not exist.",
    "import-map-unreadable": "The map {map} cannot be read: {reason}.",
    "import-name-twice": "{name} is imported twice; give each import a name of its own.",
    "import-no-image": "{file} names no test image of the data sets that are measured here.",
    "import-score": "{file}, line {line}: the score of {image} is {given!r}; expected a finite"
    " number.",
    "import-shots": "{file} has no scores with {shots} shots; choose others with {option[shots]}.",
    "import-twice": "{file}, line {line}: {image} was scored in line {first} already; keep one.",
    "import-unnamed": "{file}, line {line}: the image is not named.",
    "import-unreadable": "{file} cannot be read ({reason}); expected a table with the columns"
    " image and score.",
    "import-whole-number": "{file}, line {line}: {name} is {given!r}; expected a whole number.",
    "nothing-to-time": "Timing needs at least one category and one encoder.",
    "preset": "The preset {given!r} is unknown; known are {known}.",
    "preset-recipe": "The preset {preset} varies the paper's algorithm; {option[recipe]} must be"
    " paper-offline or paper, not {given}.",
    "running-preset": "{number} of {count}: {title}.",
    "shots-rounds": "{option[shots]} and {option[rounds]} must be at least 1, not {shots} and"
    " {rounds}.",
    "shots-runs": "{option[shots]} and {option[runs]} must be at least 1, not {shots} and {runs}.",
    "speed-peer": "The peers to compare with are {known}, not {given!r}.",
    "suite-file": '{path} must be JSON such as {{"datasets": {{"mvtec": "folder"}}, "encoders":'
    ' ["dinov2-vits14"]}}: {reason}.',
    "suite-unusable": (
        lambda kind, file, reasons, **_: f"None of the {kind} of {file} can be used. {reasons}"
    ),
    "supports-field": "{path}, entry {entry}: {name} is {given}; an entry looks like "
    + _ENTRY
    + ".",
    "supports-file": '{path} must be JSON such as {{"supports": [' + _ENTRY + "]}}: {reason}.",
    "supports-images": "{path}, entry {entry}: {shots} shots need {shots} different image names,"
    " not {given}.",
    "supports-missing": "{path} names no supports of {dataset}/{category} for run {run} and"
    " {shots} shots; add them, or leave the category out.",
    "supports-name": "{path}, entry {entry}: {dataset}/{category} has {found} good images named"
    " {name}; name exactly one.",
    "supports-twice": "{path}, entry {entry}: {dataset}/{category} has another list for run {run}"
    " and {shots} shots; keep one.",
    "tokens-not-stored": lambda error, **_: f"Tokens are no longer stored on disk: {error}",
    "too-few-good-images": "{dataset}/{category} has {found} different good images; {needed} shots"
    " need {needed}.",
}
