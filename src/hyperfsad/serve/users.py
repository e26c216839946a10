"""Named users: who signs in with a PIN, in one of the two roles.

A wrong PIN is counted in the database before it is compared: a station that is killed, restarted or
has no space for the count gives no further guess. After `GUESSES` of them a name is locked, each
time for twice as long; tokens, and an engineer who sets a new PIN, are the way back.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from ..errors import UsageError
from .monitoring import LOG
from .pins import NOBODY, fits, hashed
from .refusals import ConflictError, MissingError, NotSignedInError, TooOftenError
from .schemas import UserOut
from .settings import ADMIN, ROLES
from .store.audit import Actor, audit
from .store.database import Database
from .store.files import Files
from .store.models import UserRow, now
from .store.store import LOCKED, new_id

GUESSES = 5
"""Wrong PINs in a row after which a name is locked."""
FIRST_LOCK, LONGEST_LOCK = 60_000_000, 86_400_000_000
"""In microseconds."""
LOOK_EVERY = 2.0
"""Seconds after which users are looked up again: another station may have changed them."""
LONGEST_NAME = 60


@dataclass(frozen=True)
class User:
    """Who may sign in, as far as a session needs to know."""

    id: str
    name: str
    role: str
    changed: int


class Users:
    """The users of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looked = 0.0
        self.known: dict[str, User] = {}
        """By their ids, as they were a moment ago; as long as the database is away, they stay."""

    def look(self) -> None:
        """Reads who there is, for the sessions that are open."""
        self._looked = time.monotonic()
        with self._database.reading() as session:
            self.known = {row.id: _user(row) for row in session.scalars(select(UserRow))}

    @property
    def is_old(self) -> bool:
        return time.monotonic() - self._looked > LOOK_EVERY

    def look_again(self) -> None:
        """As `look`; where the database is away, what is known stays."""
        try:
            self.look()
        except SQLAlchemyError:
            LOG.warning("the users could not be looked up")

    def all(self) -> list[UserOut]:
        """By name."""
        with self._database.reading() as session:
            query = select(UserRow).order_by(UserRow.key)
            return [_shown(row) for row in session.scalars(query)]

    def add(self, actor: Actor, name: str, role: str, pin: str) -> UserOut:
        kept, shown = hashed(pin, role), user_name(name)
        row = UserRow(id=new_id(), role=role, pin=kept, created=now(), changed=now())
        row.name, row.key = shown, shown.casefold()
        row.failures = row.locked = 0
        try:
            with self._database.writing() as session:
                session.add(row)
                session.flush()
                if role != ADMIN:
                    _require_engineer(session)
                audit(session, actor, "user added", row.id, f"{shown}: {role}")
                found = _shown(row)
        except IntegrityError as error:
            raise ConflictError("user-name-taken", name=shown) from error
        self.look()
        return found

    def change(self, actor: Actor, user_id: str, role: str | None, pin: str | None) -> UserOut:
        """Another role or a new PIN, which unlocks the name; both end the user's sessions."""
        with self._database.writing() as session:
            row = _user_row(session, user_id)
            wanted = role or row.role
            if role is not None and pin is None and row.role != role == ADMIN:
                raise UsageError("pin-needed")  # an operator's may be too short
            if pin is not None:
                row.pin = hashed(pin, wanted)
                row.failures = row.locked = 0
            row.role, row.changed = wanted, now()
            session.flush()
            _require_engineer(session)
            told = ", ".join(filter(None, (row.name, role, pin and "new PIN")))
            audit(session, actor, "user changed", user_id, told)
            found = _shown(row)
        self.look()
        return found

    def remove(self, actor: Actor, user_id: str) -> None:
        with self._database.writing() as session:
            row = _user_row(session, user_id)
            session.delete(row)
            session.flush()
            _require_engineer(session)
            audit(session, actor, "user removed", user_id, row.name)
        self.look()

    def sign_in(self, client: Actor, name: str, pin: str) -> User:
        """Who has this name and this PIN."""
        key = name.strip().casefold()
        with self._database.writing() as session:
            row = _by_key(session, key)
            kept = NOBODY if row is None else row.pin
            if row is not None:
                if row.locked > now():
                    seconds = -(-(row.locked - now()) // 1_000_000)
                    raise TooOftenError("user-locked", retry_after=seconds)
                row.failures += 1
                if row.failures >= GUESSES:
                    wait = FIRST_LOCK << min(row.failures - GUESSES, 20)
                    row.locked = now() + min(wait, LONGEST_LOCK)
                    told = f"{row.name}: {row.failures} wrong PINs"
                    audit(session, client, "user locked", row.id, told)
        if not fits(pin, kept):
            raise NotSignedInError("pin-unknown")
        with self._database.writing() as session:
            row = _by_key(session, key)
            if row is None or row.pin != kept:  # changed meanwhile
                raise NotSignedInError("pin-unknown")
            row.failures = row.locked = 0
            found = _user(row)
            who = Actor(row.role, client.client, client.request, row.name)
            audit(session, who, "signed in", row.id, row.name)
        self.look()
        return found


def set_engineer(folder: Path, url: str | None, name: str, pin: str) -> None:
    """Adds an engineer from the machine itself, or gives one a new PIN; the station may run."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = Database(folder, url)
    try:
        if database.is_new and Files(folder, 0).identity is not None:
            raise UsageError("store-database-new", folder=folder)
        database.migrate()
        users, actor = Users(database), Actor("station")
        same = [one.id for one in users.all() if one.name.casefold() == name.casefold().strip()]
        if same:
            users.change(actor, same[0], ADMIN, pin)
        else:
            users.add(actor, name, ADMIN, pin)
    finally:
        database.close()


def user_name(text: str) -> str:
    """A name that a person gave."""
    name = " ".join(text.split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError("user-name-invalid", longest=LONGEST_NAME)
    return name


def _by_key(session: Session, key: str) -> UserRow | None:
    query = select(UserRow).where(UserRow.key == key).with_for_update(of=UserRow)
    return session.scalars(query.execution_options(populate_existing=True)).one_or_none()


def _user_row(session: Session, user_id: str) -> UserRow:
    found = session.get(UserRow, user_id, with_for_update=LOCKED)
    if found is None:
        raise MissingError("user-unknown")
    return found


def _require_engineer(session: Session) -> None:
    """Where there are users, one of them is an engineer; nobody could add or remove any else."""
    roles = set(session.scalars(select(UserRow.role)))
    if roles and ADMIN not in roles:
        raise ConflictError("engineer-last")


def _user(row: UserRow) -> User:
    return User(row.id, row.name, row.role, row.changed)


def _shown(row: UserRow) -> UserOut:
    assert row.role in ROLES
    own: dict[str, Any] = {"id": row.id, "name": row.name, "role": row.role}
    own["created"] = row.created
    return UserOut(**own, locked=row.locked > now())
