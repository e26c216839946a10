"""Sentences about images and where they are found."""

import os
from collections.abc import Sequence
from typing import Any

from . import Sentences

_SHOWN = 3
"""Names of files that a sentence lists."""


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _folder_without_images(folder: str, ignored: Sequence[str], **_: Any) -> str:
    return f"{folder} holds no images{f'; ignored: {_listed(ignored)}' if ignored else ''}."


def _files_ignored(folder: str, ignored: Sequence[str], **_: Any) -> str:
    what = "file ignored that is not an image"
    if len(ignored) > 1:
        what = "files ignored that are not images"
    return f"{folder}: {len(ignored)} {what}: {_listed(ignored)}."


def _no_images(notes: Sequence[str], **_: Any) -> str:
    return " ".join(notes) or "No image was given."


def _loose_images(folder: str, images: Sequence[str], **_: Any) -> str:
    more = f" and {len(images) - 1} more" if len(images) > 1 else ""
    first = os.path.join(folder, images[0])
    return f"{first}{more} beside the folders of products is left out; it belongs to none of them."


def _repeated(name: str, first: str, learnt: bool, **_: Any) -> str:
    if not learnt:
        return f"{name} shows the same picture as {first} and is left out."
    alias = "" if name == first else f", as {first},"
    return f"{name} was learnt already{alias} and is left out."


IMAGES_SENTENCES: Sentences = {
    "image-type": "An image is a path, an open file or its bytes, a PIL image, a NumPy array or a"
    " torch tensor, not {given}.",
    "images-type": "Images are a folder, a glob, paths, open files or their bytes, PIL images,"
    " NumPy arrays or torch tensors, not {given}.",
    "image-several": "`predict` takes one image; for {given} use `predict_many`, which takes a"
    " folder, a glob or any number of images.",
    "image-with-label": "Images come one by one, but one came in a {kind} of {count}, as a data"
    " loader pairs images with labels. Pass the images alone.",
    "image-batch": "An array of the shape {shape} is a batch. Pass its images one by one, as in"
    " `predict_many(list(batch))`.",
    "image-file-text": "{name} was opened as text; open pictures in binary mode.",
    "image-missing": "{name} does not exist.",
    "image-path": "{name!r} is not the path of a file.",
    "image-link": "{name} is a broken link.",
    "image-empty": "{name} is empty (0 bytes).",
    "image-unsupported": lambda name, **_: (
        "The content is not that of an image, or its format is not supported."
        if name == "image"  # it came without a name
        else f"{name} is not an image, or its format is not supported."
    ),
    "image-unreadable": "{name} cannot be read: {reason}.",
    "image-damaged": "{name} is damaged: {reason}.",
    "image-memory": "{name} does not fit into memory.",
    "image-too-small": "{name} is only {width}×{height} pixels; each side needs at least {least}.",
    "image-too-large": "{name} is too large: it has over {megapixels:.0f} million pixels.",
    "image-mode": "{name} has the colour mode {mode}, which is not supported; save it as RGB.",
    "image-grey-range": "{name} has grey values outside 0 to 65535; save it as 8 or 16 bit.",
    "image-float-range": "{name} has float values outside 0 to 1; scale all images in the same way"
    " first.",
    "image-not-finite": "{name} contains NaN or infinity.",
    "array-shape": "{name} has the shape {shape}; expected (H, W) or (H, W, 3).",
    "array-type": "{name} has the type {type}; expected uint8, uint16 or float.",
    "picture-suffix": "{name}: the name of a picture must end with .jpg or .png.",
    "folder-without-images": _folder_without_images,
    "files-ignored": _files_ignored,
    "folder-unreadable": "{folder} cannot be opened: {reason}.",
    "pattern-unmatched": "No file matches {pattern}.",
    "path-missing": "{path} does not exist.",
    "no-images": _no_images,
    "image-skipped": "{error} It is left out.",
    "image-repeated": _repeated,
    "products-not-a-folder": "{path} is not a folder; give a folder with one folder for each"
    " product.",
    "products-without-folders": "{folder} holds no folders; put the good parts of each product"
    " into a folder of its own.",
    "products-loose-images": _loose_images,
    "product-with-defects": "{folder} holds a folder train and a folder test, as data sets with"
    " defects do; the folder of a product holds good parts only.",
    "product-without-images": "{error} The product {product} cannot be learnt.",
}
