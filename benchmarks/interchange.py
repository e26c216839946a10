"""Whether other programs read what `hyperfsad detect --formats` writes: asks their own readers.

    hyperfsad detect photos/ --detector part.hfsad -o out --formats yolo,label-studio,cvat,fiftyone
    python benchmarks/interchange.py PROGRAM out

PROGRAM is ultralytics, label-studio, cvat (read by datumaro) or fiftyone; each is best installed in
an environment of its own (`pip install ultralytics`, `label-studio-sdk`, `datumaro`, `fiftyone`;
FiftyOne needs a MongoDB). hyperfsad need not be there. Prints how many images and regions the
program found, and how many `results.jsonl` holds.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path


def ultralytics(out: Path) -> tuple[int, int]:
    from ultralytics.data.dataset import YOLODataset
    from ultralytics.data.utils import check_det_dataset

    data = check_det_dataset(str(out / "yolo" / "data.yaml"))
    found = YOLODataset(img_path=data["train"], data=data, task="segment", augment=False)
    return len(found), sum(len(label["segments"]) for label in found.labels)


def label_studio(out: Path) -> tuple[int, int]:
    from label_studio_sdk.label_interface import LabelInterface

    interface = LabelInterface((out / "label-studio.xml").read_text(encoding="utf-8"))
    interface.validate()
    tasks = json.loads((out / "label-studio.json").read_text(encoding="utf-8"))
    predictions = [each for task in tasks for each in task["predictions"]]
    assert all(interface.validate_task({"data": task["data"]}) for task in tasks)
    assert all(interface.validate_prediction(each) for each in predictions)
    kinds = [one["type"] for each in predictions for one in each["result"]]
    return len(tasks), kinds.count("polygonlabels")


def cvat(out: Path) -> tuple[int, int]:
    from xml.etree import ElementTree

    from datumaro import AnnotationType, Dataset

    images = [json.loads(line)["image"] for line in (out / "results.jsonl").open()]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(out / "cvat.xml", Path(folder) / "annotations.xml")
        for image in ElementTree.parse(out / "cvat.xml").iter("image"):
            name = image.attrib["name"]
            target = Path(folder) / "images" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(next(path for path in images if path.endswith(name)), target)
        found = Dataset.import_from(folder, "cvat")
        notes = [note.type for item in found for note in item.annotations]
        return len(found), notes.count(AnnotationType.polygon)


def fiftyone(out: Path) -> tuple[int, int]:
    from fiftyone import Dataset

    found = Dataset.from_json(str(out / "fiftyone.json"))
    return len(found), found.count("predictions.polylines")


PROGRAMS = {
    "ultralytics": ultralytics,
    "label-studio": label_studio,
    "cvat": cvat,
    "fiftyone": fiftyone,
}

if __name__ == "__main__":
    program, results = sys.argv[1], Path(sys.argv[2])
    records = [json.loads(line) for line in (results / "results.jsonl").open(encoding="utf-8")]
    images, regions = PROGRAMS[program](results)
    print(f"{program}: {images} images, {regions} regions")
    scored = [record for record in records if record["error"] is None]
    print(f"results: {len(scored)} images, {sum(len(one['regions']) for one in scored)} regions")
