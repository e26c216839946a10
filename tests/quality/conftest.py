"""Real parts on disk in MVTec's layout, and a detector that has learnt some of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperfsad import HyperFSAD
from tests.lab.trees import mvtec_tree

GOODS = BADS = 4


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good parts that look alike, and others with a bright square; nobody may change it."""
    root = tmp_path_factory.mktemp("tree")
    mvtec_tree(root, ["bolt"], normal=4, test=GOODS)
    return root / "bolt"


@pytest.fixture(scope="session")
def saved(tiny: str, tree: Path) -> Path:
    """The file of a detector of these parts."""
    path = tree.parent / "part.hfsad"
    detector = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
    detector.fit(tree / "train" / "good").save(path)
    return path


@pytest.fixture(scope="session")
def loaded(saved: Path) -> HyperFSAD:
    return HyperFSAD.load(saved, device="cpu")


@pytest.fixture
def judge(loaded: HyperFSAD) -> Iterator[HyperFSAD]:
    """The detector; a test may change its thresholds, and the next finds them as they were."""
    names = ("threshold_", "map_threshold_", "calibration_")
    before = {name: getattr(loaded, name) for name in names}
    yield loaded
    for name, value in before.items():
        setattr(loaded, name, value)
