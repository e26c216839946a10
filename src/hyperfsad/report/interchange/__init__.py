"""Results for other programs and labels from them: COCO, YOLO, Label Studio, CVAT and FiftyOne.

A module for each: what writes results, and what reads labels. `labels` tells which program a file
comes from. Pixels are those of the upright image.
"""

from ...errors import UsageError
from .cvat import write_cvat
from .fiftyone import write_fiftyone
from .label_studio import write_label_studio
from .yolo import write_yolo

FORMATS = {
    "cvat": (write_cvat, ("cvat.xml",)),
    "fiftyone": (write_fiftyone, ("fiftyone.json",)),
    "label-studio": (write_label_studio, ("label-studio.json", "label-studio.xml")),
    "yolo": (write_yolo, ("yolo/data.yaml",)),
}
"""What is written only if it is asked for, unlike COCO, and its files in the folder of results."""
FORMAT_FILES = tuple(name for _, files in FORMATS.values() for name in files)


def check_format(name: str) -> None:
    """Refuses an unknown format before the work begins."""
    if name not in FORMATS:
        raise UsageError("format-unknown", given=name, known=[*FORMATS])
