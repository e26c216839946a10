"""Which image is good, which is bad, and of which kind."""

import os
from pathlib import Path

import pytest

from hyperfsad import UsageError
from hyperfsad.quality.evaluation.truth import from_folders, from_tree
from tests.conftest import make_picture
from tests.lab.trees import mvtec_tree


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    names = ("good/1.png", "good/more/2.png", "bad/3.png", "bad/scratch/4.png", "bad/dent/x/5.png")
    for seed, name in enumerate(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        make_picture(seed).save(tmp_path / name)
    return tmp_path


def test_folders_below_the_bad_one_name_the_kinds(parts: Path) -> None:
    truth = from_folders(parts / "good", parts / "bad")
    found = {os.path.relpath(i.path, parts): (i.anomalous, i.defect) for i in truth.images}
    assert found == {
        "good/1.png": (False, "good"),
        "good/more/2.png": (False, "good"),
        "bad/3.png": (True, "bad"),
        "bad/scratch/4.png": (True, "scratch"),
        "bad/dent/x/5.png": (True, "dent"),
    }
    assert not truth.has_masks


def test_several_places_globs_and_files(parts: Path) -> None:
    bad = [f"{parts}/bad/scratch", f"{parts}/bad/dent/x/*.png"]
    truth = from_folders([parts / "good" / "1.png"], bad)
    assert [image.defect for image in truth.images] == ["good", "scratch", "x"]


def test_an_image_named_twice_counts_once(parts: Path) -> None:
    truth = from_folders([parts / "good", parts / "good" / "1.png"], ())
    assert len(truth.images) == 2


def test_an_image_is_not_good_and_bad(parts: Path) -> None:
    (parts / "bad" / "link.png").symlink_to(parts / "good" / "1.png")
    with pytest.raises(UsageError, match=r"link\.png is named as good and as bad; name it once\."):
        from_folders(parts / "good", parts / "bad")


def test_the_output_folder_holds_no_parts(parts: Path) -> None:
    truth = from_folders(parts / "good", parts / "bad").outside(parts / "bad" / "scratch")
    assert not any("scratch" in image.path for image in truth.images)
    assert len(truth.images) == 4
    with pytest.raises(UsageError, match="All images lie in the output folder"):
        truth.outside(parts)


def test_nothing_is_one_sentence(parts: Path) -> None:
    (parts / "empty").mkdir()
    with pytest.raises(UsageError, match="empty holds no images"):
        from_folders(parts / "empty", parts / "bad")
    with pytest.raises(UsageError, match="No image was given"):
        from_folders((), ())
    with pytest.raises(UsageError, match="holds no test images; give a folder with test/good"):
        from_tree(parts)
    with pytest.raises(UsageError, match="is no folder"):
        from_tree(parts / "nowhere")


def test_a_tree_needs_no_normal_images_and_no_masks(tmp_path: Path) -> None:
    mvtec_tree(tmp_path, ["bolt"], normal=0, test=2)
    truth = from_tree(tmp_path / "bolt")
    assert [image.defect for image in truth.images] == ["good", "good", "spot", "spot"]
    assert truth.has_masks
    (tmp_path / "bolt" / "ground_truth").rename(tmp_path / "away")
    truth = from_tree(tmp_path / "bolt")
    assert len(truth.images) == 4
    assert not truth.has_masks


def test_one_mask_too_few_is_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    mvtec_tree(tmp_path, ["bolt"], test=2)
    (tmp_path / "bolt" / "ground_truth" / "spot" / "001_mask.png").unlink()
    truth = from_tree(tmp_path / "bolt")
    assert len(truth.images) == 4
    assert not truth.has_masks
    (note,) = truth.notes
    assert note.startswith("Places are not judged, only verdicts: ")
    assert "001.png has no mask" in note
