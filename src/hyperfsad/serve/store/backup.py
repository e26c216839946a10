"""A consistent copy of a store while its station runs: one zip file, to be unpacked elsewhere."""

import contextlib
import sqlite3
import tempfile
import zipfile
from pathlib import Path

from ...disk.files import atomic_path, check_target, locked_file
from ...errors import HyperfsadError, UsageError
from .database import DATABASE_FILE, has_content
from .files import IDENTITY_FILE, Files

BACKUP_ATTEMPTS = 3
"""A detector file may be replaced between the database's copy and its own."""
SCRATCH = "hyperfsad-backup"
"""What the folder beside the target is called while it is being written."""


def backup(folder: Path, target: Path) -> int:
    """Writes the copy at once or not at all; returns the number of files in it.

    SQLite copies its database as of one moment; the files that this copy names never change under
    their names, so they can be read afterwards. What a killed copy has left in the target's folder
    is removed with the lock.
    """
    if not has_content(folder / DATABASE_FILE):
        raise UsageError("store-missing", folder=folder)
    check_target(target)
    with locked_file(target.parent / SCRATCH, wait=True):
        for left in reversed(range(BACKUP_ATTEMPTS)):
            try:
                with tempfile.TemporaryDirectory(
                    dir=target.parent, prefix=f".{SCRATCH}.", suffix=".tmp"
                ) as scratch:
                    return _copied(Files(folder, 0), Path(scratch), target)
            except FileNotFoundError as error:
                if not left:
                    raise HyperfsadError("store-damaged", file=error.filename) from error
    raise AssertionError


def _copied(files: Files, scratch: Path, target: Path) -> int:
    copy, packed = scratch / DATABASE_FILE, scratch / "packed.zip"
    with (
        contextlib.closing(sqlite3.connect(files.folder / DATABASE_FILE)) as original,
        contextlib.closing(sqlite3.connect(copy)) as database,
    ):
        original.backup(database)
        database.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        images = database.execute("SELECT sha256, suffix FROM images WHERE kept").fetchall()
        detectors = database.execute("SELECT DISTINCT detector FROM versions").fetchall()
    paths = [files.folder / IDENTITY_FILE, *(files.image(*image) for image in images)]
    paths += [files.detector(*detector) for detector in detectors]
    # a file's time may lie outside the years that a zip file knows
    with zipfile.ZipFile(packed, "w", strict_timestamps=False) as archive:
        archive.write(copy, DATABASE_FILE)
        for path in paths:  # pictures and tokens do not shrink, so they are only stored
            archive.write(path, path.relative_to(files.folder))
    with atomic_path(target, private=True) as temporary:
        packed.replace(temporary)
    return 1 + len(paths)
