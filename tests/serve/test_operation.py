"""A station in service: asked to stop, copied while it works, on a disk that fills; and its log."""

import contextlib
import shutil
import signal
import sqlite3
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from hyperfsad.cli import main
from hyperfsad.cli.console import DONE
from hyperfsad.serve.client import StationError
from tests.serve.conftest import ADMIN, INSPECT, png, token_file
from tests.serve.killing import assert_sound, assert_tidy
from tests.serve.stations import Stations, at_once, refused, until
from tests.serve.test_security import status_of

MEGABYTE = 1 << 20


def test_sigterm_finishes_what_was_accepted(stations: Stations, tmp_path: Path) -> None:
    station = stations.start(tmp_path / "store").wait()
    client = station.client()
    product = client.create_product("bolt", [png(0), png(1)])["id"]
    answered: list[str] = []

    def send(number: int) -> None:
        """Until it is refused, which only happens at the stop."""
        for start in range(1000 * number, 1000 * (number + 1), 8):
            try:
                found = client.inspect(product, [png(start + place) for place in range(8)])
            except StationError:
                return
            answered.extend(one["id"] for one in found["inspections"])

    def stop() -> None:
        until(lambda: len(answered) >= 8, "an answer")
        station.stop(signal.SIGTERM)

    at_once(*(partial(send, number) for number in (1, 2, 3)), stop)
    with refused(0, "station-silent"):
        client.products()
    with stations.running(tmp_path / "store") as again:
        known = {row["id"] for row in again.client().history(limit=500)}
    assert known == set(answered)
    assert_tidy(tmp_path / "store")


def test_a_copy_under_load_is_one_moment_of_the_store(stations: Stations, tmp_path: Path) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    with stations.running(store) as station:
        client = station.client()
        product = client.create_product("bolt", [png(0), png(1)])["id"]
        ending = threading.Event()

        def work(start: int) -> None:
            for number in range(start, start + 1000):
                if ending.is_set():
                    return
                (one,) = client.inspect(product, [png(number)])["inspections"]
                if number % 3 == 0:
                    client.label(one["id"], "fine", confirm=True)
                    made = client.create_product(f"p{number}", [png(number)])["id"]
                    client.delete_product(made)

        target = tmp_path / "copy.zip"

        def copied() -> None:
            try:
                until(lambda: len(client.page()["inspections"]) >= 4)
                assert main(["serve", "--store", str(store), "--backup", str(target)]) == DONE
            finally:
                ending.set()

        at_once(partial(work, 1000), partial(work, 2000), copied)
        with zipfile.ZipFile(target) as archive:
            archive.extractall(copy)
        assert_sound(copy)
        # what is never changed later is in both, the same
        for table in ("inspections", "details", "audit"):
            then, now = rows(copy, table), rows(store, table)
            assert then
            assert then <= now, table
        # and of that moment, nothing is missing: entries are numbered without gaps
        entries = {row[0] for row in rows(copy, "audit")}
        assert entries == set(range(1, len(entries) + 1))
    with stations.running(copy) as station:
        client = station.client()
        (found,) = client.inspect(product, [png(5000)])["inspections"]
        assert found["name"] == "5000.png"
        assert client.product(product)["good_parts"] >= 2


def rows(store: Path, table: str) -> set[tuple[object, ...]]:
    """All rows; of an inspection without what a person says of it, which may come later."""
    with closing(sqlite3.connect(store / "station.sqlite")) as database:
        found = database.execute(f"SELECT * FROM {table}")
        later = {"label", "defect", "defect_score"} if table == "inspections" else set[str]()
        kept = [place for place, one in enumerate(found.description) if one[0] not in later]
        return {tuple(row[place] for place in kept) for row in found}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={24 * MEGABYTE}", "none", str(place)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("reserve", ["6", "0"])
def test_a_disk_that_fills_loses_nothing(
    stations: Stations, small_disk: Path, tmp_path: Path, reserve: str
) -> None:
    """With a reserve it is told in time; without one, at the disk's very end."""
    store = small_disk / "store"
    ballast = small_disk / "ballast"
    with stations.running(store, "--reserve-megabytes", reserve) as station:
        client = station.client()
        product = client.create_product("bolt", [png(0), png(1)])["id"]
        left = int(reserve) * 10**6 + 4 * MEGABYTE
        ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - left))
        kept: dict[str, bytes] = {}
        number = 0
        while True:
            number += 1
            assert number < 500
            name, content = png(number, (300, 300))
            try:
                (one,) = client.inspect(product, [(name, content)])["inspections"]
            except StationError as full:
                refused = full.status
                break
            kept[one["id"]] = content
        assert kept
        assert refused == 507
        if reserve != "0":
            assert shutil.disk_usage(small_disk).free > 4 * MEGABYTE
        large = [png(2, (300, 300))]
        for act in (
            lambda: client.create_product("nut", large),
            lambda: client.extend_product(product, large, confirm=True),
        ):
            assert status_of(act) == 507
        assert {row["id"] for row in client.history()} == set(kept)
        for inspection, content in kept.items():
            assert client.picture(inspection, "original") == content
        assert client.product(product)["good_parts"] == 2
        ballast.unlink()
        (one,) = client.inspect(product, [png(2)])["inspections"]  # it goes on by itself
        assert client.extend_product(product, [png(3)], confirm=True)["good_parts"] == 3
    with stations.running(store, "--reserve-megabytes", "0") as station:
        assert one["id"] in {row["id"] for row in station.client().history()}
    assert_sound(store)
    assert_tidy(store)


def test_a_full_disk_lets_people_sign_in(
    stations: Stations, small_disk: Path, tmp_path: Path
) -> None:
    options = (*token_file(tmp_path), "--reserve-megabytes", "0")
    with stations.running(small_disk / "store", *options) as station:
        with contextlib.suppress(OSError), (small_disk / "ballast").open("wb", 0) as ballast:
            while True:
                ballast.write(bytes(4096))
        answers = [station.ask("POST", "/login", {"token": ADMIN}).status for _ in range(5)]
        assert answers == [200] * 5
        assert "no space to note" in station.log.read_text()


@pytest.mark.parametrize("gone", ["station.sqlite*", "station.sqlite", "station.sqlite-wal"])
def test_without_its_database_nothing_is_acknowledged(
    stations: Stations, tmp_path: Path, gone: str
) -> None:
    store = tmp_path / "store"
    with stations.running(store) as station:
        client = station.client()
        product = client.create_product("bolt", [png(0)])["id"]
        assert client.ready()
        for path in store.glob(gone):
            path.unlink()
        with refused(503):
            client.inspect(product, [png(1)])
        assert station.ask("GET", "/ready").json()["database"] is False


def test_every_change_is_in_the_audit_log(stations: Stations, tmp_path: Path) -> None:
    with stations.running(tmp_path / "store", *token_file(tmp_path)) as station:
        admin, worker = station.client(ADMIN), station.client(INSPECT)
        expected: list[tuple[str, str]] = []

        def changed(role: str, action: str) -> None:
            expected.append((role, action))
            found = [(one["role"], one["action"]) for one in admin.audit()]
            assert found == expected[::-1]

        product = admin.create_product("bolt", [png(0), png(1)])["id"]
        changed("admin", "product created")
        content = admin.download_product(product)
        brought = admin.upload_product("brought", ("x.hfsad", content))["id"]
        changed("admin", "product uploaded")
        admin.extend_product(product, [png(2)], confirm=True)
        changed("admin", "product extended")
        admin.calibrate_product(product, threshold=0.4)
        changed("admin", "product recalibrated")
        admin.rename_product(product, "nut")
        changed("admin", "product renamed")
        (one,) = worker.inspect(product, [png(3)])["inspections"]
        worker.label(one["id"], "bad", defect="scratch")
        changed("inspect", "labelled bad")
        worker.undo(one["id"])
        changed("inspect", "label undone")
        admin.label(one["id"], "fine", confirm=True)
        changed("admin", "labelled fine")
        admin.delete_product(brought)
        changed("admin", "product deleted")
        assert station.ask("POST", "/login", {"token": INSPECT}).status == 200
        changed("inspect", "signed in")
        for act in (
            lambda: worker.rename_product(product, "screw"),
            lambda: admin.rename_product("0" * 32, "screw"),
            lambda: admin.extend_product(product, [png(2)], confirm=True),
            lambda: admin.create_product("nut", [png(4)]),
        ):
            assert status_of(act) in (403, 404, 409)  # what is refused is no change
        entries = admin.audit()
        assert len(entries) == len(expected)
        assert {entry["client"] for entry in entries} == {"127.0.0.1"}
        assert len({entry["request"] for entry in entries}) == len(entries)
        assert all(station.logged(entry["request"]) for entry in entries)
