"""Whole data sets and subsets, on trees of the true sizes in the public layouts."""

import json
import os
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hyperfsad.lab.datasets import Category, load_dataset
from hyperfsad.lab.published import SIX_SETS, count_images, is_whole, missing_part
from hyperfsad.lab.run import Source, Suite

SIZES = json.loads((resources.files("hyperfsad.lab") / "sizes.json").read_text(encoding="utf-8"))
TOTALS = {
    "mvtec": (467, 1258),
    "visa": (962, 1200),
    "mpdd": (176, 282),
    "btad": (451, 290),
    "resc": (1041, 764),
    "brats": (640, 3075),
}
"""As the data sets' authors sum them up."""

LAYOUTS = {
    "mvtec": ("{}/train/good", "{}/test/good", "{}/test/crack", "{}/ground_truth/crack"),
    "visa": ("{}/train/good", "{}/test/good", "{}/test/bad", "{}/ground_truth/bad"),
    "mpdd": ("{}/train/good", "{}/test/good", "{}/test/hole", "{}/ground_truth/hole"),
    "btad": ("{}/train/ok", "{}/test/ok", "{}/test/ko", "{}/ground_truth/ko"),
    "resc": (*("valid/good/img", "test/good/img", "test/Ungood/img", "test/Ungood/anomaly_mask"),),
    "brats": (*("valid/good/img", "test/good/img", "test/Ungood/img", "test/Ungood/anomaly_mask"),),
}


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All six data sets with as many files as they have, each a tiny picture."""
    root = tmp_path_factory.mktemp("trees")
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    picture = root / "picture.png"
    Image.fromarray(noise).save(picture)
    for dataset, layout in LAYOUTS.items():
        for category, size in SIZES[dataset]["categories"].items():
            numbers = (2, size["good"], size["bad"], size["bad"])
            for folder, number in zip(layout, numbers, strict=True):
                place = root / dataset / folder.format(category)
                place.mkdir(parents=True)
                for index in range(number):  # links take half the time of files
                    os.link(picture, f"{place}/{index:04d}.png")
    return root


def extent(categories: list[Category]) -> dict[str, dict[str, int]]:
    return {category.name: count_images(category) for category in categories}


@pytest.mark.parametrize("dataset", SIX_SETS)
def test_the_sizes_add_up_to_the_known_totals_and_name_their_source(dataset: str) -> None:
    sizes = SIZES[dataset]["categories"].values()
    assert tuple(sum(size[kind] for size in sizes) for kind in ("good", "bad")) == TOTALS[dataset]
    assert SIZES[dataset]["source"]


@pytest.mark.parametrize("dataset", SIX_SETS)
def test_all_images_are_a_whole_data_set_and_one_less_is_a_subset(
    trees: Path, dataset: str
) -> None:
    found = extent(load_dataset(dataset, trees / dataset))
    assert is_whole(dataset, found)
    assert missing_part(dataset, found) is None
    total = sum(TOTALS[dataset])
    good = trees / dataset / LAYOUTS[dataset][1].format(next(iter(found))) / "0000.png"
    content = good.read_bytes()
    good.unlink()
    try:
        fewer = extent(load_dataset(dataset, trees / dataset))
        assert not is_whole(dataset, fewer)
        assert missing_part(dataset, fewer) == f"subset: {total - 1:,} of {total:,} images"
        another = good.with_name("another.png")
        another.write_bytes(content)
        good.write_bytes(content)
        more = extent(load_dataset(dataset, trees / dataset))
        another.unlink()
        assert not is_whole(dataset, more)
        assert missing_part(dataset, more) == (
            f"not the known set: {total + 1:,} other images instead of {total:,}"
        )
    finally:
        good.write_bytes(content)


def test_a_suite_under_the_name_of_a_data_set_counts_alike(trees: Path) -> None:
    suite = Suite({"resc": Source("resc", str(trees / "resc"))}, ())
    assert is_whole("resc", extent(suite.load()))


def test_missing_masks_and_categories_make_a_subset() -> None:
    resc = {"normal": 45, "good": 1041, "bad": 764, "masks": 764}
    assert is_whole("resc", {"resc": resc})
    assert missing_part("resc", {"resc": {**resc, "masks": 0}}) == "subset: 0 of 764 masks"
    bottle = {"normal": 8, "good": 16, "bad": 26, "masks": 26}
    assert (
        missing_part("mvtec", {"bottle": bottle})
        == "subset: 1 of 15 categories, 42 of 1,725 images"
    )
    assert missing_part("mvtec", {"bottle": bottle}, "bottle") == "subset: 42 of 83 images"
    whole = {"bottle": {"good": 20, "bad": 63, "masks": 63}}
    assert missing_part("mvtec", whole, "bottle") is None


def test_other_images_of_the_same_number_are_not_the_set() -> None:
    swapped = {"good": 764, "bad": 1041, "masks": 1041}
    assert not is_whole("resc", {"resc": swapped})
    assert "not the known set" in (missing_part("resc", {"resc": swapped}) or "")
    assert "no category bolt" in (missing_part("mvtec", {"bolt": swapped}) or "")


def test_what_nobody_knows_is_neither_whole_nor_a_subset() -> None:
    found = {"bolt": {"good": 1, "bad": 1, "masks": 1}}
    assert missing_part("parts", found) is None
    assert not is_whole("parts", found)
    assert missing_part("parts", found, "bolt") is None
