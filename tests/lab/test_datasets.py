"""Trees in the exact public layouts, junk included; every refusal of a bad copy; real parts."""

import functools
import io
import os
import random
from pathlib import Path

import pytest

from hyperfsad.errors import UsageError
from hyperfsad.lab.datasets import DATASETS, Category, load_dataset
from hyperfsad.quality.test_set import load_mask
from tests.codes import raises
from tests.conftest import make_picture
from tests.lab.trees import mvtec_tree

JUNK = ("Thumbs.db", "000 - Shortcut.lnk", ".DS_Store", "._000.png", ".hidden/000.png", "a.txt")
FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".bmp": "BMP"}
HEADER = "object,split,label,image,mask"


def plant(root: Path, *paths: str) -> Path:
    """Writes pictures (masks are pictures too) in no order, with junk in each of their folders."""
    folders = {os.path.dirname(path) for path in paths}
    everything = [*paths, *(f"{folder}/{junk}" for folder in folders for junk in JUNK)]
    random.Random(0).shuffle(everything)
    for path in everything:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(encoded(target.suffix.lower()))
    return root


@functools.cache
def encoded(suffix: str) -> bytes:
    """A small picture, or a few bytes that are none."""
    if suffix not in FORMATS:
        return b"junk"
    stream = io.BytesIO()
    make_picture(0, (12, 10)).save(stream, FORMATS[suffix])
    return stream.getvalue()


def numbered(folder: str, count: int, suffix: str = ".png") -> list[str]:
    return [f"{folder}/{number:03d}{suffix}" for number in range(count)]


def mvtec_category(name: str, suffix: str = ".png", mask: str = "_mask.png") -> list[str]:
    return [
        *numbered(f"{name}/train/good", 12, suffix),
        *numbered(f"{name}/test/good", 3, suffix),
        *numbered(f"{name}/test/crack", 2, suffix),
        *numbered(f"{name}/test/crack-2", 2, suffix),
        *numbered(f"{name}/ground_truth/crack", 2, mask),
        *numbered(f"{name}/ground_truth/crack-2", 2, mask),
    ]


def visa_folders(name: str) -> list[str]:
    return [
        *numbered(f"{name}/train/good", 4, ".JPG"),
        *numbered(f"{name}/test/good", 2, ".JPG"),
        *numbered(f"{name}/test/bad", 2, ".JPG"),
        *numbered(f"{name}/ground_truth/bad", 2),
    ]


def visa_rows(name: str) -> list[str]:
    images = f"{name}/Data/Images"
    return [
        *(f"{name},train,normal,{images}/Normal/{n:03d}.JPG," for n in range(4)),
        *(f"{name},test,normal,{images}/Normal/{n:03d}.JPG," for n in (4, 5)),
        *(
            f"{name},test,anomaly,{images}/Anomaly/{n:03d}.JPG,{name}/Data/Masks/Anomaly/{n:03d}.png"
            for n in (0, 1)
        ),
    ]


def plant_visa(root: Path, names: list[str], rows: list[str] | None = None) -> Path:
    """The copy as published: the table always tells of two objects."""
    for name in names:
        plant(
            root,
            *numbered(f"{name}/Data/Images/Normal", 6, ".JPG"),
            *numbered(f"{name}/Data/Images/Anomaly", 2, ".JPG"),
            *numbered(f"{name}/Data/Masks/Anomaly", 2),
        )
    rows = [*visa_rows("pcb1"), *visa_rows("candle")] if rows is None else rows
    random.Random(0).shuffle(rows)
    (root / "split_csv").mkdir(parents=True)
    (root / "split_csv" / "1cls.csv").write_text("\n".join([HEADER, *rows]), encoding="utf-8")
    return root


def medical(normals: str = "valid/good/img", masks: str = "anomaly_mask") -> list[str]:
    return [
        *numbered(normals, 3),
        *numbered("valid/Ungood/img", 1),
        *numbered("test/good/img", 2),
        *numbered(f"test/good/{masks}", 2),
        *numbered("test/Ungood/img", 2),
        *numbered(f"test/Ungood/{masks}", 2),
    ]


def below(root: Path, paths: tuple[str, ...]) -> list[str]:
    return [Path(path).relative_to(root).as_posix() for path in paths]


def truth(root: Path, category: Category) -> list[tuple[str, str, str | None]]:
    """Path, defect and mask of each test image, relative to a root."""
    for image in category.test:
        assert image.anomalous == (image.defect != "good")
    return [
        (
            Path(image.path).relative_to(root).as_posix(),
            image.defect,
            image.mask and Path(image.mask).relative_to(root).as_posix(),
        )
        for image in category.test
    ]


def test_mvtec(tmp_path: Path) -> None:
    plant(tmp_path, *mvtec_category("tile"), *mvtec_category("bottle"), "readme/a.png")
    bottle, tile = load_dataset("mvtec", tmp_path)
    assert (bottle.dataset, bottle.name, tile.name) == ("mvtec", "bottle", "tile")
    assert below(tmp_path, bottle.normal) == numbered("bottle/train/good", 12)
    truths = "bottle/ground_truth"
    assert truth(tmp_path, bottle) == [
        # By parts of the path: as plain strings "crack-2/" would come before "crack/".
        ("bottle/test/crack/000.png", "crack", f"{truths}/crack/000_mask.png"),
        ("bottle/test/crack/001.png", "crack", f"{truths}/crack/001_mask.png"),
        ("bottle/test/crack-2/000.png", "crack-2", f"{truths}/crack-2/000_mask.png"),
        ("bottle/test/crack-2/001.png", "crack-2", f"{truths}/crack-2/001_mask.png"),
        ("bottle/test/good/000.png", "good", None),
        ("bottle/test/good/001.png", "good", None),
        ("bottle/test/good/002.png", "good", None),
    ]
    assert bottle.has_masks


def test_mvtec_masks_may_have_the_names_of_their_images(tmp_path: Path) -> None:
    plant(tmp_path, *mvtec_category("tile", mask=".png"))
    masks = [image.mask for image in load_dataset("mvtec", tmp_path)[0].test if image.anomalous]
    assert masks[0] == str(tmp_path / "tile/ground_truth/crack/000.png")


def test_a_copy_without_any_masks(tmp_path: Path) -> None:
    plant(tmp_path, *(path for path in mvtec_category("tile") if "ground_truth" not in path))
    (tile,) = load_dataset("mvtec", tmp_path)
    assert [image.mask for image in tile.test] == [None] * 7
    assert not tile.has_masks


def test_has_masks_needs_an_anomalous_image(tmp_path: Path) -> None:
    plant(tmp_path, *numbered("a/train/good", 1), *numbered("a/test/good", 1))
    assert not load_dataset("mvtec", tmp_path)[0].has_masks


@pytest.mark.parametrize("wanted", [["tile"], ["tile", "bottle"], ["tile", "tile"]])
def test_some_categories(tmp_path: Path, wanted: list[str]) -> None:
    plant(tmp_path, *mvtec_category("tile"), *mvtec_category("bottle"))
    plant(tmp_path, *numbered("broken/train/good", 1))  # not asked for, so its faults are no matter
    names = [category.name for category in load_dataset("mvtec", tmp_path, wanted)]
    assert names == sorted(set(wanted))


def test_btad_mixes_bmp_and_png(tmp_path: Path) -> None:
    plant(
        tmp_path,
        *numbered("01/train/ok", 2, ".bmp"),
        *numbered("01/test/ok", 1, ".bmp"),
        *numbered("01/test/ko", 1, ".bmp"),
        *numbered("01/ground_truth/ko", 1, ".png"),
        *numbered("03/train/ok", 1, ".png"),
        *numbered("03/test/ko", 1, ".png"),
        *numbered("03/ground_truth/ko", 1, ".bmp"),
    )
    first, third = load_dataset("btad", tmp_path)
    assert below(tmp_path, first.normal) == ["01/train/ok/000.bmp", "01/train/ok/001.bmp"]
    assert truth(tmp_path, first) == [
        ("01/test/ko/000.bmp", "ko", "01/ground_truth/ko/000.png"),
        ("01/test/ok/000.bmp", "good", None),
    ]
    assert truth(tmp_path, third) == [("03/test/ko/000.png", "ko", "03/ground_truth/ko/000.bmp")]


def test_visa_as_published(tmp_path: Path) -> None:
    plant_visa(tmp_path, ["pcb1", "candle"])
    candle, pcb1 = load_dataset("visa", tmp_path)
    assert (candle.name, pcb1.name) == ("candle", "pcb1")
    assert below(tmp_path, candle.normal) == numbered("candle/Data/Images/Normal", 4, ".JPG")
    images, masks = "candle/Data/Images", "candle/Data/Masks/Anomaly"
    assert truth(tmp_path, candle) == [
        (f"{images}/Anomaly/000.JPG", "bad", f"{masks}/000.png"),
        (f"{images}/Anomaly/001.JPG", "bad", f"{masks}/001.png"),
        (f"{images}/Normal/004.JPG", "good", None),
        (f"{images}/Normal/005.JPG", "good", None),
    ]


def test_visa_as_published_may_be_a_subset(tmp_path: Path) -> None:
    plant_visa(tmp_path, ["pcb1"])
    assert [category.name for category in load_dataset("visa", tmp_path)] == ["pcb1"]
    with raises(UsageError, "category-unknown", unknown="candle", known="pcb1"):
        load_dataset("visa", tmp_path, ["candle"])


def test_visa_as_published_without_masks(tmp_path: Path) -> None:
    rows = [",".join([*row.split(",")[:4], ""]) for row in visa_rows("pcb1")]
    plant_visa(tmp_path, ["pcb1"], rows)
    (pcb1,) = load_dataset("visa", tmp_path)
    assert {image.mask for image in pcb1.test} == {None}
    assert not pcb1.has_masks


def test_visa_in_folders(tmp_path: Path) -> None:
    plant(tmp_path, *visa_folders("candle"))
    (candle,) = load_dataset("visa", tmp_path)
    assert below(tmp_path, candle.normal) == numbered("candle/train/good", 4, ".JPG")
    assert truth(tmp_path, candle) == [
        ("candle/test/bad/000.JPG", "bad", "candle/ground_truth/bad/000.png"),
        ("candle/test/bad/001.JPG", "bad", "candle/ground_truth/bad/001.png"),
        ("candle/test/good/000.JPG", "good", None),
        ("candle/test/good/001.JPG", "good", None),
    ]


@pytest.mark.parametrize("name", ["resc", "brats"])
@pytest.mark.parametrize("masks", ["anomaly_mask", "label"])
@pytest.mark.parametrize(
    "normals", ["valid/good/img", "valid/good", "train/good/img", "train/good"]
)
def test_medical_sets(tmp_path: Path, name: str, masks: str, normals: str) -> None:
    plant(tmp_path, *medical(normals, masks))
    (category,) = load_dataset(name, tmp_path)
    assert (category.dataset, category.name) == (name, name)
    assert below(tmp_path, category.normal) == numbered(normals, 3)
    assert truth(tmp_path, category) == [
        ("test/Ungood/img/000.png", "Ungood", f"test/Ungood/{masks}/000.png"),
        ("test/Ungood/img/001.png", "Ungood", f"test/Ungood/{masks}/001.png"),
        ("test/good/img/000.png", "good", None),
        ("test/good/img/001.png", "good", None),
    ]


def test_medical_support_comes_from_valid_before_train(tmp_path: Path) -> None:
    plant(tmp_path, *medical(), *numbered("train/good", 9))
    (category,) = load_dataset("brats", tmp_path, ["brats"])
    assert below(tmp_path, category.normal) == numbered("valid/good/img", 3)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mvtec", "mvtec"),
        ("mvtec", "mvtec_anomaly_detection"),
        ("mpdd", "MPDD"),
        ("mpdd", "mpdd"),
        ("btad", "BTech_Dataset_transformed"),
        ("visa", "VisA_20220922"),
        ("visa", "VisA_pytorch/1cls"),
        ("resc", "Retina_RESC_AD"),
        ("brats", "Brain_AD"),
    ],
)
# Words that loaders are tempted to replace in paths.
@pytest.mark.parametrize("root", [".", "test/img/good/ground_truth/ok/Images"])
def test_the_folder_itself_or_its_parent(tmp_path: Path, name: str, folder: str, root: str) -> None:
    parent = tmp_path / root
    home = parent / folder
    plant(parent, *numbered("another_set/part/train/good", 1), *mvtec_category("stray"))
    if folder == "VisA_20220922":
        plant_visa(home, ["pcb1"])
    elif name in ("resc", "brats"):
        plant(home, *medical())
    elif name == "btad":
        paths = (*numbered("01/train/ok", 2), *numbered("01/test/ko", 1))
        plant(home, *paths, *numbered("01/ground_truth/ko", 1))
    else:
        plant(home, *visa_folders("a"))
    inside = load_dataset(name, home)
    assert load_dataset(name, parent) == inside
    assert load_dataset(name, os.fspath(parent)) == inside
    (category,) = inside
    assert category.has_masks
    named = [*category.normal, *(i.path for i in category.test), *(i.mask for i in category.test)]
    for path in filter(None, named):
        assert Path(path).is_file()
        assert Path(path).is_relative_to(home)


@pytest.mark.parametrize("normals", ["train/good", "train/normal", "train/ok", "normal", "ok"])
@pytest.mark.parametrize(
    ("good", "masks"), [("good", "ground_truth"), ("normal", "masks"), ("OK", "mask")]
)
def test_any_folder_with_a_test_folder(tmp_path: Path, normals: str, good: str, masks: str) -> None:
    home = tmp_path / "test" / "img" / "good" / "cookie"
    plant(
        home,
        *numbered(normals, 2, ".jpeg"),
        *numbered(f"test/{good}", 1, ".jpeg"),
        *numbered("test/cracked", 1, ".jpeg"),
        *numbered("test/spot", 1, ".jpeg"),
        *numbered(f"{masks}/cracked", 1, "_mask.png"),
        *numbered(f"{masks}/spot", 1, ".png"),
    )
    (cookie,) = load_dataset("folder", home.parent)
    assert (cookie.dataset, cookie.name) == ("folder", "cookie")
    assert below(home, cookie.normal) == numbered(normals, 2, ".jpeg")
    expected = [
        ("test/cracked/000.jpeg", "cracked", f"{masks}/cracked/000_mask.png"),
        (f"test/{good}/000.jpeg", "good", None),
        ("test/spot/000.jpeg", "spot", f"{masks}/spot/000.png"),
    ]
    assert truth(home, cookie) == sorted(expected)
    assert load_dataset("folder", home) == [cookie]


@pytest.mark.parametrize("normals", ["good", "Normal"])
@pytest.mark.parametrize("defects", ["abnormal", "bad", "defect", "ko", "Anomaly"])
def test_any_folder_without_a_test_folder(
    tmp_path: Path, normals: str, defects: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "part"
    plant(home, *numbered(normals, 2), *numbered(defects, 2))
    (part,) = load_dataset("folder", home)
    assert part.name == "part"
    assert below(home, part.normal) == numbered(normals, 2)
    expected = [(path, defects, None) for path in numbered(defects, 2)]
    assert truth(home, part) == expected
    monkeypatch.chdir(home)
    assert load_dataset("folder", ".")[0].name == "part"


def test_masks_of_one_defect_may_lie_in_the_mask_folder_itself(tmp_path: Path) -> None:
    home = tmp_path / "part"
    plant(home, *numbered("good", 1), *numbered("bad", 2), *numbered("masks", 2))
    (part,) = load_dataset("folder", home)
    assert [mask for _, _, mask in truth(home, part)] == numbered("masks", 2)
    plant(home, *numbered("defect", 1))
    with raises(UsageError, "shared-mask", mask=str(home / "masks" / "000.png")):
        load_dataset("folder", home)


def test_an_unknown_data_set_and_a_root_that_is_no_folder(tmp_path: Path) -> None:
    with raises(UsageError, "dataset-unknown", name="mvtek"):
        load_dataset("mvtek", tmp_path)
    with raises(UsageError, "dataset-root-not-a-folder", folder=tmp_path / "absent"):
        load_dataset("mvtec", tmp_path / "absent")


@pytest.mark.parametrize("name", DATASETS)
def test_a_wrong_root(tmp_path: Path, name: str) -> None:
    plant(tmp_path, "photos/a.png", *numbered("mvtec/empty", 1))
    expected = {"expected": DATASETS[name].expected, "folders": DATASETS[name].folders}
    with raises(UsageError, "dataset-not-here", folder=tmp_path, name=name, **expected):
        load_dataset(name, tmp_path)


def test_unknown_categories(tmp_path: Path) -> None:
    plant(tmp_path, *mvtec_category("tile"), *mvtec_category("bottle"))
    facts = {"unknown": "hazelnut, wood", "known": "bottle, tile"}
    with raises(UsageError, "category-unknown", folder=tmp_path, **facts):
        load_dataset("mvtec", tmp_path, ["tile", "wood", "hazelnut"])


@pytest.mark.parametrize(
    ("name", "home", "place"),
    [
        ("mvtec", "a", "train/good"),
        ("visa", "a", "train/good"),
        ("btad", "a", "train/ok"),
        ("resc", "", "valid/good/img"),
        ("folder", "", "train/good"),
    ],
)
def test_no_normal_or_no_test_images(tmp_path: Path, name: str, home: str, place: str) -> None:
    folder = tmp_path / home
    for part in (place, "test/good", "test/ok", "test/bad"):
        (folder / part).mkdir(parents=True)
        (folder / part / "Thumbs.db").touch()
    with raises(UsageError, "no-normal-images", folder=folder) as caught:
        load_dataset(name, tmp_path)
    assert place in caught.value.facts["expected"]
    plant(folder, *numbered(place, 1))
    with raises(UsageError, "no-test-images", folder=folder):
        load_dataset(name, tmp_path)


CRACK = ("a/test/crack/001.png", "a/ground_truth/crack/001_mask.png")


@pytest.mark.parametrize(
    ("name", "paths", "image", "mask"),
    [
        ("mvtec", mvtec_category("a"), *CRACK),
        ("visa", visa_folders("a"), "a/test/bad/000.JPG", "a/ground_truth/bad/000.png"),
        ("resc", medical(), "test/Ungood/img/001.png", "test/Ungood/anomaly_mask/001.png"),
        ("folder", mvtec_category("a"), *CRACK),
    ],
)
def test_a_missing_mask(tmp_path: Path, name: str, paths: list[str], image: str, mask: str) -> None:
    plant(tmp_path, *paths)
    (tmp_path / mask).unlink()
    with raises(UsageError, "no-mask", image=tmp_path / image, folder=(tmp_path / mask).parent):
        load_dataset(name, tmp_path)


def test_a_missing_folder_of_masks(tmp_path: Path) -> None:
    plant(tmp_path, *(p for p in mvtec_category("a") if not p.startswith("a/ground_truth/crack/")))
    with raises(UsageError, "no-mask", folder=tmp_path / "a" / "ground_truth" / "crack"):
        load_dataset("mvtec", tmp_path)


@pytest.mark.parametrize(
    ("mask", "extra", "code"),
    [
        (".png", "a/ground_truth/crack/001.bmp", "two-masks"),
        ("_mask.png", "a/test/crack/001.bmp", "shared-mask"),
    ],
)
def test_two_masks_for_an_image_and_two_images_for_a_mask(
    tmp_path: Path, mask: str, extra: str, code: str
) -> None:
    plant(tmp_path, *mvtec_category("a", mask=mask), extra)
    with raises(UsageError, code):
        load_dataset("mvtec", tmp_path)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ("pcb1,train,normal,pcb1/x.JPG,", "split-file-missing"),
        ("pcb1,train,normal,,", "split-file-unnamed"),
        ("pcb1,train,normal", "split-file-unnamed"),
        ("pcb1,test,anomaly,pcb1/new.png,pcb1/y.png", "split-file-missing"),
        ("pcb1,test,anomaly,pcb1/new.png,", "split-file-unnamed"),
        ("pcb1,train,anomaly,pcb1/new.png,", "split-row-unknown"),
        ("pcb1,valid,normal,pcb1/new.png,", "split-row-unknown"),
        ("pcb1,test,normal,pcb1/Data/Images/Normal/000.JPG,", "split-image-twice"),
    ],
)
def test_a_bad_row_of_visa(tmp_path: Path, row: str, code: str) -> None:
    plant_visa(tmp_path, ["pcb1"], visa_rows("pcb1"))
    plant(tmp_path, "pcb1/new.png")
    with (tmp_path / "split_csv" / "1cls.csv").open("a", encoding="utf-8") as file:
        file.write(f"\n{row}\n")
    with raises(UsageError, code, home=tmp_path, line=10):
        load_dataset("visa", tmp_path)


@pytest.mark.parametrize(("split", "absent"), [("train", "test"), ("test", "normal")])
def test_a_table_of_visa_without_one_split(tmp_path: Path, split: str, absent: str) -> None:
    rows = [row for row in visa_rows("pcb1") if f",{split}," in row]
    plant_visa(tmp_path, ["pcb1"], rows)
    with raises(UsageError, "split-lacks-images", folder=tmp_path / "pcb1", kind=absent):
        load_dataset("visa", tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"object,split,label,image\npcb1,train,normal,a.png\n",
        b"",
        b"object,split,label,image,mask\n\xff\xfe\n",
    ],
)
def test_a_damaged_table_of_visa(tmp_path: Path, content: bytes) -> None:
    table = plant_visa(tmp_path, ["pcb1"]) / "split_csv" / "1cls.csv"
    table.write_bytes(content)
    with raises(UsageError, "split-unreadable", table=table):
        load_dataset("visa", tmp_path)


def test_a_table_of_visa_saved_by_a_spreadsheet(tmp_path: Path) -> None:
    table = plant_visa(tmp_path, ["pcb1"]) / "split_csv" / "1cls.csv"
    before = load_dataset("visa", tmp_path)
    table.write_bytes(b"\xef\xbb\xbf" + table.read_bytes().replace(b"\n", b"\r\n"))
    assert load_dataset("visa", tmp_path) == before


@pytest.mark.parametrize(
    ("name", "root", "category", "counts", "has_masks"),
    [
        ("mvtec", "mvtec", "bottle", (8, 16, 24), True),
        ("mvtec", ".", "tile", (8, 16, 40), True),
        ("mpdd", "mpdd", "bracket_black", (8, 16, 16), True),
        ("folder", "other", "cookie", (8, 16, 8), True),
        ("folder", "medical", "chest_xray", (8, 16, 16), False),
    ],
)
def test_real_parts(
    data: Path,
    name: str,
    root: str,
    category: str,
    counts: tuple[int, int, int],
    has_masks: bool,
) -> None:
    (found,) = load_dataset(name, data / root, [category])
    anomalous = [image for image in found.test if image.anomalous]
    good = [image for image in found.test if not image.anomalous]
    assert (len(found.normal), len(good), len(anomalous)) == counts
    assert found.has_masks == has_masks
    for image in anomalous if has_masks else []:
        assert 0 < load_mask(image, 256).mean() < 0.5


def test_mvtec_is_not_taken_for_visa(tmp_path: Path) -> None:
    mvtec_tree(tmp_path, ["bolt"], normal=1)
    with raises(UsageError, "dataset-not-here", name="visa"):
        load_dataset("visa", tmp_path)
