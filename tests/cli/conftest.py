"""Saved detectors on the small model, and images for them."""

from pathlib import Path

import pytest
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from hyperfsad.cli.console import DONE
from tests.cli.running import fit_products
from tests.detector.test_products import product_picture


@pytest.fixture
def fitted(tiny: str, photos: Path, tmp_path: Path) -> Path:
    path = tmp_path / "part.hfsad"
    HyperFSAD(tiny, device="cpu").fit([photos / "0.png", photos / "1.png"]).save(path)
    return path


@pytest.fixture
def small(tiny: str, photos: Path, tmp_path: Path) -> Path:
    """A detector file that is quick to use: few patches, no turned copies."""
    path = tmp_path / "small.hfsad"
    detector = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
    detector.fit([photos / "0.png", photos / "1.png"]).save(path)
    return path


@pytest.fixture
def product_folder(tmp_path: Path) -> Path:
    """Good parts of two products, one of them with a name that needs care."""
    root = tmp_path / "products"
    for kind, name in enumerate(("Ölring <b> 1", "bolt")):
        (root / name).mkdir(parents=True)
        for seed in range(2):
            product_picture(kind, seed).save(root / name / f"{seed}.png")
    return root


@pytest.fixture
def products(product_folder: Path, tiny: str, tmp_path: Path) -> Path:
    """A detector of both products."""
    target = tmp_path / "products.hfsad"
    assert main(fit_products(product_folder, target, tiny)) == DONE
    return target


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A part of each product, and something else."""
    root = tmp_path / "mixed"
    root.mkdir()
    for kind in range(2):
        product_picture(kind, 9).save(root / f"{kind}.png")
    Image.new("RGB", (90, 90), "white").save(root / "wall.png")
    return root
