"""What teaching would change: asked before a part is learnt that does not look like a good one."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from ..decisions.thresholds import level_of
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
        level=max((level for _, level in anomalous), default=None),
        foreign=bool(foreign),
        threshold=before.threshold_,
        new_threshold=after.threshold_,
        inspections=len(changes),
        changed=sum(old != new for old, new in changes),
        passing=sum(old is True and new is False for old, new in changes),
    )


def _recent(session: Session, product_id: str) -> "Sequence[Row[Any]]":
    query = (
        select(Inspection.score, Detail.record["map_peak"].as_float().label("map_peak"))
        .join(Detail, Detail.inspection_id == Inspection.id)
        .where(Inspection.product_id == product_id)
        .order_by(Inspection.number.desc())
        .limit(PAST_VERDICTS)
    )
    return session.execute(query).all()


def _judged(one: "Row[Any]", detector: HyperFSAD) -> bool | None:
    """Whether a part with these figures is anomalous against the thresholds of a detector."""
    if detector.threshold_ is None:
        return None
    return level_of(one.score, detector.threshold_, one.map_peak, detector.map_threshold_) > 1
