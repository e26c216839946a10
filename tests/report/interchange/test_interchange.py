"""Files for other programs: what is written comes back, and what those programs write is read."""

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.errors import UsageError
from hyperfsad.report.folder import OutputFolder
from hyperfsad.report.interchange import FORMAT_FILES, FORMATS
from hyperfsad.report.interchange.labels import read_labels
from hyperfsad.report.interchange.places import Labelled
from hyperfsad.results.result import AnomalyResult
from tests.codes import raises
from tests.report.samples import SIZE, sample_result

FILES = ("coco.json", "cvat.xml", "fiftyone.json", "label-studio.json", "yolo")


def results(folder: Path) -> list[AnomalyResult]:
    """A good image, one with a named defect, one anomalous without a region, and a broken one."""
    (folder / "sub").mkdir(parents=True)
    limits: dict[str, Any] = {"map_threshold": 0.3, "threshold": 0.5}
    shown = [("good.png", 0.2, 0.1), ("sub/<ä>&.png", 0.9, 0.9), ("sub/odd.png", 0.2, 0.8)]
    made = [
        sample_result(str(folder / name), seed, peak=peak, score=score, **limits)
        for seed, (name, peak, score) in enumerate(shown)
    ]
    object.__setattr__(made[1], "defect", 'a "deep" <dent>')
    return [*made, AnomalyResult.failed(str(folder / "broken.png"), "It is broken.")]


def written(folder: Path, made: list[AnomalyResult], *formats: str) -> Path:
    with OutputFolder(folder, run="r", heatmaps=False, formats=formats).open() as output:
        for result in made:
            output.add(result)
        output.finish([result.image for result in made])
    return folder


def reviewed(file: Path) -> Path:
    """The file once a person has agreed with all of it."""
    if file.name == "label-studio.json":
        tasks = json.loads(file.read_text(encoding="utf-8"))
        for task in tasks:
            task["annotations"] = task.pop("predictions")
        file.write_text(json.dumps(tasks), encoding="utf-8")
    if file.name == "fiftyone.json":
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace('"predictions": {"_cls', '"ground_truth": {"_cls'), "utf-8")
    return file


def corners(labelled: Labelled) -> NDArray[np.float64]:
    return np.array(labelled.outlines[0]) * SIZE


@pytest.mark.parametrize("name", FILES)
def test_what_is_written_comes_back(tmp_path: Path, name: str) -> None:
    made = results(tmp_path / "photos")
    out = written(tmp_path / "out", made, *FORMATS)
    found = read_labels(reviewed(out / name))
    regions = [one for one in found if one.outlines]
    assert len(found) == (2 if name == "yolo" else 3)  # without the one that it would call good
    assert len(regions) == 1
    assert regions[0].names[0] == 'a "deep" <dent>'
    np.testing.assert_allclose(corners(regions[0]), made[1].regions[0].polygon, atol=0.01)
    if name in ("coco.json", "fiftyone.json", "label-studio.json"):
        assert [one.image for one in found] == [result.image for result in made[:3]]
    if name == "cvat.xml":
        assert [one.image for one in found] == ["good.png", "sub/<ä>&.png", "sub/odd.png"]
        assert [one.names[-1] for one in found] == ["good", "anomalous", "anomalous"]
    if name == "yolo":
        images = [os.path.realpath(one.image) for one in found]
        assert sorted(images) == sorted(os.path.realpath(one.image) for one in made[:2])


def test_coco_alone_is_written_unasked_and_nothing_stale_stays(tmp_path: Path) -> None:
    made, out = results(tmp_path / "photos"), tmp_path / "out"
    written(out, made, *FORMATS)
    assert all((out / name).is_file() for name in FORMAT_FILES)
    kept = out / "yolo" / "labels" / "mine.txt"
    kept.write_text("0 0.5 0.5 1 1\n")
    written(out, made, "cvat")
    assert {name for name in FORMAT_FILES if (out / name).exists()} == {"cvat.xml"}
    assert [path for path in (out / "yolo").rglob("*") if path.is_file()] == [kept]
    assert (out / "coco.json").exists()
    made[1] = made[0]
    written(out, [made[0]], "yolo")
    assert len(list((out / "yolo" / "images").iterdir())) == 1


def test_without_a_limit_of_the_map_no_file_says_that_all_is_good(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    one = sample_result(str(tmp_path / "photos/a.png"), 1, peak=0.9, map_threshold=None)
    out = written(tmp_path / "out", [one], *FORMATS)
    assert not any((out / name).exists() for name in FORMAT_FILES)


def test_an_unknown_format_is_refused_before_the_work_begins(tmp_path: Path) -> None:
    with raises(UsageError, "format-unknown", given="voc"):
        OutputFolder(tmp_path / "out", run="r", formats=["yolo", "voc"])
    assert not (tmp_path / "out").exists()


def test_the_labels_of_label_studio_are_those_of_its_interface(tmp_path: Path) -> None:
    out = written(tmp_path / "out", results(tmp_path / "photos"), "label-studio")
    interface = ElementTree.parse(out / "label-studio.xml").getroot()
    known = {each.get("value") for each in interface.iter() if each.tag in ("Label", "Choice")}
    controls = {each.get("name") for each in interface if each.get("toName") == "image"}
    for task in json.loads((out / "label-studio.json").read_text(encoding="utf-8")):
        for one in task["predictions"][0]["result"]:
            assert one["from_name"] in controls
            assert set(one["value"][one["type"]]) <= known


def read(path: Path, content: str | list[Any] | dict[str, Any]) -> list[Labelled]:
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return read_labels(path)


BOX = ((0.1, 0.2), (0.4, 0.2), (0.4, 0.6), (0.1, 0.6))


def near(one: Labelled, *outlines: Any) -> None:
    assert len(one.outlines) == len(outlines)
    for found, expected in zip(one.outlines, outlines, strict=True):
        np.testing.assert_allclose(found, expected)


def test_coco_as_others_write_it(tmp_path: Path) -> None:
    images = [{"id": n, "file_name": f"{n}.png", "width": 100, "height": 50} for n in range(4)]
    note = {"category_id": 7, "bbox": [10, 10, 30, 20]}
    mask = {"counts": "abc", "size": [50, 100]}
    content = {
        "images": images,
        "categories": [{"id": 7, "name": "dent"}],
        "annotations": [
            {**note, "image_id": 1, "segmentation": []},
            {**note, "image_id": 2, "segmentation": mask},
            {**note, "image_id": 3, "segmentation": [[0, 0, 100, 0, 0, 50]]},
            {**note, "image_id": 3},
        ],
    }
    good, boxed, masked, both = read(tmp_path / "a.json", content)
    assert good == Labelled("0.png", (), ())
    assert boxed.names == masked.names == ("dent",)
    near(boxed, BOX)
    near(masked)  # what cannot be drawn has no place, rather than a wrong one
    near(both, ((0, 0), (1, 0), (0, 1)), BOX)


def test_tasks_as_label_studio_exports_them(tmp_path: Path) -> None:
    def task(image: str, *found: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"data": {"pic": image}, "annotations": [{"result": list(found), **more}]}

    rectangle = {"x": 10, "y": 20, "width": 30, "height": 40, "rectanglelabels": ["dent"]}
    place = {"type": "rectanglelabels", "value": rectangle}
    turned = {"type": "rectanglelabels", "value": {**rectangle, "rotation": 5}}
    brush = {"type": "brushlabels", "value": {"rle": [1], "brushlabels": ["stain"]}}
    choice = {"type": "choices", "value": {"choices": ["Good"]}}
    content = [
        task("/data/upload/3/0a1b2c3d-a.png", choice, place),
        task("/data/local-files/?d=x/%C3%A4%20b.png", choice),
        task("https://host/c.png?sign=1", brush, place),
        task("d.png", turned),
        task("e.png", place, was_cancelled=True),
        {"data": {"pic": "f.png"}, "predictions": [{"result": [place]}]},
    ]
    found = read(tmp_path / "a.json", content)
    names = ["/data/upload/3/0a1b2c3d-a.png", "/x/ä b.png", "/c.png", "d.png"]
    assert [one.image for one in found] == names  # what nobody labelled is left out
    assert [one.names for one in found[:3]] == [("dent", "Good"), ("Good",), ("stain", "dent")]
    near(found[0], BOX)
    assert not any(one.outlines for one in found[1:])


def test_images_as_cvat_exports_them(tmp_path: Path) -> None:
    box = 'xtl="10" ytl="10" xbr="40" ybr="30"'
    head = '<annotations><version>1.1</version><meta><job><id>1</id></job></meta><image id="0"'
    rest = 'width="100" height="50">'
    content = (
        f'{head} name="a.png" {rest}<tag label="used" source="manual"></tag>'
        f'<box label="dent" source="manual" occluded="0" {box} z_order="0"></box></image>'
        f'<image id="1" name="b.png" {rest}<mask label="stain" rle="1, 2" left="1" top="1"'
        f' width="2" height="2"></mask></image>'
        f'<image id="2" name="c.png" {rest}<box label="dent" rotation="5.0" {box}></box></image>'
        f'<image id="3" name="d.png" {rest}</image></annotations>'
    )
    found = read(tmp_path / "a.xml", content)
    assert [one.names for one in found] == [("dent", "used"), ("stain",), ("dent",), ()]
    near(found[0], BOX)
    assert not any(one.outlines for one in found[1:])


def test_samples_as_fiftyone_exports_them(tmp_path: Path) -> None:
    detection = {"label": "dent", "bounding_box": [0.1, 0.2, 0.3, 0.4], "mask": None}
    masked = {**detection, "mask": {"$binary": "abc"}}
    samples = [
        {"filepath": "a.png", "ground_truth": {"detections": [detection]}},
        {"filepath": "b.png", "ground_truth": {"detections": [detection, masked]}},
        {"filepath": "c.png", "ground_truth": {"label": "good"}},
        {"filepath": "d.png", "ground_truth": None, "predictions": {"detections": [detection]}},
    ]
    found = read(tmp_path / "samples.json", {"samples": samples})
    assert [one.names for one in found] == [("dent",), ("dent", "dent"), ("good",)]
    near(found[0], BOX)
    assert not found[1].outlines


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("data.yaml", "path: .\nnames:\n  0: dent\n  1: 'a stain'\nnc: 2\n"),
        ("dataset.yml", "names: [dent, 'a stain']\n"),
        ("data.yaml", 'nc: 2\nnames:\n- dent\n- "a stain"\ntrain: x\n'),
        ("classes.txt", "dent\na stain\n"),
    ],
)
def test_folders_as_yolo_has_them(tmp_path: Path, photos: Path, file: str, text: str) -> None:
    (tmp_path / "images").mkdir()
    photos.rename(tmp_path / "images" / "val")
    (tmp_path / "labels" / "val").mkdir(parents=True)
    (tmp_path / "labels/val/0.txt").write_text("1 0.25 0.4 0.3 0.4\n0 0 0 1 0 0 1\n\n")
    (tmp_path / "labels/val/1.txt").write_text("7 0.25 0.4 0.3 0.4 0.99\n")
    (tmp_path / file).write_text(text, encoding="utf-8")
    first, second, third, *_ = read_labels(tmp_path)
    assert first.names == ("a stain", "dent")
    near(first, BOX, ((0, 0), (1, 0), (0, 1)))
    assert second.names == ("class 7",)
    near(second, BOX)
    assert third.names == ()
    if file != "classes.txt":
        assert read_labels(tmp_path / file) == read_labels(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "{"),
        ("a.json", "{}"),
        ("a.json", "7"),
        ("a.json", '[{"annotations": [{"result": 3}]}]'),
        ("a.json", '{"samples": [{"ground_truth": {"detections": [{}]}}]}'),
        ("a.json", '{"images": [{"id": 1}], "annotations": [], "categories": []}'),
        ("a.xml", "<annotations><image/></annotations>"),
        ("a.xml", "<a>"),
        ("a.json", "\0\x80"),
    ],
)
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with raises(UsageError, "labels-unreadable", path=tmp_path / name):
        read_labels(tmp_path / name)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with raises(UsageError, "labels-missing-file", path=tmp_path / "a.json"):
        read_labels(tmp_path / "a.json")
