"""The audit log: a chain, in which each row carries the hash of the row before it.

Whoever edits, removes or inserts a row by hand breaks the chain there. The length and the last hash
stand in `Identity`, so that rows missing at the end are found, too. Rows are never removed. A chain
that was computed anew from its start fits again: only a last hash noted elsewhere shows that.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from ...errors import HyperfsadError, UsageError
from .database import Database
from .models import AuditEntry, Identity, now

START = hashlib.sha256(b"").hexdigest()
"""What the first row carries."""
HASHED = tuple(one.name for one in AuditEntry.__table__.columns if one.name != "hash")


@dataclass(frozen=True)
class Actor:
    """Who asks."""

    role: str
    client: str = ""
    request: str = ""
    user: str = ""
    """The name, where somebody signed in with one."""


@dataclass(frozen=True)
class Verified:
    """A chain that fits."""

    rows: int
    last: str
    """The hash of the last row: noted elsewhere, it shows later that nothing was made anew."""


def audit(session: Session, actor: Actor, action: str, subject: str, detail: str = "") -> None:
    """Adds a row in the transaction of the change itself, as the last thing of it: other stations
    wait for the end of the chain until the commit."""
    session.flush()
    query = select(Identity).with_for_update().execution_options(populate_existing=True)
    end = session.scalars(query).one()
    entry = AuditEntry(
        id=end.audit_rows + 1,
        time=now(),
        user=actor.user,
        role=actor.role,
        client=actor.client[:64],
        request=actor.request[:64],
        action=action[:40],
        subject=subject[:64],
        detail=detail[:2000],
        before=end.audit_last,
    )
    entry.hash = hash_of(entry)
    session.add(entry)
    end.audit_rows, end.audit_last = entry.id, entry.hash
    session.flush()


def hash_of(entry: AuditEntry) -> str:
    """sha256 over the row as canonical JSON: sorted keys, no spaces, ASCII."""
    row = {name: getattr(entry, name) for name in HASHED}
    text = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def verify(session: Session) -> Verified:
    """Follows the chain from its start; refuses at the first row that does not fit."""
    end = session.scalars(select(Identity)).one()
    place, last = 0, START
    query = select(AuditEntry).order_by(AuditEntry.id).execution_options(yield_per=1000)
    for entry in session.scalars(query):
        fits = entry.id == place + 1 and entry.before == last and entry.hash == hash_of(entry)
        if not fits or entry.id > end.audit_rows:
            raise HyperfsadError("audit-broken", row=place + 1)
        place, last = entry.id, entry.hash
        session.expunge(entry)
    if (place, last) != (end.audit_rows, end.audit_last):
        raise HyperfsadError("audit-broken", row=min(place + 1, max(end.audit_rows, 1)))
    return Verified(place, last)


def verify_store(folder: Path, url: str | None = None) -> Verified:
    """As `verify`, of a store whose station may run or not."""
    database = Database(folder, url)
    try:
        if database.is_new:
            raise UsageError("store-missing", folder=folder)
        with database.reading() as session:
            return verify(session)
    finally:
        database.close()
