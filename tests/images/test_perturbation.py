"""Changed copies of a good part: small, the same every time, and of any kind of picture."""

import numpy as np
import pytest
from PIL import Image

from hyperfsad.images.loading import LoadedImage, load_image
from hyperfsad.images.perturbation import LARGEST, perturbed
from tests.conftest import make_picture


def picture(kind: str) -> LoadedImage:
    rough = np.random.default_rng(0).integers(90, 150, (60, 100, 3), dtype=np.uint8)
    colour = Image.fromarray(rough).resize((200, 120), Image.Resampling.BICUBIC)
    if kind == "colour":
        return load_image(colour)
    grey = np.asarray(colour.convert("L"))
    return load_image(grey.astype(np.uint16) * 257 if kind == "16 bit" else grey)


@pytest.mark.parametrize("kind", ["colour", "grey", "16 bit"])
def test_each_copy_differs_a_little(kind: str) -> None:
    image = picture(kind)
    before = np.asarray(image.pixels, dtype=np.float64)
    copies = perturbed(image)
    assert len(copies) == 5
    for copy in copies:
        assert copy.size == image.size
        assert copy.pixels.mode == image.pixels.mode
        after = np.asarray(copy.pixels, dtype=np.float64)
        assert 0 <= after.min() <= after.max() <= 255.01
        assert 0.01 < np.abs(after - before).mean() < 25


def test_they_are_always_the_same() -> None:
    first, second = ([c.pixels.tobytes() for c in perturbed(picture("colour"))] for _ in range(2))
    assert first == second
    assert len(set(first)) == 5


def test_large_pictures_are_made_smaller_first() -> None:
    image = LoadedImage("large", Image.new("RGB", (3 * LARGEST, LARGEST), (90, 120, 150)))
    assert {copy.size for copy in perturbed(image)} == {(LARGEST, round(LARGEST / 3))}


def test_the_smallest_picture_can_be_changed() -> None:
    image = load_image(make_picture(2, (8, 8)))
    assert {copy.size for copy in perturbed(image)} == {(8, 8)}
