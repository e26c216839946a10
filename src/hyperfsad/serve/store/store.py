"""The store: opened once for a station, closed at its end."""

import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.selectable import ForUpdateArg

from ...disk.files import folder_lock
from ...errors import UsageError
from ...messages import Notice, Notify, log
from ..refusals import MissingError
from .database import Database
from .files import NEW_FILE_GRACE, Files
from .models import (
    Detail,
    Identity,
    Image,
    Inspection,
    ProductRow,
    Version,
    insert,
)
from .retention import Clock, Keep, expire

RESERVE = 512 * 10**6
"""Bytes of the disk that stay free by default."""
CURRENT_DETECTORS = select(ProductRow.detector).where(ProductRow.detector.is_not(None))
LOCKED = ForUpdateArg(key_share=True)
"""New rows that point to the locked one need not wait. SQLite has one writer anyway."""


class Store:
    """Rows and files. A store in a folder alone belongs to one process; with a database of its
    own, several stations may share both."""

    def __init__(
        self,
        folder: Path,
        database: str | None = None,
        *,
        keep: Keep | None = None,
        reserve: int = RESERVE,
        insist: bool = False,
        trust_clock: bool = False,
    ) -> None:
        """`insist` takes a folder and a database that do not belong together; with `trust_clock`
        the time is right, however much later it is than when the store was last used."""
        self.folder, self.retention, self._insist = folder, keep or Keep(), insist
        self.files = Files(folder, reserve, shared=database is not None)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.database = Database(folder, database)
        self.clock, self._trust_clock = Clock(self.database), trust_clock
        self._lock = folder_lock(folder)

    def open(self, *, wait: bool = False, notify: Notify = log) -> "Store":
        """Brings the tables up to date and clears away what a crash has left."""
        alone = self.database.is_embedded and self._lock.acquire(wait=wait, notify=notify)
        self._identify()
        if self._trust_clock:
            self.clock.trust()
        self.files.prepare()
        if self.folder.stat().st_mode & 0o007 and os.name == "posix":
            notify(Notice("store-open", folder=self.folder))
        self.sweep(0.0 if alone else NEW_FILE_GRACE)
        return self

    def _identify(self) -> None:
        """Refuses a database and a folder of two stores: the sweep would clear the folder."""
        known = self.files.identity  # first: another station makes the tables before this file
        if known is not None and self.database.is_new and not self._insist:
            raise UsageError("store-database-new", folder=self.folder)
        self.database.migrate()
        with self.database.reading() as session:
            own = session.scalars(select(Identity.id)).one()
            named = list(session.scalars(CURRENT_DETECTORS))
        missing = sum(not self.files.detector(one or "").is_file() for one in named)
        # a lost file is made again where its files are there, as in a store that was copied by hand
        other = bool(missing) and not self.database.is_embedded if not known else known != own
        if other and not self._insist:
            facts = {"missing": missing, "products": len(named), "folder": self.folder}
            raise UsageError("store-folder-differs", **facts)
        if known != own:
            self.files.identify(own)

    def close(self) -> None:
        self.database.close()
        self._lock.release()

    def sweep(self, grace: float = NEW_FILE_GRACE) -> None:
        with self.database.reading() as session:
            named = set(session.scalars(select(Image.sha256).where(Image.kept)))
            named |= set(session.scalars(select(Version.detector)))
        self.files.sweep(named.__contains__, grace)

    def expire(self) -> int:
        """Removes what need not be kept, as long as the clock can be believed."""
        self.clock.look()
        return 0 if self.clock.moved else expire(self.database, self.files, self.retention)

    @property
    def retains(self) -> bool:
        """Whether originals go as was chosen."""
        return not (self.retention and self.clock.moved)


def new_id() -> str:
    """An identifier that no two stations give twice."""
    return uuid.uuid4().hex


def product_of(session: Session, product_id: str, *, change: bool = False) -> ProductRow:
    """A living product; to `change` it, its row is kept from other stations until the commit."""
    found = session.get(ProductRow, product_id, with_for_update=LOCKED if change else None)
    if found is None or found.detector is None:
        raise MissingError("product-id-unknown", product=product_id[:40])
    return found


def parts_of(session: Session, product: ProductRow) -> dict[str, str]:
    """The names of the good parts of a product by the hashes of their pixels."""
    found = session.get(Version, {"product_id": product.id, "revision": product.revision})
    return {} if found is None else found.parts


def inspection_of(
    session: Session, inspection_id: str, *, change: bool = False
) -> tuple[Inspection, Detail, ProductRow]:
    """An inspection with all that belongs to it; to `change` its label, its row is locked."""
    found = session.get(Inspection, inspection_id, with_for_update=LOCKED if change else None)
    detail = session.get(Detail, inspection_id)
    if found is None or detail is None:
        raise MissingError("inspection-unknown", inspection=inspection_id[:40])
    product = session.get(ProductRow, found.product_id)
    assert product is not None  # by its foreign key
    return found, detail, product


def add_images(session: Session, rows: Iterable[dict[str, Any]]) -> None:
    """Adds the rows of images, or notes that their files are there again.

    All stations add them in one order, so that no two wait for each other.
    """
    for values in sorted(rows, key=lambda row: str(row["sha256"])):
        row = insert(session, Image).values(**values)
        again = {"kept": row.excluded.kept, "added": row.excluded.added}
        session.execute(row.on_conflict_do_update(index_elements=[Image.sha256], set_=again))


def number(session: Session, inspections: Sequence[Inspection]) -> None:
    """Gives inspections their places in the order of the store. Other stations wait for the commit,
    so none is seen after one that follows it."""
    latest = Identity.inspections + len(inspections)
    query = update(Identity).values(inspections=latest).returning(Identity.inspections)
    first = session.execute(query).scalar_one() - len(inspections) + 1
    for place, one in enumerate(inspections, first):
        one.number = place
