"""What was tried against the station (docs/measurements/security.md), as far as it can be tried
every time."""

import contextlib
import io
import json
import re
import shutil
import socket
import struct
import zlib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PIL import Image

from hyperfsad.serve.client import StationClient
from tests.serve.conftest import ADMIN, INSPECT, png, token_file
from tests.serve.stations import Answer, Running, Stations, until

NOBODY = "0" * 32
MANY = 10**9


def raw(station: Running, request: bytes, seconds: float = 60.0) -> bytes:
    """What comes back for bytes that no client would send, until the line is closed."""
    address = urlsplit(station.url)
    found = b""
    with socket.create_connection((address.hostname or "", address.port or 0)) as line:
        line.settimeout(seconds)
        with contextlib.suppress(OSError):  # refused before all was sent, or no word at all
            line.sendall(request)
        with contextlib.suppress(OSError):
            while piece := line.recv(65536):
                found += piece
    return found


def test_no_operation_without_a_role(guarded: Running) -> None:
    admin = {"Authorization": f"Bearer {ADMIN}"}
    worker = {"Authorization": f"Bearer {INSPECT}"}
    document = guarded.ask("GET", "/openapi.json", headers=admin).json()
    public = {"login", "logout", "session", "health", "ready"}
    admins = 0
    for path, methods in document["paths"].items():
        if path.rsplit("/", 1)[-1] in public or not path.startswith("/api/v1/"):
            continue
        there = re.sub(r"\{\w+\}", NOBODY, path.removeprefix("/api/v1"))
        for method in methods:
            assert guarded.ask(method.upper(), there)[0] == 401, (method, path)
            for tried in (f"{there}/", there.upper(), f"/{there}", there.replace("/", "/./")):
                assert guarded.ask(method.upper(), tried)[0] in (401, 404, 405), tried
            if not there.endswith("/live"):  # whoever may read it gets no end of it
                admins += guarded.ask(method.upper(), there, headers=worker)[0] == 403
    assert admins >= 8
    assert guarded.ask("GET", "/../../metrics")[0] == 401
    for header in ("X-HTTP-Method-Override", "X-Original-URL", "X-Rewrite-URL", "X-Forwarded-For"):
        assert guarded.ask("GET", "/products", headers={header: "/api/v1/health"})[0] == 401
    for bearer in ("Basic YWRtaW46YWRtaW4=", "Bearer", "Bearer  ", f"Token {ADMIN}", ""):
        headers = {"Authorization": bearer}
        assert guarded.ask("GET", "/products", headers=headers)[0] in (401, 429), bearer


def test_names_and_hosts_come_back_as_data_only(station: Running, client: StationClient) -> None:
    name = "<script>alert(1)</script>'\"; DROP TABLE products; --"
    made = client.create_product(name, [png(0), png(1)])["id"]
    assert client.product(made)["name"] == name
    image = ('"><img src=x onerror=alert(1)>.png', png(2)[1])
    (one,) = client.inspect(made, [image])["inspections"]
    status, headers, _ = station.ask("GET", f"/inspections/{one['id']}")
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in headers["content-security-policy"]
    client.rename_product(made, "../../../x\r\nSet-Cookie: a=b")
    _, headers, _ = station.ask("GET", f"/products/{made}/detector")
    assert "set-cookie" not in headers
    told = headers["content-disposition"]
    assert "/" not in told.replace("utf-8''", "")
    assert "%2F" not in told
    for path in ("/products/", "/inspections/"):
        status, headers, _ = station.ask("GET", path, headers={"Host": "localhost"})
        assert status == 404
        assert "location" not in headers


def test_other_sites_get_no_permission(station: Running) -> None:
    evil = {"Origin": "https://evil.example", "Access-Control-Request-Method": "DELETE"}
    for method in ("OPTIONS", "GET"):
        _, headers, _ = station.ask(method, "/products", headers=evil)
        assert not [name for name in headers if name.startswith("access-control")]
    for origin in ("null", "https://evil.example", "http://localhost.evil.example", "http://["):
        told = station.ask("POST", "/logout", headers={"Origin": origin})
        assert told[0] == 403, origin


@pytest.mark.parametrize(
    "query",
    [
        "product=' OR 1=1 --",
        "verdict=good' OR '1'='1",
        "label=fine;DROP TABLE inspections",
        "min_level=1e309",
        "min_level=nan",
        "since=9999999999999999",
        "cursor=1' OR 1=1; --",
        "cursor=1%00",
        f"cursor={1 << 70}",
        "cursor=%C2%B2",
        "limit=1 UNION SELECT 1",
    ],
)
def test_filters_take_no_sql(station: Running, query: str) -> None:
    path = f"/inspections?{query}".replace(" ", "%20").replace("'", "%27")
    status, _, content = station.ask("GET", path)
    assert status == 422
    assert set(json.loads(content)) == {"detail", "code", "facts"}
    assert "sql" not in content.decode().lower()


def chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


def bombs() -> dict[str, bytes]:
    """Small files that would be large."""
    signature, end = b"\x89PNG\r\n\x1a\n", chunk(b"IEND", b"")
    packed = zlib.compress(bytes(50_000_000), 9)
    wide = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    small = struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(bytes(65 * 64)))
    text = b"comment\0\0" + packed
    ppm = b"P6 60000 60000 255\n" + bytes(1000)
    grey = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(grey, "TIFF", compression="group4")
    return {
        "pixels.png": signature + chunk(b"IHDR", wide) + chunk(b"IDAT", packed) + end,
        "text.png": signature + chunk(b"IHDR", small) + chunk(b"zTXt", text) + pixels + end,
        "profile.png": signature
        + chunk(b"IHDR", small)
        + chunk(b"iCCP", b"p\0\0" + packed)
        + pixels
        + end,
        "claims.ppm": ppm,
        "fax.tif": grey.getvalue(),
    }


def test_bombs_do_not_burst(stations: Stations, tmp_path: Path) -> None:
    with stations.running(tmp_path / "store") as station:
        client = station.client()
        product = client.create_product("bolt", [png(0), png(1)])["id"]
        before = memory(station)
        for name, content in bombs().items():
            assert len(content) < 200_000
            found = ask_form(station, f"/products/{product}/inspections", name, content)
            assert found in (201, 422), name
        header = json.dumps({"x": {"dtype": "F32", "shape": [MANY, MANY], "data_offsets": [0, 4]}})
        nested = "[" * 100_000
        for content in (
            struct.pack("<Q", 1 << 62) + b"{}",
            struct.pack("<Q", len(header)) + header.encode() + bytes(4),
            struct.pack("<Q", len(nested)) + nested.encode(),
            b"PK\x03\x04" + bytes(1000),
        ):
            assert ask_form(station, "/products/upload", "x.hfsad", content, "detector") == 422
        assert memory(station) - before < 200  # a picture of the limit itself would take 300
        assert client.ready()
        assert list((tmp_path / "store" / "incoming").iterdir()) == []


def memory(station: Running) -> float:
    """Megabytes that it has used at most; nothing where the system does not tell."""
    path = Path(f"/proc/{station.pid}/status")
    found = re.search(r"VmHWM:\s+(\d+)", path.read_text()) if path.is_file() else None
    return int(found[1]) / 1000 if found else 0.0


def ask_form(station: Running, path: str, name: str, content: bytes, field: str = "images") -> int:
    """The status of the answer to a form with one file."""
    head = f'--x\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'
    text = '--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nbomb\r\n'
    start = text + head if field == "detector" else head
    body = start.encode() + content + b"\r\n--x--\r\n"
    request = (
        f"POST /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return int(raw(station, request.encode() + body).split()[1])


def test_sizes_that_are_claimed_or_hidden(station: Running, product: str) -> None:
    path = f"/api/v1/products/{product}/inspections"
    kind = "Content-Type: multipart/form-data; boundary=x\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}"
    part = '--x\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
    claimed = raw(station, f"{head}Content-Length: {10**15}\r\n\r\n{part}".encode())
    assert claimed.startswith(b"HTTP/1.1 413")
    two = raw(station, f"{head}Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef".encode())
    assert two.startswith(b"HTTP/1.1 400")
    hidden = "GET /api/v1/audit HTTP/1.1\r\nHost: localhost\r\n\r\n"
    chunks = f"{len(part):x}\r\n{part}\r\n0\r\n\r\n{hidden}"
    both = f"{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert raw(station, (both + chunks).encode()).count(b"HTTP/1.1 ") == 1  # nothing is smuggled
    long = f"GET / HTTP/1.1\r\nHost: localhost\r\nX: {'a' * 2_000_000}\r\n\r\n"
    assert raw(station, long.encode())[:12] in (b"HTTP/1.1 400", b"")  # it may have hung up
    for odd in (b"\x16\x03\x01\x02", b"GET\0/ HTTP/1.1\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n"):
        assert b" 500 " not in raw(station, odd, 1.0)[:20]
    assert station.client().ready()


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "text/plain", "x"])
def test_bodies_are_bounded_whatever_their_type(guarded: Running, kind: str) -> None:
    """All routes, also those that strangers reach: nothing beyond the limit is read."""
    before = memory(guarded)
    head = f"Host: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n"
    admin = f"Authorization: Bearer {ADMIN}\r\n"
    piece = b"a" * 1_000_000
    chunks = b"%x\r\n%b\r\n" % (len(piece), piece)
    for path in ("POST /api/v1/login", f"PATCH /api/v1/products/{NOBODY}"):
        asked = f"{path} HTTP/1.1\r\n{head}{admin}"
        claimed = raw(guarded, f"{asked}Content-Length: {MANY}\r\n\r\n".encode() + piece)
        assert claimed.startswith(b"HTTP/1.1 413"), path
        hidden = f"{asked}Transfer-Encoding: chunked\r\n\r\n".encode() + 60 * chunks
        assert raw(guarded, hidden)[:12] in (b"HTTP/1.1 413", b""), path  # it may have hung up
    assert memory(guarded) - before < 50


def test_a_boundary_that_is_too_long(station: Running, product: str) -> None:
    form = {"Content-Type": f"multipart/form-data; boundary={'x' * 300}"}
    told = station.ask("POST", f"/products/{product}/inspections", b"--", form)
    assert (told.status, told.json()["code"]) == (422, "form-damaged")


def test_strangers_are_not_told_what_is_wrong(
    stations: Stations, tiny: str, tmp_path: Path
) -> None:
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny, encoder)
    (encoder / "model.safetensors").unlink()
    options = ("--backbone", str(encoder), *token_file(tmp_path))
    broken = stations.start(tmp_path / "store", *options)
    try:
        broken.listening()
        until(lambda: "could not be loaded" in broken.log.read_text())
        told = {}
        for token in ("", INSPECT, ADMIN):
            who = {"Authorization": f"Bearer {token}"} if token else {}
            answer = until(lambda: _not_loading(broken.ask("GET", "/ready", headers=who)))  # noqa: B023
            assert answer.status == 503
            told[token] = answer.json()["problem"]
        assert str(tmp_path) in told[ADMIN]
        assert str(tmp_path) not in told[""] + told[INSPECT]
    finally:
        broken.stop()


def _not_loading(answer: Answer) -> Answer | None:
    return None if "being loaded" in answer.json()["problem"] else answer


def test_methods_do_not_fill_the_memory(station: Running) -> None:
    for number in range(5):
        station.ask(f"BREW{number}", "/products")
    status, _, content = station.ask("GET", "/../../metrics")
    assert status in (200, 404)
    line = raw(station, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert b"BREW" not in line + content
    assert b'method="other"' in line
