"""Which originals are kept, by age and by total size. Rows, maps and thumbnails stay.

Good parts that a product has learnt, and images with a label, are always kept. A clock that has
jumped makes everything look old, so nothing goes until somebody has looked at it.
"""

import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from sqlalchemy import func, select, update

from ...errors import UsageError
from .database import Database
from .files import NEW_FILE_GRACE, Files
from .models import Identity, Image, Inspection, LabelRow, Support, now

SIZE_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
DAY = 86_400_000_000
"""In microseconds."""
LONGEST_STOP = 7 * DAY
"""A store that was not used for longer, or a clock that jumped: nobody knows."""
TRASH_DAYS = 7.0
"""For how long the trash is kept where only a size is given."""
EXPIRED_AT_ONCE = 500
"""Images that go in one transaction."""


@dataclass(frozen=True)
class Keep:
    """For how many days, and how many bytes in all; None means no limit."""

    days: float | None = None
    bytes: int | None = None

    def __bool__(self) -> bool:
        return self != Keep()

    @classmethod
    def parse(cls, text: str) -> "Keep":
        """Reads a text such as 90d, 20GB or 90d,20GB."""
        days: float | None = None
        size: int | None = None
        for part in text.split(","):
            found = re.fullmatch(r"(\d+(?:\.\d+)?)(d|MB|GB|TB)", part.strip())
            if found is None:
                raise UsageError("keep-invalid", given=text)
            number, unit = float(found[1]), found[2]
            if unit == "d":
                days = number
            else:
                size = int(number * SIZE_UNITS[unit])
        return cls(days, size)


class Clock:
    """Whether the time can be believed by which originals are removed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last: tuple[int, int] | None = None
        self.moved = 0
        """Microseconds by which it has jumped; 0 while it can be believed."""

    def look(self) -> None:
        """Compares it with the time that has passed; where it was put right, all is well again."""
        here = now(), _ticks()
        with self._database.writing() as session:
            if self._last is None:
                moved = here[0] - session.scalars(select(Identity.seen)).one()
                fine = -DAY <= moved <= LONGEST_STOP
            else:
                moved = here[0] - self._last[0] - (here[1] - self._last[1])
                fine = abs(moved) <= DAY
            self.moved = 0 if fine else moved
            if fine:
                self._last = here
                session.execute(update(Identity).values(seen=here[0]))

    def trust(self) -> None:
        with self._database.writing() as session:
            session.execute(update(Identity).values(seen=now()))


def _ticks() -> int:
    """Microseconds that nobody can set; where the system knows them, also those of its sleep."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    return time.monotonic_ns() // 1000


def expire(database: Database, files: Files, keep: Keep) -> int:
    """Removes the originals that need not be kept any longer; returns how many. Empties the trash
    of days that are as old."""
    removed = 0
    if keep:
        _empty(files.trash, TRASH_DAYS if keep.days is None else keep.days)
    if keep.days is not None:
        before = now() - int(keep.days * 86_400e6)
        while gone := _drop(database, files, before):
            removed += len(gone)
    if keep.bytes is not None:
        with database.reading() as session:
            total = session.scalar(select(func.sum(Image.bytes)).where(Image.kept)) or 0
        before = now() - int(NEW_FILE_GRACE * 1e6)
        while total > keep.bytes and (gone := _drop(database, files, before, total - keep.bytes)):
            removed += len(gone)
            total -= sum(gone)
    return removed


def _empty(trash: Path, days: float) -> None:
    first = date.today() - timedelta(days)
    for folder in trash.glob("????-??-??"):
        with suppress(ValueError):  # not ours
            if date.fromisoformat(folder.name) < first:
                shutil.rmtree(folder, ignore_errors=True)


def _drop(database: Database, files: Files, before: int, enough: int | None = None) -> list[int]:
    """Lets some of the oldest go, up to `enough` bytes; returns their sizes."""
    labelled = select(Inspection.image).join(LabelRow, LabelRow.inspection_id == Inspection.id)
    query = (
        select(Image)
        .where(Image.kept, Image.added < before)
        .where(Image.sha256.not_in(select(Support.image)), Image.sha256.not_in(labelled))
        .order_by(Image.added)
        .limit(EXPIRED_AT_ONCE)
        .with_for_update(skip_locked=True, of=Image)  # not those that come again this moment
    )
    sizes: list[int] = []
    paths = []
    with database.writing() as session:
        for image in session.scalars(query):
            if enough is not None and sum(sizes) >= enough:
                break
            sizes.append(image.bytes)
            paths.append(files.image(image.sha256, image.suffix))
        names = [path.stem for path in paths]
        session.execute(update(Image).where(Image.sha256.in_(names)).values(kept=False))
    for path in paths:
        files.remove(path)
    return sizes
