"""Whatever a decoder raises is the error of one picture, in one sentence with its name."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hyperfsad.decisions.roi import make_region
from hyperfsad.errors import HyperfsadWarning, ImageError, UsageError
from hyperfsad.images.loading import LoadedImage, load_image
from hyperfsad.images.reading import distinct_images
from hyperfsad.quality.test_set import TestImage, load_mask
from tests.codes import raises
from tests.conftest import make_picture
from tests.images.damage import KINDS, hard_files, mutations

EACH = 300
"""Mutations of each format: 2,100 in all."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("error")
def test_a_mutated_picture_is_read_or_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"mutated.{kind.lower()}"
    refused = 0
    for content in mutations(kind, EACH, seed=16):
        path.write_bytes(content)
        try:
            assert min(load_image(path).rgb().size) > 0
        except ImageError as error:
            refused += 1
            sentence = str(error)
            assert sentence.startswith(str(path))
            assert sentence.endswith(".")
            assert len(sentence.splitlines()) == 1
    assert refused > EACH // 20


def test_files_that_have_stopped_runs_are_named(tmp_path: Path) -> None:
    for path in hard_files(tmp_path):
        with raises(ImageError, "image-damaged", name=str(path)):
            load_image(path)


def test_a_warning_that_is_an_error_is_the_picture_s(tmp_path: Path) -> None:
    """Pillow warns where EXIF data are damaged; with -W error its warnings are raised."""
    path = tmp_path / "a.tiff"
    make_picture(1).save(path)
    content = bytearray(path.read_bytes())
    content += content[8:60]
    content[4:8] = (len(content) - 52).to_bytes(4, "little")  # a directory that is cut short
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with raises(ImageError, "image-damaged"):
            load_image(path)


def test_a_picture_that_memory_cannot_hold_is_named(tmp_path: Path) -> None:
    """With a real limit: a picture of 100 million pixels is refused, the next one is read."""
    Image.new("1", (10_000, 10_000)).save(tmp_path / "large.png")
    make_picture(1).save(tmp_path / "small.png")
    limit = 500_000_000
    program = (
        "import resource, sys\n"
        "from hyperfsad.images.loading import load_image\n"
        "from hyperfsad.errors import ImageError\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))\n"
        "try:\n"
        "    load_image(sys.argv[1])\n"
        "except ImageError as error:\n"
        "    print(error.code)\n"
        "print(load_image(sys.argv[2]).size)\n"
    )
    names = [str(tmp_path / name) for name in ("large.png", "small.png")]
    command = [sys.executable, "-c", program, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines() == ["image-memory", "(96, 80)"]


def test_work_that_memory_cannot_hold_leaves_one_image_out() -> None:
    def work(image: LoadedImage) -> tuple[int, int]:
        if image.size == (96, 80):
            np.empty(1 << 60, dtype=np.uint8)
        return image.size

    skipped: list[ImageError] = []
    sources = [make_picture(1), make_picture(2, (50, 40))]
    with pytest.warns(HyperfsadWarning, match="does not fit into memory"):
        found = list(distinct_images(sources, work, skipped, {}))
    assert [size for _, size in found] == [(50, 40)]
    assert [error.code for error in skipped] == ["image-memory"]


def test_damaged_masks_are_named_too(tmp_path: Path) -> None:
    good = tmp_path / "good.png"
    make_picture(1, (32, 24)).save(good)
    for path in hard_files(tmp_path / "hard"):
        with pytest.raises(ImageError) as caught:
            load_mask(TestImage(str(good), True, "hole", str(path)), 32)
        assert Path(caught.value.facts["name"]).name == path.name
        with raises(UsageError, "roi-mask-unusable"):
            make_region(path, (32, 24), 4)
