"""Cached weights that were changed are noticed, whichever bit it was, and read once if not."""

import os
import shutil
from pathlib import Path

import pytest

from hyperfsad.encoders import REGISTRY, EncoderSpec, integrity, store
from hyperfsad.encoders.encoder import load_encoder
from hyperfsad.encoders.folders import weight_files
from hyperfsad.errors import EncoderError
from tests.encoders.conftest import hub_snapshot
from tests.encoders.test_encoder import saved_model

BROUGHT = REGISTRY["dinov2-vitb14"]


@pytest.fixture
def brought(cache: Path, tmp_path: Path) -> Path:
    """A small model that a user brought along under the name of a large one."""
    saved_model("dinov2", tmp_path / "model", depth=12)
    return store.fetch(BROUGHT, tmp_path / "model")


def loaded(spec: EncoderSpec) -> None:
    load_encoder(spec.settings(resolution=56), device="cpu", engine="torch")


def flip(path: Path, place: int = -1001, bit: int = 0x40) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= bit
    path.write_bytes(content)


@pytest.mark.parametrize("place", [-1, -20001, 5000])
def test_a_flipped_bit_in_weights_is_noticed(brought: Path, place: int) -> None:
    loaded(BROUGHT)
    flip(brought / "model.safetensors", place)
    with pytest.raises(EncoderError, match=r"changed or damaged since .* fetch dinov2-vitb14 --fr"):
        loaded(BROUGHT)
    flip(brought / "model.safetensors", place)
    loaded(BROUGHT)  # the same content is sound, whatever its time


def test_a_changed_config_is_noticed(brought: Path) -> None:
    loaded(BROUGHT)
    config = brought / "config.json"
    config.write_text(config.read_text().replace('"gelu"', '"relu"'))
    with pytest.raises(EncoderError, match=r"config\.json was changed"):
        loaded(BROUGHT)


def test_other_weights_may_be_brought_along(brought: Path, tmp_path: Path) -> None:
    loaded(BROUGHT)
    flip(tmp_path / "model" / "model.safetensors", bit=1)
    store.fetch(BROUGHT, tmp_path / "model")
    loaded(BROUGHT)


def test_files_are_hashed_once_for_each_change(
    brought: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    sha256 = store.file_sha256

    def noted(path: Path) -> str:
        hashed.append(path.name)
        return sha256(path)

    monkeypatch.setattr(store, "file_sha256", noted)
    integrity.require_intact(BROUGHT, brought)
    assert sorted(hashed) == ["config.json", "model.safetensors"]
    integrity.require_intact(BROUGHT, brought)
    assert len(hashed) == 2
    os.utime(brought / "model.safetensors")
    integrity.require_intact(BROUGHT, brought)
    assert hashed[2:] == ["model.safetensors"]
    (brought / integrity.NOTE).write_text("{[")  # a damaged note is none
    integrity.require_intact(BROUGHT, brought)
    assert len(hashed) == 5


def test_a_file_of_the_hub_has_the_hash_that_its_cache_names(cache: Path, tmp_path: Path) -> None:
    """Even at its first use, when there is no note."""
    spec = REGISTRY["dinov2-vits14"]
    saved_model("dinov2", tmp_path / "model", depth=12)
    folder = hub_snapshot(tmp_path / "hub", "facebook/dinov2-small", tmp_path / "model")
    (weights,) = weight_files(folder)
    blobs = folder.parent.parent / "blobs"
    blobs.mkdir()
    blob = blobs / store.file_sha256(weights)
    shutil.move(weights, blob)
    weights.symlink_to(blob)
    flip(blob)
    with pytest.raises(EncoderError, match=r"delete .*dinov2-small and run `hyperfsad encoders fe"):
        loaded(spec)
    flip(blob)
    loaded(spec)
    assert not (folder / integrity.NOTE).exists()  # the hub's cache is not ours to write


def test_a_local_folder_is_the_user_s_own_to_change(cache: Path, tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path / "model", depth=4)
    spec = store.find_spec(str(tmp_path / "model"))
    loaded(spec)
    flip(tmp_path / "model" / "model.safetensors", bit=1)
    loaded(spec)
    assert not cache.exists()
