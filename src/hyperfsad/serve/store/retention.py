"""Which originals are kept, by age and by total size. Rows, maps and thumbnails stay.

Good parts that a product has learnt, and images with a label, are always kept.
"""

import re
from dataclasses import dataclass

from sqlalchemy import func, select, update

from ...errors import UsageError
from .database import Database
from .files import NEW_FILE_GRACE, Files
from .models import Image, Inspection, LabelRow, Support, now

SIZE_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
EXPIRED_AT_ONCE = 500
"""Images that go in one transaction."""


@dataclass(frozen=True)
class Keep:
    """For how many days, and how many bytes in all; None means no limit."""

    days: float | None = None
    bytes: int | None = None

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


def expire(database: Database, files: Files, keep: Keep) -> int:
    """Removes the originals that need not be kept any longer; returns how many."""
    removed = 0
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
