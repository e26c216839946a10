"""YOLO: links to the images and a file of polygons for each, as ultralytics has it."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from ...images.reading import find_images
from ..pages import write_page
from ..records import file_name
from . import places
from .places import Labelled, Outline, ReadRecords


def write_yolo(folder: Path, read: ReadRecords) -> None:
    """Good images and those with regions: one that is anomalous without a region would be taken
    for good."""
    names, root = places.names_in(read), folder / "yolo"
    clear_yolo(folder)
    for record in places.scored(read):
        if record["anomalous"] and not record["regions"]:
            continue
        name, image = file_name(record["image"]), Path(os.path.abspath(record["image"]))
        lines = []
        for region in record["regions"]:
            corners = places.outline(region, record["size"])
            numbers = " ".join(f"{x:g} {y:g}" for x, y in corners)
            lines.append(f"{names.index(places.name_of(record))} {numbers}\n")
        write_page(root / "labels" / f"{name}.txt", lines)
        link = root / "images" / f"{name}{image.suffix}"
        link.parent.mkdir(exist_ok=True)
        try:
            link.symlink_to(image)
        except OSError:  # not every system has links
            shutil.copyfile(image, link)
    listed = [f"  {number}: {json.dumps(name)}\n" for number, name in enumerate(names)]
    write_page(root / "data.yaml", ["train: images\nval: images\nnames:\n", *listed])


def clear_yolo(folder: Path) -> None:
    """Removes the links and labels of an earlier run; other files there stay."""
    for kind in ("images", "labels"):
        for path in (folder / "yolo" / kind).glob(f"*-{'[0-9a-f]' * 8}.*"):
            path.unlink()


def read_yolo(path: Path) -> Iterator[Labelled]:
    """The images in `images/`, each with its file in `labels/`; one without lines is good."""
    root = path if path.is_dir() else path.parent
    names = _names(root)
    for image in find_images([root / "images"]).paths:
        file = root / "labels" / Path(image).relative_to(root / "images").with_suffix(".txt")
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        shapes = [line.split() for line in lines if line.strip()]
        called = [names.get(number, f"class {number}") for number, *_ in shapes]
        yield Labelled.of(os.path.abspath(image), called, (_outline(shape) for shape in shapes))


def _outline(shape: list[str]) -> Outline:
    values = [float(each) for each in shape[1:]]
    if len(values) > 5:
        return tuple(zip(values[::2], values[1::2], strict=True))
    x, y, width, height = values[:4]  # the middle of a box and its size, perhaps a confidence
    return places.box(x - width / 2, y - height / 2, width, height)


def _names(root: Path) -> dict[str, str]:
    """The names of the classes by their number: from classes.txt, or from a YAML file that lists
    them in one line, or one a line, with or without their numbers."""
    for file in root.glob("classes.txt"):
        return _numbered(file.read_text(encoding="utf-8").splitlines())
    for file in root.glob("*.y*ml"):
        first, _, rest = file.read_text(encoding="utf-8").partition("names:")[2].partition("\n")
        if "[" in first:
            return _numbered(first.strip(" []").split(","))
        if keyed := re.findall(r"^ +(\d+): *(.+)$", rest, re.MULTILINE):
            return {number: _plain(name) for number, name in keyed}
        return _numbered(re.findall(r"^ *- +(.+)$", rest, re.MULTILINE))
    return {}


def _numbered(names: list[str]) -> dict[str, str]:
    return {str(number): _plain(name) for number, name in enumerate(names)}


def _plain(name: str) -> str:
    """A name in YAML, without its quotation marks."""
    name = name.strip()
    return str(json.loads(name)) if name.startswith('"') else name.strip("'")
