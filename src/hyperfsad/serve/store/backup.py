"""A consistent copy of a store while its station runs: one zip file, to be unpacked elsewhere."""

import contextlib
import sqlite3
import tempfile
import zipfile
from pathlib import Path

from ...disk.files import atomic_path
from ...errors import HyperfsadError, UsageError
from .database import DATABASE_FILE
from .files import Files

BACKUP_ATTEMPTS = 3
"""A detector file may be replaced between the database's copy and its own."""
UNDOABLE = (
    "SELECT labels.before FROM labels JOIN products ON products.detector = labels.after"
    " WHERE labels.before NOT IN (SELECT detector FROM products WHERE detector NOT NULL)"
)


def backup(folder: Path, target: Path) -> int:
    """Writes the copy at once or not at all; returns the number of files in it.

    SQLite copies its database as of one moment; the files that this copy names never change under
    their names, so they can be read afterwards.
    """
    if not (folder / DATABASE_FILE).is_file():
        raise UsageError("store-missing", folder=folder)
    for left in reversed(range(BACKUP_ATTEMPTS)):
        try:
            with tempfile.TemporaryDirectory(dir=target.parent or ".") as scratch:
                return _copied(Files(folder, 0), Path(scratch) / DATABASE_FILE, target)
        except FileNotFoundError as error:
            if not left:
                raise HyperfsadError("store-damaged", file=error.filename) from error
    raise AssertionError


def _copied(files: Files, copy: Path, target: Path) -> int:
    with (
        contextlib.closing(sqlite3.connect(files.folder / DATABASE_FILE)) as original,
        contextlib.closing(sqlite3.connect(copy)) as database,
    ):
        original.backup(database)
        database.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        images = database.execute("SELECT sha256, suffix FROM images WHERE kept").fetchall()
        current = "SELECT DISTINCT detector FROM products WHERE detector NOT NULL"
        detectors = database.execute(current).fetchall()
        former = [files.detector(*one) for one in database.execute(UNDOABLE)]
    paths = [files.image(*image) for image in images]
    paths += [files.detector(*detector) for detector in detectors]
    paths += [path for path in former if path.is_file()]
    with atomic_path(target) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        archive.write(copy, DATABASE_FILE)
        for path in paths:  # pictures and tokens do not shrink, so they are only stored
            archive.write(path, path.relative_to(files.folder))
    return 1 + len(paths)
