"""Test sets: which image is good or bad, of which kind; masks of any mode, resized nearest."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hyperfsad.errors import ImageError, UsageError
from hyperfsad.messages import Notice
from hyperfsad.quality.test_set import TestImage, TestSet, load_mask
from tests.codes import raises
from tests.conftest import make_picture
from tests.lab.trees import mvtec_tree


def masked(folder: Path, picture: Image.Image, mask: Image.Image) -> TestImage:
    picture.save(folder / "image.png")
    mask.save(folder / "mask.png")
    return TestImage(str(folder / "image.png"), True, "spot", str(folder / "mask.png"))


def quarter(width: int = 32, height: int = 24) -> np.ndarray:
    """A defect of level 1 in the upper left quarter."""
    values = np.zeros((height, width), dtype=np.uint8)
    values[: height // 2, : width // 2] = 1
    return values


@pytest.mark.parametrize("mode", ["1", "L", "I;16", "P", "RGB", "LA", "RGBA", "clear"])
def test_a_mask_of_any_mode(tmp_path: Path, mode: str) -> None:
    values = quarter()
    grey = Image.fromarray(values)
    if mode == "1":
        mask = Image.fromarray(values * 255).convert("1")
    elif mode == "I;16":
        mask = Image.fromarray(values.astype(np.uint16))
    elif mode == "P":
        mask = grey.convert("P")
    elif mode == "clear":  # drawn on nothing: what lies under full transparency does not count
        clear = np.stack([np.full_like(values, 255)] * 3 + [values * 255], axis=2)
        mask = Image.fromarray(clear)
    else:
        mask = grey.convert(mode)
    loaded = load_mask(masked(tmp_path, make_picture(0, (32, 24)), mask), 16)
    assert loaded.shape == (16, 16)
    assert loaded.dtype == np.bool_
    assert loaded[:8, :8].all()
    assert loaded.sum() == 64


def test_a_mask_is_resized_nearest(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = (rng.random((30, 50)) > 0.7).astype(np.uint8)
    image = masked(tmp_path, make_picture(0, (100, 60)), Image.fromarray(values))
    rows, columns = ((np.arange(size) + 0.5) * scale for size, scale in ((20, 1.5), (20, 2.5)))
    expected = values[rows.astype(int)][:, columns.astype(int)].astype(bool)
    assert (load_mask(image, 20) == expected).all()


def test_only_a_good_image_needs_no_mask() -> None:
    mask = load_mask(TestImage("absent.png", False, "good", None), 5)
    assert (mask == np.zeros((5, 5), dtype=np.bool_)).all()
    with raises(UsageError, "anomalous-without-mask", image="x.png"):
        load_mask(TestImage("x.png", True, "spot", None), 5)


@pytest.mark.parametrize(
    ("size", "fits"),
    [((100, 80), True), ((201, 160), True), ((102, 80), False), ((80, 100), False)],
)
def test_a_mask_has_the_shape_of_its_image(
    tmp_path: Path, size: tuple[int, int], fits: bool
) -> None:
    image = masked(tmp_path, make_picture(0, (100, 80)), Image.new("L", size, 1))
    if fits:
        assert load_mask(image, 8).all()
    else:
        found = f"{size[0]}×{size[1]}"
        with raises(UsageError, "mask-shape", mask=image.mask, mask_size=found, size="100×80"):
            load_mask(image, 8)


def test_the_image_of_a_mask_stands_upright_as_it_does_for_the_encoder(tmp_path: Path) -> None:
    image = masked(tmp_path, make_picture(0, (40, 20)), Image.new("L", (20, 40), 1))
    exif = Image.Exif()
    exif[0x0112] = 6
    make_picture(0, (40, 20)).save(tmp_path / "image.png", exif=exif)
    assert load_mask(image, 8).all()


@pytest.mark.parametrize("file", ["image", "mask"])
def test_a_damaged_or_absent_file_is_named(tmp_path: Path, file: str) -> None:
    image = masked(tmp_path, make_picture(0), Image.new("L", (96, 80), 1))
    bad = tmp_path / f"{file}.png"
    bad.write_bytes(b"no picture")
    with raises(ImageError, "image-unsupported", name=str(bad)):
        load_mask(image, 8)
    bad.unlink()
    with raises(ImageError, "image-missing", name=str(bad)):
        load_mask(image, 8)


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    names = ("good/1.png", "good/more/2.png", "bad/3.png", "bad/scratch/4.png", "bad/dent/x/5.png")
    for seed, name in enumerate(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        make_picture(seed).save(tmp_path / name)
    return tmp_path


def test_folders_below_the_bad_one_name_the_kinds(parts: Path) -> None:
    found = TestSet.from_folders(parts / "good", parts / "bad")
    kinds = {os.path.relpath(i.path, parts): (i.anomalous, i.defect) for i in found.images}
    assert kinds == {
        "good/1.png": (False, "good"),
        "good/more/2.png": (False, "good"),
        "bad/3.png": (True, "bad"),
        "bad/scratch/4.png": (True, "scratch"),
        "bad/dent/x/5.png": (True, "dent"),
    }
    assert not found.has_masks


def test_several_places_globs_and_files(parts: Path) -> None:
    bad = [f"{parts}/bad/scratch", f"{parts}/bad/dent/x/*.png"]
    found = TestSet.from_folders([parts / "good" / "1.png"], bad)
    assert [image.defect for image in found.images] == ["good", "scratch", "x"]


def test_an_image_named_twice_counts_once_and_is_not_good_and_bad(parts: Path) -> None:
    found = TestSet.from_folders([parts / "good", parts / "good" / "1.png"], ())
    assert len(found.images) == 2
    (parts / "bad" / "link.png").symlink_to(parts / "good" / "1.png")
    with raises(UsageError, "both-good-and-bad", image=str(parts / "bad" / "link.png")):
        TestSet.from_folders(parts / "good", parts / "bad")


def test_the_output_folder_holds_no_parts(parts: Path) -> None:
    found = TestSet.from_folders(parts / "good", parts / "bad").outside(parts / "bad" / "scratch")
    assert not any("scratch" in image.path for image in found.images)
    assert len(found.images) == 4
    with raises(UsageError, "all-images-in-output", folder=parts):
        found.outside(parts)


def test_nothing_is_one_sentence(parts: Path) -> None:
    (parts / "empty").mkdir()
    with raises(UsageError, "no-images") as caught:
        TestSet.from_folders(parts / "empty", parts / "bad")
    assert [note.code for note in caught.value.facts["notes"]] == ["folder-without-images"]
    assert caught.value.facts["notes"][0].facts["folder"] == str(parts / "empty")
    with raises(UsageError, "no-test-images-given"):
        TestSet.from_folders((), ())
    with raises(UsageError, "test-tree-without-images", folder=parts):
        TestSet.from_tree(parts)
    with raises(UsageError, "test-tree-not-a-folder"):
        TestSet.from_tree(parts / "nowhere")


def test_a_tree_needs_no_normal_images_and_no_masks(tmp_path: Path) -> None:
    mvtec_tree(tmp_path, ["bolt"], normal=0, test=2)
    found = TestSet.from_tree(tmp_path / "bolt")
    assert [image.defect for image in found.images] == ["good", "good", "spot", "spot"]
    assert found.has_masks
    (tmp_path / "bolt" / "ground_truth").rename(tmp_path / "away")
    found = TestSet.from_tree(tmp_path / "bolt")
    assert len(found.images) == 4
    assert not found.has_masks


def test_one_mask_too_few_is_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    mvtec_tree(tmp_path, ["bolt"], test=2)
    (tmp_path / "bolt" / "ground_truth" / "spot" / "001_mask.png").unlink()
    found = TestSet.from_tree(tmp_path / "bolt")
    assert len(found.images) == 4
    assert not found.has_masks
    (note,) = found.notes
    assert "001.png has no mask" in note


def labelled_set(folder: Path, names: Sequence[str] = ("a.png", "b.png", "c.png")) -> Path:
    """Labels of COCO beside their images: the right half of the first is a dent."""
    images = [
        {"id": n, "file_name": name, "width": 96, "height": 80} for n, name in enumerate(names)
    ]
    notes = [
        {"image_id": 0, "category_id": 1, "segmentation": [[48, 0, 96, 0, 96, 80, 48, 80]]},
        {"image_id": 2, "category_id": 2, "bbox": [0, 0, 96, 80]},
    ]
    kinds = [{"id": 1, "name": "dent"}, {"id": 2, "name": "Fine"}]
    file = folder / "coco.json"
    file.write_text(json.dumps({"images": images, "annotations": notes, "categories": kinds}))
    return file


def test_labels_of_other_programs(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.png"):
        make_picture(1, (96, 80)).save(tmp_path / name)
    found = TestSet.from_labels(labelled_set(tmp_path))
    assert [image.path for image in found.images] == [str(tmp_path / f"{n}.png") for n in "abc"]
    assert [image.anomalous for image in found.images] == [True, False, False]
    assert [image.defect for image in found.images] == ["dent", "good", "good"]
    assert (found.has_masks, found.complete, found.notes) == (True, True, ())
    mask = load_mask(found.images[0], 32)
    assert mask[:, 16:].all()
    assert not mask[:, :16].any()
    assert not load_mask(found.images[2], 32).any()


def test_labelled_images_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "photos" / "sub").mkdir(parents=True)
    for name in ("sub/a.png", "b.png"):
        make_picture(1).save(tmp_path / "photos" / name)
    names = ("/data/sub/a.png", "/data/upload/1/0a1b2c3d-b.png", "lost.png")
    file = labelled_set(tmp_path, names)
    with raises(UsageError, "labels-without-images", images=list(names)):
        TestSet.from_labels(file)
    (tmp_path / "photos" / "data").mkdir()
    (tmp_path / "photos" / "sub").rename(tmp_path / "photos" / "data" / "sub")
    found = TestSet.from_labels(file, tmp_path / "photos")
    assert [Path(image.path).name for image in found.images] == ["b.png", "a.png"]
    assert not found.complete
    (note,) = found.notes
    assert isinstance(note, Notice)
    assert (note.code, note.facts["images"]) == ("labelled-images-lost", ["lost.png"])
