"""Fields of one's own, such as serial, lot and order: how they are defined, and where values come
from: typed or scanned, given by the API, or read from the name of the file.

A pattern for names has no alternatives and no repetition, so to read a name takes one pass over it,
whatever somebody has typed: `{serial}_{lot}_*` is all there is.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ..errors import UsageError
from ..wording import visible
from .schemas import InspectionRow, TraceField
from .store.models import Inspection, ProductRow, TraceValue

MOST_FIELDS, LONGEST_FIELD, LONGEST_VALUE, LONGEST_PATTERN = 12, 30, 100, 200
ANYTHING = "*"
_PIECES = re.compile(r"\{([^{}]*)\}|(\*)|([^{}*]+)|([{}])")


def checked_fields(fields: Sequence[TraceField]) -> list[dict[str, Any]]:
    """Fields as they are kept; names go into patterns and become columns of tables."""
    found = [one.model_copy(update={"name": " ".join(one.name.split())}) for one in fields]
    for one in found:
        usable = one.name.isprintable() and not set(one.name) & set("{}*")
        if not (usable and 0 < len(one.name) <= LONGEST_FIELD):
            raise UsageError("trace-field-name", name=one.name[:LONGEST_FIELD])
        if one.name in InspectionRow.model_fields:
            raise UsageError("trace-field-taken", name=one.name)
    if len(found) > MOST_FIELDS or len({one.name.casefold() for one in found}) < len(found):
        raise UsageError("trace-fields-many", most=MOST_FIELDS)
    return [one.model_dump() for one in found]


def checked_pattern(pattern: str, names: Sequence[str]) -> str:
    """A pattern that can be read in one way only, or nothing."""
    pattern = pattern.strip()
    before = ""
    seen: set[str] = set()
    for piece in _PIECES.finditer(pattern):
        name, anything, _, brace = piece.groups()
        if brace or len(pattern) > LONGEST_PATTERN:
            raise UsageError("trace-pattern-damaged", pattern=pattern[:LONGEST_PATTERN])
        if name is not None and (name not in names or name in seen):
            raise UsageError("trace-pattern-field", name=name[:LONGEST_FIELD])
        if (name is not None or anything) and before == "open":  # where would one end?
            raise UsageError("trace-pattern-joined", pattern=pattern)
        seen |= set() if name is None else {name}
        before = "open" if name is not None or anything else "text"
    return pattern


def read_name(pattern: str, name: str) -> dict[str, str]:
    """The values in the name of a file, without its ending; none where it does not fit.

    Each placeholder reaches to the first occurrence of the text that follows it, the last one to
    the end.
    """
    stem = name.rsplit(".", 1)[0] if "." in name[1:] else name
    found: dict[str, str] = {}
    place = 0
    waiting: str | None = None  # a placeholder, or ANYTHING, whose end is sought
    pieces = [piece.groups() for piece in _PIECES.finditer(pattern)]
    for last, (field, anything, text, _) in enumerate(pieces, 1 - len(pieces)):
        if text is None:
            waiting = ANYTHING if anything else field
            continue
        end = place if waiting is None else stem.find(text, place)
        if waiting is not None and not last:
            end = len(stem) - len(text)  # the end of the name
        if end < place or not stem.startswith(text, end):
            return {}
        if waiting is not None:
            found[waiting] = stem[place:end]
        place, waiting = end + len(text), None
    if waiting is not None:
        found[waiting], place = stem[place:], len(stem)
    found.pop(ANYTHING, None)
    whole = bool(pieces) and place == len(stem) and all(found.values())
    return {field: clean_value(value) for field, value in found.items()} if whole else {}


def clean_value(value: str) -> str:
    """As it is kept: readers send signs that nobody sees."""
    return visible(" ".join(value.split()))[:LONGEST_VALUE]


def given_values(product: ProductRow, text: str) -> dict[str, str]:
    """The values that a client sends as JSON."""
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise UsageError("trace-values-damaged")
    names = {one["name"] for one in product.fields}
    for name, value in found.items():
        if name not in names:
            raise UsageError("trace-field-unknown", name=name[:40], product=product.name)
        if len(value) > LONGEST_VALUE:
            raise UsageError("trace-value-long", name=name, longest=LONGEST_VALUE)
    return {name: clean_value(value) for name, value in found.items() if value.strip()}


def trace(
    session: Session, product: ProductRow, rows: Sequence[Inspection], given: Mapping[str, str]
) -> list[TraceValue]:
    """Fills in the fields of new inspections: what was given comes before what the name says.

    A part that was inspected before, by the fields that differ with each part, is noted as such;
    pictures that come together do not count as each other's repetition.
    """
    names = [one["name"] for one in product.fields]
    single = [one["name"] for one in product.fields if one["each_part"]]
    values: list[TraceValue] = []
    for row in rows:
        found = {**read_name(product.name_pattern, row.name), **given}
        row.fields = {name: found[name] for name in names if name in found}
        own = [(name, row.fields[name]) for name in single if name in row.fields]
        row.part = hashlib.sha256(json.dumps(own).encode()).hexdigest()[:32] if own else None
        row.first = row.part is None or not _known(session, product.id, row.part)
        values += [
            TraceValue(inspection_id=row.id, name=name, value=value.casefold())
            for name, value in row.fields.items()
        ]
    return values


def _known(session: Session, product_id: str, part: str) -> bool:
    own = Inspection.product_id == product_id, Inspection.part == part
    with session.no_autoflush:
        return session.scalar(select(Inspection.id).where(*own).limit(1)) is not None
