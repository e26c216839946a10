"""Masks: of any mode, upright, resized nearest; those that do not fit are refused in a sentence."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hyperfsad.errors import ImageError, UsageError
from hyperfsad.quality.datasets import TestImage, load_mask
from tests.conftest import make_picture


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


def test_the_mask_of_a_good_image_is_empty_and_reads_nothing(tmp_path: Path) -> None:
    mask = load_mask(TestImage(str(tmp_path / "absent.png"), False, "good", None), 5)
    assert mask.shape == (5, 5)
    assert mask.dtype == np.bool_
    assert not mask.any()


def test_an_anomalous_image_without_a_mask_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^x\.png is anomalous and has no mask"):
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
        width, height = size
        with pytest.raises(UsageError) as caught:
            load_mask(image, 8)
        assert str(caught.value).startswith(
            f"The mask {image.mask} is {width}×{height} and its image {image.path} is 100×80;"
        )


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
    with pytest.raises(ImageError) as caught:
        load_mask(image, 8)
    assert str(caught.value).startswith(f"{bad} is not an image")
    bad.unlink()
    with pytest.raises(ImageError) as caught:
        load_mask(image, 8)
    assert str(caught.value) == f"{bad} does not exist."
