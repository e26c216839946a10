"""Who may do what, and what another site's page cannot do."""

import http.client
import json
import shutil
import ssl
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hyperfsad.errors import UsageError
from hyperfsad.serve.api.guard import GUESSES
from hyperfsad.serve.client import StationClient, StationError
from hyperfsad.serve.settings import StationSettings, read_tokens
from tests.codes import raises
from tests.serve.conftest import ADMIN, INSPECT, png, token_file
from tests.serve.stations import Running, Stations


def test_two_roles(guarded: Running) -> None:
    admin, inspector, nobody = guarded.client(ADMIN), guarded.client(INSPECT), guarded.client()
    product = admin.create_product("bolt", [png(0), png(1)])["id"]
    (one,) = inspector.inspect(product, [png(2)])["inspections"]
    assert inspector.label(one["id"], "bad")["label"] == "bad"
    inspector.undo(one["id"])
    for forbidden in (
        lambda: inspector.create_product("nut", [png(0)]),
        lambda: inspector.extend_product(product, [png(3)]),
        lambda: inspector.rename_product(product, "nut"),
        lambda: inspector.delete_product(product),
        lambda: inspector.download_product(product),
        lambda: inspector.label(one["id"], "fine"),
        inspector.audit,
    ):
        assert status_of(forbidden) == 403
    assert inspector.label(one["id"], "fine", learn=False)["learnt"] is False
    inspector.undo(one["id"])
    admin.label(one["id"], "fine", confirm=True)
    assert status_of(lambda: inspector.undo(one["id"])) == 403
    for stranger in (nobody.products, nobody.audit, lambda: nobody.inspect(product, [png(2)])):
        assert status_of(stranger) == 401
    assert nobody.ready()
    assert [entry["role"] for entry in admin.audit()][:3] == ["admin", "inspect", "inspect"]


def test_a_lower_role_is_asked_for(station: Running, client: StationClient, product: str) -> None:
    """The page's operator view, without tokens."""
    operator = {"X-Role": "inspect"}
    (one,) = client.inspect(product, [png(2)])["inspections"]
    place, before = f"/inspections/{one['id']}/label", client.download_product(product)
    assert station.ask("PUT", place, {"kind": "fine"}, operator).status == 403
    for method, path in (("POST", "calibration"), ("POST", "images"), ("GET", "detector")):
        assert station.ask(method, f"/products/{product}/{path}", headers=operator).status == 403
    assert client.download_product(product) == before
    assert client.label(one["id"], "fine", confirm=True)["learnt"] is True
    assert station.ask("DELETE", place, headers=operator).status == 403
    client.undo(one["id"])
    assert station.ask("PUT", place, {"kind": "fine", "learn": False}, operator).status == 200
    assert station.ask("DELETE", place, headers=operator).status == 200


def test_a_browser_signs_in(guarded: Running) -> None:
    status, headers, _ = guarded.ask("POST", "/login", {"token": ADMIN})
    assert status == 200
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert ADMIN not in cookie
    signed = {"Cookie": cookie.split(";")[0]}
    assert guarded.ask("GET", "/session", headers=signed).json()["role"] == "admin"
    change = ("POST", "/logout", None)
    own = {"Origin": guarded.url}
    assert guarded.ask(*change, headers=signed)[0] == 403  # neither origin nor header
    for foreign in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert guarded.ask(*change, headers=signed | foreign)[0] == 403
    assert guarded.ask(*change, headers=signed | {"X-Requested-With": "page"} | own)[0] == 204
    assert guarded.ask("GET", "/session", headers=signed).json()["role"] == ""


def test_without_tokens_other_names_and_sites_are_refused(station: Running) -> None:
    assert station.ask("GET", "/products", headers={"Host": "evil.example"})[0] == 403
    assert station.ask("GET", "/products", headers={"Host": "localhost:1"})[0] == 200
    evil = {"Origin": "https://evil.example"}
    assert station.ask("POST", "/products", headers=evil)[0] == 403
    status, headers, _ = station.ask("GET", "/session")
    assert status == 200
    assert "script-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


def test_guesses_are_limited(stations: Stations, tmp_path: Path) -> None:
    """On a station of its own, since the client has to wait afterwards."""
    with stations.running(tmp_path / "store", *token_file(tmp_path)) as station:
        statuses = []
        for number in range(GUESSES + 2):  # whatever they say of themselves
            told = {"X-Forwarded-For": f"10.0.0.{number}", "Forwarded": f"for=10.0.0.{number}"}
            guess = {"Authorization": f"Bearer {ADMIN[:-1]}{number}", **told}
            statuses.append(station.ask("GET", "/products", headers=guess).status)
        assert statuses == [401] * GUESSES + [429] * 2
        status, headers, _ = station.ask("POST", "/login", {"token": "another guess"})
        assert status == 429
        assert int(headers["retry-after"]) >= 1
        assert station.ask("POST", "/login", {"token": "\ud800" * 20}).status in (400, 422, 429)
        assert ADMIN not in station.log.read_text()


def test_tls(stations: Stations, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl on this machine to make a certificate with")
    cert, key, tokens = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "tokens"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(cert)]
    subprocess.run([openssl, "req", *kind, *name, *files], check=True, capture_output=True)
    tokens.write_text(f"admin: {ADMIN}\n")
    places = ("--tls-cert", str(cert), "--tls-key", str(key), "--token", str(tokens))
    station = stations.start(tmp_path / "store", *places)
    try:
        trusted = ssl.create_default_context(cafile=str(cert))
        station.wait(trusted)
        assert station.url.startswith("https://")
        assert StationClient(station.url, ADMIN, tls=trusted).products() == []
        line = http.client.HTTPSConnection(urlsplit(station.url).netloc, context=trusted)
        body = json.dumps({"token": ADMIN})
        line.request("POST", "/api/v1/login", body, {"Content-Type": "application/json"})
        answer = line.getresponse()
        assert "Secure" in (answer.getheader("set-cookie") or "")
        assert "max-age" in (answer.getheader("strict-transport-security") or "")
        line.close()
    finally:
        station.stop()


def test_other_addresses_need_tokens(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "192.168.1.4", "::", "station.example"):
        with raises(UsageError, "token-required"):
            StationSettings(tmp_path, host=host).check()
    assert StationSettings(tmp_path, host="::1").check() == {}
    with raises(UsageError, "tls-incomplete"):
        StationSettings(tmp_path, tls_cert=tmp_path).check()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("inspect: 0123456789abcdefgh", "token-admin-missing"),
        ("admin: short", "token-too-short"),
        ("admin: 0123456789abcdefgh\ninspect: 0123456789abcdefgh", "token-repeated"),
        ("root: 0123456789abcdefgh", "token-file-rows"),
    ],
)
def test_token_files(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(0o600)
    with raises(UsageError, told):
        read_tokens(path)


def status_of(act: object) -> int:
    """The status with which the station refuses."""
    assert callable(act)
    with pytest.raises(StationError) as error:
        act()
    return error.value.status
