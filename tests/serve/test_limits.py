"""What the station does not take, and what it says then."""

from functools import partial
from pathlib import Path

import pytest

from hyperfsad.serve.client import StationClient, StationError
from tests.images.damage import hard_files
from tests.serve.conftest import png
from tests.serve.stations import Running, Stations, at_once, refused, until


def test_damaged_pictures_are_named_and_the_others_judged(
    client: StationClient, product: str, tmp_path: Path
) -> None:
    hard = hard_files(tmp_path / "hard")
    found = client.inspect(product, [*hard, png(3)])
    assert [one["name"] for one in found["inspections"]][-1] == "3.png"
    named = {one["name"] for one in (*found["inspections"], *found["rejected"])}
    assert named == {*(path.name for path in hard), "3.png"}
    assert {"half.webp", "header.ppm", "cut.png"} <= {one["name"] for one in found["rejected"]}
    assert all(str(tmp_path) not in one["error"] for one in found["rejected"])
    for nothing in (b"", b"GIF89a", b"<svg/>", b"%PDF-1.4", b"\0" * 100):
        with refused(422):
            client.inspect(product, [("x.png", nothing)])
        with refused(422):
            client.create_product("never", [png(0), ("x.png", nothing)])
    assert "never" not in [one["name"] for one in client.products()]


def test_names_are_only_shown(client: StationClient, product: str, station: Running) -> None:
    names = {
        "../../../etc/passwd": "passwd",
        "C:\\Windows\\x.png": "x.png",
        "a\tb.png": "a\\tb.png",
        "": "image",
        "é" * 300 + ".png": "é" * 120,
    }
    for number, (sent, shown) in enumerate(names.items()):
        (one,) = client.inspect(product, [(sent, png(100 + number)[1])])["inspections"]
        assert one["name"] == shown


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/products/..%2f..%2fetc%2fpasswd", 404),
        ("GET", "/api/v1/products/xyz", 422),
        ("GET", f"/api/v1/products/{'0' * 32}", 404),
        ("GET", f"/api/v1/inspections/{'0' * 32}/original", 404),
        ("PUT", f"/api/v1/inspections/{'0' * 32}/label", 422),
        ("GET", "/api/v1/inspections?limit=100000", 422),
        ("GET", "/api/v1/inspections?cursor=AAAA", 422),
        ("GET", "/api/v1/inspections?since=0001-01-01T00:00:00", 200),
        ("GET", "/api/v1/nothing", 404),
        ("DELETE", "/api/v1/products", 405),
        ("POST", "/api/v1/products", 415),
        ("GET", "/docs", 404),
    ],
)
def test_errors_are_one_sentence(station: Running, method: str, path: str, status: int) -> None:
    found = station.ask(method, path, prefix="")
    assert found.status == status
    if status >= 400:
        assert set(found.json()) == {"detail", "code", "facts"}
        assert b"Traceback" not in found.content


def test_broken_forms(station: Running, product: str) -> None:
    path = f"/products/{product}/inspections"
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    head = b'--x\r\nContent-Disposition: form-data; name="images"; filename="a.png"\r\n\r\n'
    for body, status in (
        (b"", 422),
        (b"nonsense", 422),
        (head + b"abc", 422),  # cut short
        (head.replace(b"images", b"others") + b"abc\r\n--x--\r\n", 422),
        (b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n', 422),
        (b"--x\r\nContent-Disposition: " + b"a" * 9000 + b"\r\n\r\n1\r\n--x--\r\n", 422),
    ):
        assert station.ask("POST", path, body, form).status == status, body[:60]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 422),
        (b"\xff\xfe", 422),
        (b'{"name": "\\ud800"}', 422),
        (b'{"name": "a\\u0000b"}', 422),
        (b'{"name": 7}', 422),
        (b'{"name": "' + b"x" * 2_000_000 + b'"}', 413),
        (b"[" * 20_000, 422),
    ],
)
def test_broken_json(station: Running, product: str, body: bytes, status: int) -> None:
    found = station.ask("PATCH", f"/products/{product}", body)
    assert found.status in (status, 400)  # which of both depends on the version of FastAPI
    assert set(found.json()) == {"detail", "code", "facts"}


def test_limits_of_uploads(stations: Stations, tmp_path: Path) -> None:
    limits = ("--max-images", "3", "--max-megabytes", "1", "--max-megapixels", "1")
    with stations.running(tmp_path / "store", *limits) as station:
        client = station.client()
        product = client.create_product("bolt", [png(0), png(1)])["id"]
        too_large = [
            [png(seed) for seed in range(4)],
            [("large.png", b"\x89PNG" + b"\0" * 1_100_000)],
        ]
        for images in too_large:
            with refused(413):
                client.inspect(product, images)
        with refused(422, "image-pixels"):  # 3 kB that would be 2 million pixels
            client.inspect(product, [png(0, (2000, 1000))])
        assert list(client.history()) == []
        assert list((tmp_path / "store" / "incoming").iterdir()) == []


def test_a_full_disk_is_told_before_anything_is_lost(stations: Stations, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with stations.running(store) as station:
        product = station.client().create_product("bolt", [png(0), png(1)])["id"]
        (kept,) = station.client().inspect(product, [png(2)])["inspections"]
    full = stations.start(store, "--reserve-megabytes", "1000000000")
    try:
        full.listening()
        client = full.client()
        with refused(507, "disk-nearly-full"):
            client.inspect(product, [png(3)])
        with refused(507, "disk-nearly-full"):
            client.create_product("nut", [png(3)])
        assert not client.ready()
        assert client.inspection(kept["id"]) == kept
        assert client.picture(kept["id"], "original") == png(2)[1]
    finally:
        full.stop()


def test_a_full_line_loses_nobody(stations: Stations, tmp_path: Path) -> None:
    with stations.running(tmp_path / "store", "--max-queue", "6") as station:
        product = station.client().create_product("bolt", [png(0), png(1)])["id"]
        busy: list[StationError] = []
        kept: list[str] = []

        def send(number: int) -> bool:
            images = [png(1000 + 10 * number + place) for place in range(6)]
            try:
                found = station.client().inspect(product, images)["inspections"]
            except StationError as error:
                busy.append(error)
                return False
            kept.extend(one["id"] for one in found)
            return True

        at_once(*(partial(until, partial(send, number)) for number in range(6)))
        assert {error.status for error in busy} <= {503}
        assert all((error.retry_after or 0) >= 1 for error in busy)
        assert sorted(row["id"] for row in station.client().history()) == sorted(kept)
        assert len(set(kept)) == 36
        with refused(413):
            station.client().inspect(product, [png(seed) for seed in range(7)])
