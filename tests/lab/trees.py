"""Small data sets in the public layouts, for tests."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from tests.conftest import make_picture


def mvtec_tree(root: Path, categories: Sequence[str], normal: int = 4, test: int = 4) -> None:
    """MVTec's layout: good parts look alike, defects are bright squares with masks."""
    for number, name in enumerate(categories):
        for index in range(normal):
            _save(_part(number, index), root / name / "train" / "good" / f"{index:03d}.png")
        for index in range(test):
            good = _part(number, 100 + index)
            _save(good, root / name / "test" / "good" / f"{index:03d}.png")
            bad = _part(number, 200 + index)
            mask = np.zeros((80, 96), dtype=np.uint8)
            top, left = 10 + 9 * index, 12 + 11 * index
            mask[top : top + 16, left : left + 16] = 255
            bad.paste((255, 255, 0), (left, top, left + 16, top + 16))
            _save(bad, root / name / "test" / "spot" / f"{index:03d}.png")
            place = root / name / "ground_truth" / "spot" / f"{index:03d}_mask.png"
            _save(Image.fromarray(mask), place)


def _part(kind: int, seed: int) -> Image.Image:
    """The same picture for a kind, with a little noise from the seed."""
    base = np.asarray(make_picture(kind)).astype(int)
    noise = np.random.default_rng(seed).integers(-12, 13, base.shape)
    return Image.fromarray(np.clip(base + noise, 0, 255).astype(np.uint8))


def _save(image: Image.Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
