"""Labels from other programs, whichever wrote them."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from ...errors import UsageError, first_line
from .coco import read_coco
from .cvat import read_cvat
from .fiftyone import read_fiftyone
from .label_studio import read_label_studio
from .places import Labelled
from .yolo import read_yolo


def read_labels(file: str | os.PathLike[str]) -> list[Labelled]:
    """What a file of COCO, CVAT, FiftyOne or Label Studio says, or a folder of YOLO."""
    path = Path(file)
    if not path.exists():
        raise UsageError("labels-missing-file", path=path)
    try:
        return list(_read(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, SyntaxError) as e:
        raise UsageError("labels-unreadable", path=path, cause=first_line(e)) from e


def _read(path: Path) -> Iterator[Labelled]:
    if path.is_dir() or path.suffix in (".yaml", ".yml"):
        return read_yolo(path)
    if path.suffix == ".xml":
        return read_cvat(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(content, list):
        return read_label_studio(content)
    return read_fiftyone(content) if "samples" in content else read_coco(content)


def image_of(labelled: Labelled, labels: Path, folder: Path | None) -> str | None:
    """The file of an image: in `folder` by its path or its name, or else as its label names it,
    from here, from beside the labels or from `images` or `data` there. None: it is missing.

    A program that takes an upload puts eight characters and a hyphen before its name.
    """
    named, beside = Path(labelled.image), labels if labels.is_dir() else labels.parent
    inside = Path(*named.parts[1:]) if named.anchor else named
    uploaded = named.name[9:] if named.name[8:9] == "-" else named.name
    usual = [Path(), beside, beside / "images", beside / "data"]
    for place in usual if folder is None else [folder]:
        for name in (named, inside, named.name, uploaded):
            if os.path.isfile(place / name):
                return str(place / name)
    return None
