"""What teaching would change: asked before a part is learnt that does not look like a good one."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from ..detector.detector import HyperFSAD
from ..messages import Notice
from .refusals import ConflictError
from .store.models import Detail, Inspection

PAST_VERDICTS = 500
"""The latest inspections whose verdicts are given again."""


def require_no_doubt(
    session: Session, product_id: str, before: HyperFSAD, after: HyperFSAD, notes: Sequence[str]
) -> None:
    """Refuses parts that the product called anomalous or foreign until now, by what it noticed
    while it learnt them. The facts tell what learning them would change."""
    noticed = {note.code: note.facts for note in notes if isinstance(note, Notice)}
    anomalous = noticed.get("good-parts-were-anomalous", {}).get("parts", [])
    foreign = noticed.get("good-parts-foreign", {}).get("names", [])
    if not anomalous and not foreign:
        return
    scores = _recent(session, product_id)
    changes = [(_judged(one, before), _judged(one, after)) for one in scores]
    raise ConflictError(
        "teaching-unconfirmed",
        names=[name for name, _ in anomalous] or foreign,
        times=max((level for _, level in anomalous), default=None),
        foreign=bool(foreign),
        threshold=before.threshold_,
        new_threshold=after.threshold_,
        inspections=len(changes),
        changed=sum(old != new for old, new in changes),
        passing=sum(old is True and new is False for old, new in changes),
    )


def _recent(session: Session, product_id: str) -> "Sequence[Row[Any]]":
    columns = Inspection.score, Inspection.threshold, Inspection.strength
    query = (
        select(*columns, Detail.record["map_threshold"].as_float().label("map_threshold"))
        .join(Detail, Detail.inspection_id == Inspection.id)
        .where(Inspection.product_id == product_id)
        .order_by(Inspection.number.desc())
        .limit(PAST_VERDICTS)
    )
    return session.execute(query).all()


def _judged(one: "Row[Any]", detector: HyperFSAD) -> bool | None:
    """Whether a part with these scores is anomalous against the thresholds of a detector."""
    threshold, map_threshold = detector.threshold_, detector.map_threshold_
    if not threshold:
        return None
    if one.score > threshold:
        return True
    if not one.threshold or not one.map_threshold or not one.strength or not map_threshold:
        return False
    by_map = one.strength > (1 + 1e-6) * one.score / one.threshold  # the larger ratio is the map's
    return bool(by_map and one.strength * one.map_threshold > map_threshold)
