"""Cameras of the station: set by an engineer, judged by themselves, and told in figures."""

import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hyperfsad.serve.client import StationClient, StationError
from hyperfsad.serve.records import InspectionRowRecord, SourceRecord
from hyperfsad.serve.settings import StationSettings
from tests.conftest import make_picture
from tests.connect.machines import Plc, free_port
from tests.connect.videos import RtspServer, make_video
from tests.serve.conftest import ADMIN, INSPECT, png
from tests.serve.stations import Running, Stations, refused, until
from tests.serve.test_line import InProcess

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="stations are forked")


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds of parts that all differ, of the size of the good parts."""
    frames = [np.asarray(make_picture(seed)) for seed in range(20)]
    return make_video(tmp_path_factory.mktemp("videos") / "line.mkv", frames)


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minute, at 10 frames a second."""
    frames = (np.asarray(make_picture(seed % 20)) for seed in range(600))
    return make_video(tmp_path_factory.mktemp("videos") / "endless.mkv", frames)


@pytest.fixture
def rtsp() -> Iterator[RtspServer]:
    found = RtspServer()
    found.start()
    yield found
    found.stop()


def rows(client: StationClient, product: str) -> list[InspectionRowRecord]:
    return list(client.history(product=product))


def when(
    client: StationClient, product: str, held: Callable[[SourceRecord], object]
) -> SourceRecord:
    """The camera of a product, as soon as something holds of it."""

    def found() -> SourceRecord | None:
        now = client.source(product)
        assert now is not None
        return now if held(now) else None

    return until(found)


def test_the_shots_of_a_video_are_in_the_history_once(
    client: StationClient, product: str, video: Path
) -> None:
    assert client.source(product) is None
    set_up = client.set_source(product, str(video), trigger="every:500ms", deadline="60s")
    assert (set_up["address"], set_up["product_id"]) == ("line.mkv", product)
    state = when(client, product, lambda now: now["state"] == "ended")
    state = when(client, product, lambda now: now["judged"] == 4)
    assert (state["frames"], state["shots"], state["queue"]) == (20, 4, 0)
    assert (state["late"], state["failed"], state["dropped"], state["losses"]) == (0, 0, 0, 0)
    assert 0 < (state["p50_ms"] or 0) <= (state["p95_ms"] or 0) <= (state["p99_ms"] or 0)
    page = rows(client, product)
    assert len(page) == len({one["image"] for one in page}) == 4
    found = client.inspection(page[0]["id"])
    assert (found["late"], found["size"]) == (False, [96, 80])
    client.remove_source(product)
    assert client.source(product) is None


def test_a_shot_on_request_has_the_id_that_was_promised(
    client: StationClient, product: str, endless: Path
) -> None:
    client.set_source(product, str(endless), trigger="software")
    when(client, product, lambda now: now["state"] == "running")
    ids = [client.shoot(product) for _ in range(3)]
    for one in ids:
        until(partial(_is_there, client, one))
    assert len(rows(client, product)) == 3
    client.set_source(product, str(endless), trigger="every:10s")
    with refused(409, "trigger-not-software"):
        client.shoot(product)
    client.remove_source(product)
    with refused(404, "camera-not-set"):
        client.shoot(product)


def _is_there(client: StationClient, inspection: str) -> bool:
    with suppress(StationError):
        return bool(client.inspection(inspection)["id"])
    return False


def test_the_trigger_of_a_plc_takes_a_picture(
    stations: Stations, tmp_path: Path, endless: Path
) -> None:
    port = free_port()
    file = tmp_path / "line.toml"
    file.write_text(f"[modbus]\nport = {port}\n")
    client = stations.start(tmp_path / "store", "--connect", str(file)).wait().client()
    plc, product = Plc(port), client.create_product("bolt", [png(0), png(1)])["id"]
    until(plc.connect, "the PLC's connection")
    client.set_source(product, str(endless), trigger="software")
    when(client, product, lambda now: now["state"] == "running")
    for trigger in (1, 2):
        until(lambda: plc.read()[2], "the bit ready")
        assert plc.write(100, 0)
        assert plc.write(100, 1)
        until(lambda: plc.read()[4], "the bit result valid")
        shown, row = plc.read(), rows(client, product)[0]
        assert (shown[5], shown[9]) == (1 if row["verdict"] == "good" else 2, trigger)
        assert len(rows(client, product)) == trigger
        plc.write_number(101, shown[7] << 16 | shown[8])
    other = client.create_product("nut", [png(2), png(3)])["id"]
    client.set_source(other, str(endless), trigger="software")
    when(client, other, lambda now: now["state"] == "running")
    until(lambda: plc.read()[2], "the bit ready")
    assert plc.write(100, 0)
    assert plc.write(100, 1)
    until(lambda: plc.read()[4], "the bit result valid")
    assert tuple(plc.read()[5:7]) == (0, 2), "two cameras: nobody knows which would answer"
    plc.close()


def test_what_is_late_counts_as_no_verdict(
    client: StationClient, product: str, endless: Path
) -> None:
    client.set_source(product, str(endless), trigger="every:200ms", deadline="1ms")
    state = when(client, product, lambda now: now["late"] >= 3)
    client.remove_source(product)
    assert state["judged"] == 0
    assert {row["verdict"] for row in rows(client, product)} <= {"unjudged"}


def test_a_verdict_that_was_made_too_late_is_kept_as_none(
    tiny: str, tmp_path: Path, endless: Path
) -> None:
    running = InProcess(StationSettings(tmp_path / "store"), tiny)
    client, engine = running.client, running.station.engine
    product = client.create_product("bolt", [png(0)])["id"]
    client.set_source(product, str(endless), trigger="software", deadline="2s")
    when(client, product, lambda now: now["state"] == "running")
    with running.held_up():
        inspection = client.shoot(product)
        until(lambda: engine.waiting, "the shot")
        end = time.monotonic() + 2
        until(lambda: time.monotonic() > end)
    state = when(client, product, lambda now: now["late"] == 1)
    until(partial(_is_there, client, inspection))
    found = client.inspection(inspection)
    assert (found["late"], found["anomalous"], found["level"]) == (True, None, None)
    assert found["verdict"] == "unjudged"
    assert found["score"] > 0
    assert (state["judged"], state["shots"]) == (0, 1)
    running.stop()


def test_figures_and_pictures(
    station: Running, client: StationClient, product: str, endless: Path
) -> None:
    client.set_source(product, str(endless), trigger="every:100ms")
    when(client, product, lambda now: now["judged"] >= 1)
    text = station.ask("GET", "/metrics", prefix="").content.decode()
    own = [row for row in text.splitlines() if product in row]
    assert f'hyperfsad_camera_running{{product="{product}"}} 1.0' in own
    for name in ("queue", "oldest_seconds", "losses_total"):
        assert any(row.startswith(f"hyperfsad_camera_{name}{{") for row in own), name
    for outcome in ("judged", "late", "failed", "dropped"):
        assert any(f'outcome="{outcome}"' in row for row in own)
    assert {f'quantile="{share}"' for share in ("0.5", "0.95", "0.99")} == {
        part for row in own for part in row.replace("}", ",").split(",") if "quantile" in part
    }
    answer = station.ask("GET", f"/products/{product}/source/picture")
    assert (answer.status, answer.content[:2]) == (200, b"\xff\xd8")
    missing = station.ask("GET", f"/products/{product}/source/picture?finding=camera-dark")
    assert missing.status == 404
    client.remove_source(product)


def test_a_dark_camera_is_told_with_a_picture(
    station: Running, client: StationClient, product: str, tmp_path: Path
) -> None:
    frames = [np.asarray(make_picture(seed)) // 8 for seed in range(50)]
    dark = make_video(tmp_path / "dark.mkv", frames)
    client.set_source(product, str(dark), trigger="every:100ms")
    state = when(client, product, lambda now: now["findings"])
    assert [one["code"] for one in state["findings"]] == ["camera-dark"]
    answer = station.ask("GET", f"/products/{product}/source/picture?finding=camera-dark")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/jpeg")
    client.remove_source(product)


def test_what_is_no_camera_is_refused_and_nothing_changes(
    client: StationClient, product: str, endless: Path
) -> None:
    client.set_source(product, str(endless))
    wrong: tuple[tuple[str, dict[str, str], str], ...] = (
        ("http://cam/1.mjpg", {}, "source-unknown"),
        ("/etc/passwd", {}, "source-unknown"),
        (str(endless), {"trigger": "sometimes"}, "trigger-unknown"),
        (str(endless), {"deadline": "soon"}, "duration-invalid"),
        ("none.mp4", {}, "source-no-file"),
        ("@/etc/passwd", {}, "request-invalid"),
    )
    for address, more, code in wrong:
        with refused(422, code):
            client.set_source(product, address, **more)
    state = client.source(product)
    assert state is not None
    assert state["address"] == "endless.mkv"
    client.remove_source(product)


def test_only_an_engineer_sets_a_camera_and_a_machine_asks_for_shots(
    guarded: Running, endless: Path
) -> None:
    admin, machine = guarded.client(ADMIN), guarded.client(INSPECT)
    product = admin.create_product("roles", [png(0)])["id"]
    with refused(403, "admin-required"):
        machine.set_source(product, str(endless))
    admin.set_source(product, str(endless), trigger="software")
    with refused(403, "admin-required"):
        machine.remove_source(product)
    when(machine, product, lambda now: now["state"] == "running")
    assert len(machine.shoot(product)) == 32
    admin.remove_source(product)
    actions = [one["action"] for one in admin.audit()]
    assert {"camera set", "camera removed"} <= set(actions)


def test_a_camera_starts_again_with_the_station_and_keeps_its_password(
    stations: Stations, tmp_path: Path, rtsp: RtspServer
) -> None:
    store = tmp_path / "store"
    address = rtsp.address.replace("//", "//me:secret-word@")
    with stations.running(store) as first:
        client = first.client()
        product = client.create_product("bolt", [png(0)])["id"]
        client.set_source(product, address, trigger="every:200ms")
        when(client, product, lambda now: now["judged"] >= 2)
        # as the page sends it back
        client.set_source(product, rtsp.address, trigger="every:100ms")
    (kept,) = (store / "cameras").glob("sources-*.json")
    assert "secret-word" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with stations.running(store) as second:
        client = second.client()
        state = when(client, product, lambda now: now["judged"] >= 1)
        assert (state["trigger"], state["address"]) == ("every:100ms", rtsp.address)
        rtsp.stop()
        state = when(client, product, lambda now: now["state"] == "away")
        assert state["problem"]
        assert "secret-word" not in str(state)
        rtsp.start()
        when(client, product, lambda now: now["state"] == "running")
        judged = state["judged"]
        when(client, product, lambda now: now["judged"] > judged)
        found = [row["name"] for row in rows(client, product)]
        assert len(found) == len(set(found))
    assert "secret-word" not in "".join(path.read_text() for path in (first.log, second.log))


def test_a_product_that_is_deleted_takes_its_camera_along(
    client: StationClient, product: str, endless: Path
) -> None:
    client.set_source(product, str(endless), trigger="every:100ms")
    client.delete_product(product)
    with refused(404):
        client.source(product)
