"""`preprocess.py` gives the bits that our encoder sees, for every kind of picture we read."""

import ast
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hyperfsad.export import preprocess
from hyperfsad.images.loading import load_image
from tests.conftest import make_picture

SIDE = 70


def turned(path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    make_picture(1, (90, 50)).save(path, exif=exif)


def with_alpha(path: Path) -> None:
    picture = make_picture(2, (64, 48)).convert("RGBA")
    picture.putalpha(make_picture(3, (64, 48)).convert("L"))
    picture.save(path)


def transparent_palette(path: Path) -> None:
    make_picture(4).quantize(16).save(path, transparency=3)


def deep(path: Path) -> None:
    grey = np.asarray(make_picture(5).convert("L")).astype(np.uint16) * 251
    Image.fromarray(grey).save(path)


KINDS: dict[str, Callable[[Path], None]] = {
    "rgb.png": lambda path: make_picture(0).save(path),
    "small.png": lambda path: make_picture(0, (12, 9)).save(path),
    "turned.jpg": turned,
    "grey.png": lambda path: make_picture(6).convert("L").save(path),
    "one-bit.png": lambda path: make_picture(6).convert("1").save(path),
    "cmyk.jpg": lambda path: make_picture(7).convert("CMYK").save(path),
    "alpha.png": with_alpha,
    "palette.png": transparent_palette,
    "plain-palette.gif": lambda path: make_picture(8).quantize(8).save(path),
    "grey-alpha.png": lambda path: make_picture(9).convert("LA").save(path),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_bits_are_those_that_the_encoder_sees(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    KINDS[name](path)
    loaded = load_image(path)
    found = preprocess.load(str(path), SIDE)
    assert found.dtype == np.uint8
    assert found.shape == (SIDE, SIDE, 3)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    normalised = (found.astype(np.float32) / 255 - np.array(mean, np.float32)) / np.array(
        std, np.float32
    )
    assert np.array_equal(normalised.transpose(2, 0, 1), loaded.to_array(SIDE, mean, std))
    assert np.array_equal(np.rint(loaded.square(SIDE)), found)


def test_deep_grey_is_rounded_to_8_bits(tmp_path: Path) -> None:
    deep(tmp_path / "deep.png")
    loaded = load_image(tmp_path / "deep.png")
    found = preprocess.load(str(tmp_path / "deep.png"), SIDE)
    seen = 255 * loaded.to_array(SIDE, (0, 0, 0), (1, 1, 1)).transpose(1, 2, 0)
    assert 0 < np.abs(found - seen).max() <= 0.5 + 1e-4
    assert np.array_equal(np.rint(loaded.square(SIDE)), found)


def test_it_needs_numpy_and_pillow_alone() -> None:
    tree = ast.parse(Path(preprocess.__file__).read_text(encoding="utf-8"))
    names = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    names += [node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in names} == {"numpy", "PIL"}
