"""The tables. Rows of the history are narrow, so that filters read little; the rest of an
inspection stands beside them, in `details`.

Times are microseconds since 1970, UTC: integers compare and sort alike in every database.
"""

import time
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, MetaData, String, Text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

CONSTRAINT_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
"""Constraints need names for later migrations to find them."""


def now() -> int:
    """Microseconds since 1970, UTC."""
    return time.time_ns() // 1000


ID, HASH, TITLE = String(32), String(64), String(200)
ORDERED = String(400).with_variant(String(400, collation="C"), "postgresql")
"""Text in the order of its signs, as SQLite has it: then an index finds what begins with a text."""


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=CONSTRAINT_NAMES)


def insert(session: Session, table: type[Base]) -> Any:
    """An INSERT that may say what to do on a conflict, which each database has for itself."""
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


class Identity(Base):
    """The one row that says which store this is; the folder has the same id in a file."""

    __tablename__ = "identity"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    inspections: Mapped[int] = mapped_column(BigInteger)
    """The number of the latest one."""
    seen: Mapped[int] = mapped_column(BigInteger)
    """When a station last looked at its clock and could believe it."""
    shifts: Mapped[dict[str, Any]] = mapped_column(JSON)
    """When they begin (`serve/shifts.py`)."""
    audit_rows: Mapped[int] = mapped_column(BigInteger)
    audit_last: Mapped[str] = mapped_column(HASH)
    """The end of the audit log (`store/audit.py`): how many rows, and the hash of the last."""


class ProductRow(Base):
    """A product, and which detector file is its current one."""

    __tablename__ = "products"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    name: Mapped[str] = mapped_column(TITLE)
    claimed: Mapped[str | None] = mapped_column(TITLE, unique=True)
    """The name while the product lives; a deleted one keeps its name for the history alone."""
    created: Mapped[int] = mapped_column(BigInteger)
    changed: Mapped[int] = mapped_column(BigInteger)
    revision: Mapped[int]
    detector: Mapped[str | None] = mapped_column(HASH)
    """The hash of its detector file; None where the product is deleted."""
    summary: Mapped[dict[str, Any]] = mapped_column(JSON)
    """What the header of the detector file says, for lists."""
    adapted: Mapped[int] = mapped_column(default=0)
    """How many unlabelled parts there were when it last learnt from them; going back to another
    version leaves it, so that nothing is proposed again that was taken back."""
    adapt_automatically: Mapped[bool] = mapped_column(default=False)
    fields: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    """Of one's own, such as serial and lot (`serve/tracing.py`)."""
    name_pattern: Mapped[str] = mapped_column(TITLE, default="")
    """How to read them from the names of files."""
    shapes: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    """What was drawn for each region of interest, by the hash of its mask: to go on drawing."""


class Image(Base):
    """A picture that was uploaded, once for each content."""

    __tablename__ = "images"
    __table_args__ = (Index(None, "kept", "added"),)
    sha256: Mapped[str] = mapped_column(HASH, primary_key=True)
    suffix: Mapped[str] = mapped_column(String(8))
    bytes: Mapped[int] = mapped_column(BigInteger)
    width: Mapped[int]
    height: Mapped[int]
    added: Mapped[int] = mapped_column(BigInteger)
    """When it came last; for retention."""
    kept: Mapped[bool]
    """Whether its file is there; retention takes files away, never rows."""


class Version(Base):
    """A product after a change. The latest are kept, with their detector files: a way back."""

    __tablename__ = "versions"
    product_id: Mapped[str] = mapped_column(ForeignKey("products.id"), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True)
    time: Mapped[int] = mapped_column(BigInteger)
    role: Mapped[str] = mapped_column(String(12))
    user: Mapped[str] = mapped_column(TITLE)
    action: Mapped[str] = mapped_column(String(12))
    detail: Mapped[str] = mapped_column(TITLE)
    detector: Mapped[str] = mapped_column(HASH)
    threshold: Mapped[float | None]
    parts: Mapped[dict[str, str]] = mapped_column(JSON)
    """The names of its good parts by the hashes of their pixels."""


class Support(Base):
    """The picture of a good part that a version of a product has learnt."""

    __tablename__ = "support"
    product_id: Mapped[str] = mapped_column(ForeignKey("products.id"), primary_key=True)
    part: Mapped[str] = mapped_column(HASH, primary_key=True)
    """The hash of its pixels, whatever file carried them."""
    image: Mapped[str] = mapped_column(ForeignKey("images.sha256"), index=True)
    added: Mapped[int] = mapped_column(BigInteger)


class Inspection(Base):
    """One image and its verdict: what lists, filters and trends need."""

    __tablename__ = "inspections"
    __table_args__ = (
        Index(None, "product_id", "number"),
        Index(None, "verdict", "number"),
        Index(None, "product_id", "verdict", "number"),
        Index(None, "label", "number"),
        Index(None, "defect", "number"),
        Index(None, "product_id", "revision", "number"),
        Index(None, "product_id", "part"),
        Index(None, "time"),
    )
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger, unique=True)
    """Its place in the order of the store, which is that of the commits; clocks go wrong."""
    time: Mapped[int] = mapped_column(BigInteger)
    product_id: Mapped[str] = mapped_column(ForeignKey("products.id"))
    revision: Mapped[int]
    image: Mapped[str] = mapped_column(ForeignKey("images.sha256"), index=True)
    name: Mapped[str] = mapped_column(TITLE)
    verdict: Mapped[str] = mapped_column(String(12))
    score: Mapped[float]
    threshold: Mapped[float | None]
    level: Mapped[float | None]
    p_value: Mapped[float | None]
    regions: Mapped[int]
    fields: Mapped[dict[str, str]] = mapped_column(JSON, default=dict)
    part: Mapped[str | None] = mapped_column(ID)
    """Which part it is, by the fields that differ with each."""
    first: Mapped[bool] = mapped_column(default=True)
    """Whether this part came for the first time; also where nobody knows."""
    defect: Mapped[str | None] = mapped_column(TITLE)
    """What it is called: by a person, or else by the detector."""
    defect_score: Mapped[float | None]
    label: Mapped[str | None] = mapped_column(String(8))


class TraceValue(Base):
    """A value of a field, to be searched."""

    __tablename__ = "trace_values"
    __table_args__ = (Index(None, "value", "name"), Index(None, "name"))
    inspection_id: Mapped[str] = mapped_column(ForeignKey("inspections.id"), primary_key=True)
    name: Mapped[str] = mapped_column(TITLE, primary_key=True)
    value: Mapped[str] = mapped_column(ORDERED)
    """Without upper case."""


class Detail(Base):
    """The rest of an inspection. Map and thumbnail are a few kB each, so they are committed with
    their row instead of being files of their own."""

    __tablename__ = "details"
    inspection_id: Mapped[str] = mapped_column(ForeignKey("inspections.id"), primary_key=True)
    record: Mapped[dict[str, Any]] = mapped_column(JSON)
    """As in results.jsonl."""
    drawing: Mapped[dict[str, Any]] = mapped_column(JSON)
    """What the heat map needs beside the map."""
    map: Mapped[bytes]
    thumbnail: Mapped[bytes]


class Period(Base):
    """The inspections of a product in an hour or a day, summed up for trends."""

    __tablename__ = "periods"
    product_id: Mapped[str] = mapped_column(ForeignKey("products.id"), primary_key=True)
    length: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    start: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    """Both in microseconds."""
    count: Mapped[int]
    anomalous: Mapped[int]
    unjudged: Mapped[int]
    levels: Mapped[dict[str, int]] = mapped_column(JSON)
    """How many lie in each bin (`serve/trends.py`)."""


class LabelRow(Base):
    """What a person said of an inspection."""

    __tablename__ = "labels"
    inspection_id: Mapped[str] = mapped_column(ForeignKey("inspections.id"), primary_key=True)
    product_id: Mapped[str] = mapped_column(ForeignKey("products.id"), index=True)
    kind: Mapped[str] = mapped_column(String(8))
    defect: Mapped[str | None] = mapped_column(TITLE)
    time: Mapped[int] = mapped_column(BigInteger)
    role: Mapped[str] = mapped_column(String(12))
    user: Mapped[str] = mapped_column(TITLE)
    part: Mapped[str | None] = mapped_column(HASH)
    """The hash of its pixels, if the product learnt it because of the label: as a good part, and in
    which version it did, or as an example of the defect."""
    revision: Mapped[int | None]
    x: Mapped[float | None]
    y: Mapped[float | None]
    """Where the defect is, if somebody said so."""
    older: Mapped[bool] = mapped_column(default=False)
    """Whether it was there before that: undoing what was learnt leaves the label."""


class UserRow(Base):
    """Somebody who signs in with a PIN."""

    __tablename__ = "users"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    name: Mapped[str] = mapped_column(TITLE)
    key: Mapped[str] = mapped_column(TITLE, unique=True)
    """The name without upper case: two that differ in it alone would be taken for one."""
    role: Mapped[str] = mapped_column(String(12))
    pin: Mapped[str] = mapped_column(TITLE)
    """As `serve/pins.py` keeps it."""
    created: Mapped[int] = mapped_column(BigInteger)
    changed: Mapped[int] = mapped_column(BigInteger)
    """Sessions that began before it have ended."""
    failures: Mapped[int]
    """Wrong PINs in a row."""
    locked: Mapped[int] = mapped_column(BigInteger)
    """Until when nobody can sign in as this user; 0 where somebody can."""


class AuditEntry(Base):
    """A change: who, when, what."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """Its place in the chain."""
    time: Mapped[int] = mapped_column(BigInteger)
    user: Mapped[str] = mapped_column(TITLE)
    role: Mapped[str] = mapped_column(String(12))
    client: Mapped[str] = mapped_column(String(64))
    request: Mapped[str] = mapped_column(String(64))
    action: Mapped[str] = mapped_column(String(40))
    subject: Mapped[str] = mapped_column(String(64))
    detail: Mapped[str] = mapped_column(Text)
    before: Mapped[str] = mapped_column(HASH)
    """The hash of the row before."""
    hash: Mapped[str] = mapped_column(HASH)
    """Its own, over all of the above."""
