"""The store by itself: what is kept, for how long, and its copy."""

import os
import socket
import sqlite3
import subprocess
import sys
import time
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, select

from hyperfsad.cli import main
from hyperfsad.cli.console import DONE, NOTHING
from hyperfsad.cli.parser import USAGE
from hyperfsad.errors import HyperfsadError, UsageError
from hyperfsad.serve.store import retention
from hyperfsad.serve.store.backup import backup
from hyperfsad.serve.store.database import Database
from hyperfsad.serve.store.models import Base, Image, now
from hyperfsad.serve.store.retention import Keep
from hyperfsad.serve.store.store import Store, add_images
from tests.codes import raises
from tests.serve.conftest import png
from tests.serve.stations import Stations, at_once, refused, until


def assert_migrated(databases: list[Database]) -> None:
    """Migrations give the tables of the models."""
    at_once(*(database.migrate for database in databases))  # as processes that start at once
    found = inspect(databases[0].engine)
    for table in Base.metadata.tables.values():
        assert [c["name"] for c in found.get_columns(table.name)] == [c.name for c in table.columns]
        made = {tuple(index["column_names"]) for index in found.get_indexes(table.name)}
        assert {tuple(c.name for c in index.columns) for index in table.indexes} <= made


def test_migrations_and_a_store_of_a_newer_version(tmp_path: Path) -> None:
    assert_migrated([Database(tmp_path) for _ in range(4)])
    with closing(sqlite3.connect(tmp_path / "station.sqlite")) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()
    with raises(HyperfsadError, "store-too-new"):
        Database(tmp_path).migrate()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path, reserve=0).open()
    with raises(HyperfsadError, "target-locked"):
        Store(tmp_path, reserve=0).open()
    store.close()
    Store(tmp_path, reserve=0).open().close()


def test_what_a_crash_leaves_is_cleared_away(tmp_path: Path) -> None:
    store = Store(tmp_path, reserve=0).open()
    named = _image(store, 1)
    store.close()
    left = [
        store.files.image("a" * 64, ".png"),
        store.files.detector("b" * 64),
        store.files.upload(),
    ]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left")
    other = store.files.images / "readme.txt"
    other.write_text("not ours")
    Store(tmp_path, reserve=0).open().close()
    assert not any(path.exists() for path in left)
    assert store.files.trashed == 2 * len(b"left")
    (day,) = store.files.trash.iterdir()
    for path in left[:2]:  # an upload that was never finished is nobody's work
        assert (day / path.relative_to(tmp_path)).read_bytes() == b"left"
    assert sum(path.is_file() for path in day.rglob("*")) == 2
    assert named.exists()
    assert other.exists()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("90d", Keep(90.0, None)),
        ("1.5GB", Keep(None, 1_500_000_000)),
        ("7d, 20GB", Keep(7.0, 20 * 10**9)),
    ],
)
def test_keep_is_read(text: str, kept: Keep) -> None:
    assert Keep.parse(text) == kept


@pytest.mark.parametrize("text", ["", "forever", "-1d", "3w", "20GB,", "nan d"])
def test_keep_is_refused(text: str) -> None:
    with raises(UsageError, "keep-invalid"):
        Keep.parse(text)


def test_retention_by_days_and_bytes(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=Keep(days=30.0), reserve=0).open()
    paths = [_image(store, days) for days in (50, 40, 20, 10)]
    assert store.expire() == 2
    assert [path.exists() for path in paths] == [False, False, True, True]
    store.retention = Keep(bytes=1500)
    assert store.expire() == 1
    assert [path.exists() for path in paths] == [False, False, False, True]
    new = _image(store, 0)
    assert store.expire() == 1  # the newest is never taken: its request may still run
    assert new.exists()
    with store.database.reading() as session:
        assert len(list(session.scalars(select(Image)))) == 5  # rows stay
    store.close()


def test_labelled_and_learnt_images_are_kept(stations: Stations, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with stations.running(folder) as station:
        client = station.client()
        product = client.create_product("bolt", [png(0), png(1)])["id"]
        found = client.inspect(product, [png(2), png(3), png(4)])["inspections"]
        client.label(found[0]["id"], "fine", confirm=True)
        client.label(found[1]["id"], "bad")
    year_ago = time.time() - 365 * 86_400
    for path in (folder / "images").rglob("*.png"):
        os.utime(path, (year_ago, year_ago))
    with closing(sqlite3.connect(folder / "station.sqlite")) as database:
        database.execute("UPDATE images SET added = ?", (int(year_ago * 1e6),))
        database.commit()
    with stations.running(folder, "--keep", "30d") as station:
        client = station.client()
        until(lambda: len(list((folder / "images").rglob("*.png"))) <= 4, "retention")
        with refused(410):
            client.picture(found[2]["id"], "original")
        assert client.picture(found[2]["id"], "overlay")[:2] == b"\xff\xd8"
        assert client.picture(found[1]["id"], "original") == png(3)[1]
        again = client.inspect(product, [png(4)])["inspections"][0]
        assert client.picture(found[2]["id"], "original") == png(4)[1]  # it came again
        assert again["image"] == found[2]["image"]
        client.undo(found[0]["id"])


def test_a_clock_that_jumps_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, keep=Keep(days=30.0), reserve=0).open()
    path = _image(store, 20)
    (store.files.trash / "2020-02-02").mkdir(parents=True)
    (store.files.trash / "mine").mkdir()
    for days, removed in ((0, 0), (100, 0), (-100, 0), (0, 0), (0.9, 0)):
        monkeypatch.setattr(retention, "now", lambda days=days: now() + int(days * retention.DAY))
        assert store.expire() == removed
        assert store.retains == (abs(days) < 1)
    assert path.exists()
    assert [day.name for day in store.files.trash.iterdir()] == ["mine"]
    store.close()


def test_a_clock_that_jumped_while_the_station_was_off(stations: Stations, tmp_path: Path) -> None:
    folder, keep = tmp_path / "store", ("--keep", "90d")
    with stations.running(folder, *keep) as station:
        client = station.client()
        product = client.create_product("bolt", [png(0)])["id"]
        (found,) = client.inspect(product, [png(2)])["inspections"]
    before = 100 * retention.DAY  # all that the store knows of time lies so far back now
    with closing(sqlite3.connect(folder / "station.sqlite")) as database:
        database.execute("UPDATE identity SET seen = seen - ?", (before,))
        database.execute("UPDATE images SET added = added - ?", (before,))
        database.commit()
    for path in (folder / "images").rglob("*.png"):
        os.utime(path, (time.time() - before / 1e6,) * 2)
    with stations.running(folder, *keep) as station:
        client = station.client()
        until(lambda: not station.ask("GET", "/ready").json()["retention"], "a jump of the clock")
        assert client.picture(found["id"], "original") == png(2)[1]
        until(lambda: "retention suspended" in [one["action"] for one in client.audit()])
        assert "retention suspended" in station.log.read_text()
    with stations.running(folder, *keep, "--trust-clock") as station:
        until(lambda: "originals removed" in [one["action"] for one in station.client().audit()])


@pytest.mark.parametrize("loss", ["moved", "emptied", "without tables"])
def test_a_store_without_its_database_is_refused(tmp_path: Path, loss: str) -> None:
    store = Store(tmp_path, reserve=0).open()
    image = _image(store, 1)
    store.close()
    database, aside = tmp_path / "station.sqlite", tmp_path / "aside"
    database.rename(aside)
    if loss == "emptied":
        database.touch()
    elif loss == "without tables":
        with closing(sqlite3.connect(database)) as new:
            new.execute("PRAGMA journal_mode=WAL")
    for _ in range(2):
        with closing(Store(tmp_path, reserve=0)) as other, raises(UsageError, "store-database-new"):
            other.open()
    assert image.exists()
    aside.replace(database)
    Store(tmp_path, reserve=0).open().close()
    assert image.exists()


def test_a_start_clears_uploads_away_though_the_clock_went_back(tmp_path: Path) -> None:
    Store(tmp_path).open().close()
    left = tmp_path / "incoming" / f"{'0' * 32}.part"
    left.write_bytes(b"half")
    os.utime(left, (time.time() + 3600,) * 2)
    Store(tmp_path).open().close()
    assert not left.exists()


def test_who_insists_finds_the_files_in_the_trash(tmp_path: Path) -> None:
    store = Store(tmp_path, reserve=0).open()
    image = _image(store, 1)
    store.close()
    database, aside = tmp_path / "station.sqlite", tmp_path / "aside"
    database.rename(aside)
    Store(tmp_path, reserve=0, insist=True).open().close()
    (day,) = store.files.trash.iterdir()
    assert (day / image.relative_to(tmp_path)).is_file()
    aside.replace(database)
    with closing(Store(tmp_path, reserve=0)) as again, raises(UsageError, "store-folder-differs"):
        again.open()


def test_only_its_owner_reads_a_store(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    told: list[Any] = []
    store = Store(folder, reserve=0).open(notify=told.append)
    _image(store, 1)
    assert not told
    files = [folder / name for name in ("station.sqlite", "station.sqlite-wal", "store.json")]
    backup(folder, tmp_path / "copy.zip")
    assert [path.stat().st_mode & 0o777 for path in (*files, tmp_path / "copy.zip")] == [0o600] * 4
    folders = [folder, *(path for path in folder.iterdir() if path.is_dir())]
    assert [path.stat().st_mode & 0o777 for path in folders] == [0o700] * 7
    store.close()
    folder.chmod(0o755)
    Store(folder, reserve=0).open(notify=told.append).close()
    assert [one.code for one in told] == ["store-open"]


@pytest.mark.parametrize("name", [b"a?b=1", b"a#b%20c", b"a\xff"])
def test_a_store_in_a_folder_of_any_name(stations: Stations, tmp_path: Path, name: bytes) -> None:
    store = tmp_path / os.fsdecode(name)
    with stations.running(store) as station:
        client = station.client()
        product = client.create_product("bolt", [png(0)])["id"]
    with stations.running(store) as station:
        assert station.client().inspect(product, [png(2)])["inspections"]
    assert (store / "station.sqlite").is_file()
    assert list(tmp_path.iterdir()) == [store]
    backup(store, tmp_path / "copy.zip")


def test_a_folder_without_a_store_is_not_copied(tmp_path: Path) -> None:
    with raises(UsageError, "store-missing"):
        backup(tmp_path, tmp_path / "copy.zip")


def test_a_copy_with_times_that_zip_files_do_not_know(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", reserve=0).open()
    for year, image in ((1969, _image(store, 1)), (2200, _image(store, 2))):
        time_ = (year - 1970) * 31_556_952
        os.utime(image, (time_, time_))
    store.close()
    assert backup(tmp_path / "store", tmp_path / "copy.zip") == 4
    with zipfile.ZipFile(tmp_path / "copy.zip") as archive:
        archive.extractall(tmp_path / "again")
    Store(tmp_path / "again", reserve=0).open().close()
    assert len(list((tmp_path / "again" / "images").rglob("*.png"))) == 2


def test_what_a_killed_copy_leaves_is_removed_by_the_next(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", reserve=0).open()
    large = store.files.image("a" * 64, ".png")
    large.parent.mkdir()
    with large.open("wb") as file:
        file.truncate(1 << 40)  # copying it takes longer than the test waits
    values = {"suffix": ".png", "bytes": 1 << 40, "width": 9, "height": 9, "added": now()}
    with store.database.writing() as session:
        add_images(session, [{"sha256": "a" * 64, "kept": True, **values}])
    places = ["--store", str(store.folder), "--backup"]
    command = [sys.executable, "-m", "hyperfsad", "serve", *places, str(tmp_path / "monday.zip")]
    copying = subprocess.Popen(command)
    until(lambda: list(tmp_path.glob(".*/station.sqlite")), "a copy of the database")
    copying.kill()
    copying.wait()
    large.write_bytes(b"small")
    assert main(["serve", *places, str(tmp_path / "tuesday.zip")]) == DONE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "tuesday.zip"]
    store.close()


def _image(store: Store, days: float) -> Path:
    """An original of a kilobyte that came so many days ago."""
    sha256 = f"{int(days):064x}"
    path = store.files.image(sha256, ".png")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(1000))
    time_ = now() - int(days * 86_400e6)
    os.utime(path, (time_ / 1e6, time_ / 1e6))
    values = {"suffix": ".png", "bytes": 1000, "width": 9, "height": 9, "added": time_}
    with store.database.writing() as session:
        add_images(session, [{"sha256": sha256, "kept": True, **values}])
    return path


def test_what_keeps_a_station_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny: str
) -> None:
    def told(*options: str) -> str:
        places = ["--store", str(tmp_path / "store"), "--backbone", tiny, "--device", "cpu"]
        assert main(["serve", *places, *options]) in (NOTHING, USAGE)
        text = capsys.readouterr().err
        assert text.count("\n") == 1, text
        return text

    with socket.create_server(("127.0.0.1", 0)) as taken:
        for options, named in (
            (("--port", str(taken.getsockname()[1])), "--port"),
            (("--host", "0.0.0.0"), "--token"),
            (("--tls-cert", "x"), "--tls-key"),
            (("--keep", "long"), "--keep"),
            (("--port", "0", "--database", "nonsense"), "--database"),
            (("--port", "0", "--database", "sqlite:///x.db"), "--database"),
        ):
            assert named in told(*options)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert "hyperfsad[serve]" in told()
