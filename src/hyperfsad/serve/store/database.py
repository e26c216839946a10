"""The database: SQLite beside the files by default, or PostgreSQL by its address; same code."""

import contextlib
import math
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import alembic.command
import alembic.config
from alembic.util.exc import CommandError
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from ...errors import HyperfsadError, UsageError, first_line
from ..refusals import BusyError
from .models import Identity

DATABASE_FILE = "station.sqlite"
WRITE_TIMEOUT = 30.0
"""Seconds that a writer waits for another process, such as a backup."""
MIGRATIONS = Path(__file__).parent / "migrations"
MIGRATION_LOCK = 0x68667361
"""PostgreSQL's advisory lock while tables are made or changed."""
LOCK_RETRY = 0.05
"""Seconds between two attempts to get such a lock: one that is waited for may take long, and an
answer may not."""
LEARNING_PATIENCE = 60.0
"""Seconds that a station waits while another learns for the same product."""


class Database:
    """Hands out sessions: many that read, one at a time that writes."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        """`url` is PostgreSQL's address; None means SQLite in the folder."""
        self.is_embedded = url is None
        self._file = folder / DATABASE_FILE
        self._anchor: sqlite3.Connection | None = None
        self._opened: list[tuple[int, int] | None] = []
        self.engine = _sqlite(self._file) if url is None else _postgresql(url)
        self._writer = Lock() if self.is_embedded else contextlib.nullcontext()
        # SQLite's readers see one state anyway
        snapshot = {} if self.is_embedded else {"isolation_level": "REPEATABLE READ"}
        self._reader = self.engine.execution_options(**snapshot)

    @property
    def is_new(self) -> bool:
        """Whether it has no tables yet; to find out makes no file."""
        if self.is_embedded and not has_content(self._file):
            return True
        with explained():
            return not inspect(self.engine).has_table(Identity.__tablename__)

    def migrate(self) -> None:
        """Makes the tables or brings them up to date; two processes may do so at once."""
        config = alembic.config.Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        if self.is_embedded:
            self._file.touch(mode=0o600)  # SQLite gives its log the same rights
        with explained(), self.engine.execution_options(writes=True).begin() as connection:
            if not self.is_embedded:
                _lock(connection, MIGRATION_LOCK)
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, "head")
        if self.is_embedded and self._anchor is None:
            self._anchor = sqlite3.connect(self._file, check_same_thread=False)
            self._anchor.execute("SELECT id FROM identity").fetchall()  # opens the log
            self._opened = self._found()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """A session for queries; it sees one state of the database."""
        with Session(self._reader) as session:
            yield session

    @contextlib.contextmanager
    def writing(self) -> Iterator[Session]:
        """A session whose changes are all on the disk when the block ends, or none is."""
        engine = self.engine.execution_options(writes=True)
        with self._writer, Session(engine) as session, session.begin():
            yield session
        self.check()

    def check(self) -> None:
        """Refuses where SQLite's files are no longer those that were opened: what is written to a
        file without a name is lost at the end."""
        if self._opened != self._found():
            raise BusyError("database-replaced", retry_after=60)

    def _found(self) -> list[tuple[int, int] | None]:
        """Which files the database and its log are; the log stays as long as one is connected."""
        if not self.is_embedded:
            return []
        return [_inode(self._file), _inode(self._file.with_name(f"{DATABASE_FILE}-wal"))]

    @contextlib.contextmanager
    def alone(self, product_id: str) -> Iterator[None]:
        """While the block runs, no other station learns for this product.

        Learning takes seconds: too long for a lock on a row, which others would wait for.
        """
        if self.is_embedded:  # then there is no other station
            yield
            return
        with self.engine.connect() as connection:
            _lock(connection, int(product_id[:15], 16), LEARNING_PATIENCE)
            try:
                yield
            except SQLAlchemyError:
                connection.invalidate()  # rather than to ask a silent server to free the lock
                raise

    def close(self) -> None:
        self.engine.dispose()
        if self._anchor is not None:
            self._anchor.close()


def _lock(connection: Connection, key: int, patience: float = math.inf) -> None:
    """Takes an advisory lock of PostgreSQL until the transaction ends."""
    end = time.monotonic() + patience
    while not connection.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": key}):
        if time.monotonic() > end:
            raise BusyError("learning-elsewhere", retry_after=5)
        time.sleep(LOCK_RETRY)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def has_content(path: Path) -> bool:
    """Whether there is a database in a file; an empty one has none."""
    return path.is_file() and path.stat().st_size > 0


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Why a database cannot be used, in a sentence of ours."""
    try:
        yield
    except CommandError as error:
        raise HyperfsadError("store-too-new", reason=first_line(error)) from error
    except DBAPIError as error:
        reason = first_line(error.orig or error)
        raise HyperfsadError("database-unusable", reason=reason) from error


def _sqlite(path: Path) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": WRITE_TIMEOUT, "check_same_thread": False},
    )

    def on_connect(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions by itself
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    def on_begin(connection: Connection) -> None:
        # a reader that becomes a writer may have to fail; one that says so first only waits
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)
    return engine


def _postgresql(url: str) -> Engine:
    try:
        address = make_url(url)
        if address.get_backend_name() != "postgresql":
            raise UsageError("database-kind", kind=address.get_backend_name())
        from .postgresql import engine_at

        return engine_at(address)
    except ImportError as error:
        raise UsageError("database-driver-missing", reason=first_line(error)) from error
    except ArgumentError as error:
        raise UsageError("database-address-invalid", reason=first_line(error)) from error
