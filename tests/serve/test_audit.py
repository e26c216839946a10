"""The audit log is a chain: whoever changes it by hand is found."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from hyperfsad.cli import main
from hyperfsad.cli.console import DONE, NOTHING
from hyperfsad.errors import HyperfsadError, UsageError
from hyperfsad.serve.store.audit import START, Actor, audit, hash_of, verify_store
from hyperfsad.serve.store.models import AuditEntry
from hyperfsad.serve.store.store import Store
from tests.codes import raises
from tests.serve import postgres
from tests.serve.stations import at_once

ROWS = 5
EDIT = "UPDATE audit SET detail = 'nothing' WHERE id = {row}"
REMOVE = "DELETE FROM audit WHERE id = {row}"
INSERT = (
    'INSERT INTO audit SELECT {row}, time, "user", role, client, request, action, subject, detail,'
    " before, hash FROM audit WHERE id = 2"
)
RENUMBER = "UPDATE audit SET id = id + 1 WHERE id = {row}"
BY_HAND = {
    "first edited": (EDIT, 1, 1),
    "edited": (EDIT, 3, 3),
    "last edited": (EDIT, ROWS, ROWS),
    "first removed": (REMOVE, 1, 1),
    "removed": (REMOVE, 3, 3),
    "last removed": (REMOVE, ROWS, ROWS),
    "inserted at the end": (INSERT, ROWS + 1, ROWS + 1),
    "inserted before the start": (INSERT, 0, 1),
    "moved": (RENUMBER, ROWS, ROWS),
    "role": ("UPDATE audit SET role = 'inspect' WHERE id = {row}", 4, 4),
    "time": ("UPDATE audit SET time = time + 1 WHERE id = {row}", 4, 4),
    "all removed": ("DELETE FROM audit WHERE id > {row}", 0, 1),
}


def filled(store: Store, rows: int = ROWS) -> None:
    """A store with an audit log of so many rows."""
    store.open()
    for row in range(rows):
        with store.database.writing() as session:
            actor = Actor("admin", "10.0.0.1", "a" * 99, user="Jürgen \U0001f600")
            audit(session, actor, "changed", "b" * 99, f"“{row}”\n")
    store.close()


def changed_by_hand(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "station.sqlite")) as database:
        database.execute(statement)
        database.commit()


@pytest.mark.parametrize("case", BY_HAND)
def test_a_change_by_hand_is_found(case: str, tmp_path: Path) -> None:
    filled(Store(tmp_path, reserve=0))
    assert verify_store(tmp_path).rows == ROWS
    statement, row, found = BY_HAND[case]
    changed_by_hand(tmp_path, statement.format(row=row))
    with raises(HyperfsadError, "audit-broken", row=found):
        verify_store(tmp_path)


def test_an_edited_row_with_a_hash_that_was_made_anew(tmp_path: Path) -> None:
    """Then the row after it does not fit."""
    filled(Store(tmp_path, reserve=0))
    changed_by_hand(tmp_path, f"UPDATE audit SET hash = '{'0' * 64}' WHERE id = 3")
    with raises(HyperfsadError, "audit-broken", row=3):
        verify_store(tmp_path)
    store = Store(tmp_path, reserve=0).open()
    with store.database.writing() as session:
        row = session.get_one(AuditEntry, 3)
        row.detail = "nothing"
        row.hash = hash_of(row)
    store.close()
    with raises(HyperfsadError, "audit-broken", row=4):
        verify_store(tmp_path)


def test_an_empty_log_and_no_store(tmp_path: Path) -> None:
    filled(Store(tmp_path / "store", reserve=0), 0)
    found = verify_store(tmp_path / "store")
    assert (found.rows, found.last) == (0, START)
    with raises(UsageError, "store-missing"):
        verify_store(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filled(Store(tmp_path, reserve=0))
    command = ["serve", "--store", str(tmp_path), "--verify-audit"]
    assert main(command) == DONE
    said = capsys.readouterr().out
    assert str(ROWS) in said
    assert verify_store(tmp_path).last in said
    changed_by_hand(tmp_path, REMOVE.format(row=2))
    assert main(command) == NOTHING == 1
    assert "row 2" in capsys.readouterr().err


@pytest.mark.skipif(postgres.programs() is None, reason=postgres.MISSING)
def test_on_postgresql(tmp_path: Path) -> None:
    with postgres.running() as server:
        for case, (statement, row, found) in BY_HAND.items():
            url = server.make(case.replace(" ", "_"))
            filled(Store(tmp_path / case, url, reserve=0))
            assert verify_store(tmp_path / case, url).rows == ROWS
            engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
            with engine.begin() as connection:
                connection.execute(text(statement.format(row=row)))
            engine.dispose()
            with raises(HyperfsadError, "audit-broken", row=found):
                verify_store(tmp_path / case, url)


@pytest.mark.skipif(postgres.programs() is None, reason=postgres.MISSING)
def test_stations_that_write_at_once_make_one_chain(tmp_path: Path) -> None:
    with postgres.running() as server:
        url = server.make("chain")
        stores = [Store(tmp_path, url, reserve=0) for _ in range(3)]
        for store in stores:
            store.open()

        def write(store: Store) -> None:
            for _ in range(20):
                with store.database.writing() as session:
                    audit(session, Actor("admin"), "changed", "one")
                    audit(session, Actor("admin"), "changed", "two")

        at_once(*(partial(write, store) for store in stores))
        assert verify_store(tmp_path, url).rows == 120
        for store in stores:
            store.close()
