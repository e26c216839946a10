"""What a person says of an inspection: "fine", which the product learns, or "bad"."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ..detector.detector import HyperFSAD
from ..errors import UsageError
from ..images.loading import load_image
from ..quality.evaluate import evaluate
from ..quality.test_set import GOOD, TestImage, TestSet
from .engine import Detectors
from .faults import ConflictError, MissingError
from .inspections import Inspections
from .products import Products, told
from .store.models import Image, Inspection, Label, Support
from .store.store import Actor, Store, inspection_of, note, now, product_of

FINE, BAD = "fine", "bad"


@dataclass(frozen=True)
class _Change:
    """What a label does to a product: the detector files around it."""

    before: str
    after: str
    detector: HyperFSAD
    notes: Sequence[str] = ()

    def make(self, products: Products, session: Session, product_id: str) -> None:
        """In the transaction of the label."""
        products.replace(session, product_id, self.before, self.after, self.detector, self.notes)


class Labels:
    """The labels of a store."""

    def __init__(self, store: Store, products: Products, inspections: Inspections) -> None:
        self.store, self._products, self._inspections = store, products, inspections

    def bad(self, actor: Actor, inspection_id: str, defect: str | None) -> dict[str, Any]:
        """Keeps the image as a defect whose truth is known."""
        self._inspections.original(inspection_id)
        with self.store.database.writing() as session:
            found, _, _ = inspection_of(session, inspection_id, change=True)
            _require_none(session.get(Label, inspection_id))
            found.label = BAD
            session.add(_label(found, BAD, actor, defect=defect))
            note(session, actor, "labelled bad", inspection_id, defect or "")
        return self._inspections.get(inspection_id)

    def fine(
        self, detectors: Detectors, actor: Actor, inspection_id: str, learn: bool
    ) -> dict[str, Any]:
        """Keeps the image as a good part, which the product learns unless `learn` is False."""
        path, _ = self._inspections.original(inspection_id)
        with self.store.database.reading() as session:
            found, _, product = inspection_of(session, inspection_id)
            _require_none(session.get(Label, inspection_id))
        if not learn:
            self._keep_fine(actor, inspection_id, None)
            return self._inspections.get(inspection_id)
        with self._products.changing(detectors, product.id) as (before, detector):
            count = len(detector.support_)
            with told(detector) as notes:
                detector.extend([load_image(path, found.name)])
            if len(detector.support_) == count:  # it was learnt before
                self._keep_fine(actor, inspection_id, None)
            else:
                after = self._products.saved(detector)
                self._keep_fine(actor, inspection_id, _Change(before, after, detector, notes))
        return self._inspections.get(inspection_id)

    def _keep_fine(self, actor: Actor, inspection_id: str, change: "_Change | None") -> None:
        """The label, and what the product has learnt because of it."""
        with self.store.database.writing() as session:
            found, _, product = inspection_of(session, inspection_id, change=True)
            _require_none(session.get(Label, inspection_id))
            if change is not None:
                change.make(self._products, session, product.id)
                key = {"product_id": product.id, "image": found.image}
                session.add(Support(**key, name=found.name, added=now()))
            found.label = FINE
            ends = (None, None) if change is None else (change.before, change.after)
            session.add(_label(found, FINE, actor, learnt=change is not None, ends=ends))
            told_more = "" if change is None else "learnt"
            note(session, actor, "labelled fine", inspection_id, told_more)

    def undo(self, detectors: Detectors, actor: Actor, inspection_id: str) -> dict[str, Any]:
        """Takes a label back; what was learnt because of it is forgotten.

        If nothing was learnt since, the product has the very file again that it had before.
        """
        with self.store.database.reading() as session:
            found, _, product = inspection_of(session, inspection_id)
            label = session.get(Label, inspection_id)
        if label is None:
            raise MissingError("This inspection has no label.")
        if not label.learnt or product.detector is None:
            self._take_back(actor, inspection_id, None)
            return self._inspections.get(inspection_id)
        with self._products.changing(detectors, product.id) as (current, detector):
            if label.after == current and self._is_there(label.before):
                after = label.before or ""
                detector = detectors.get(self.store.files.detector(after))
            else:
                path, _ = self._inspections.original(inspection_id)
                with told(detector):
                    detector.forget([load_image(path, found.name).sha256()])
                after = self._products.saved(detector)
            self._take_back(actor, inspection_id, _Change(current, after, detector))
        return self._inspections.get(inspection_id)

    def _take_back(self, actor: Actor, inspection_id: str, change: "_Change | None") -> None:
        with self.store.database.writing() as session:
            found, _, product = inspection_of(session, inspection_id, change=True)
            label = session.get(Label, inspection_id)
            if label is None:
                raise ConflictError("The label was taken back by somebody else meanwhile.")
            if change is not None:
                change.make(self._products, session, product.id)
                support = session.get(Support, {"product_id": product.id, "image": found.image})
                if support is not None:
                    session.delete(support)
            session.delete(label)
            found.label = None
            note(session, actor, "label undone", inspection_id, label.kind)

    def _is_there(self, detector: str | None) -> bool:
        """Whether the file is: those of changes that others followed are swept some day."""
        return detector is not None and self.store.files.detector(detector).is_file()

    def evaluated(self, detectors: Detectors, product_id: str) -> dict[str, Any]:
        """How good the verdicts are on what was labelled, as `hyperfsad evaluate` says."""
        with self.store.database.reading() as session:
            product = product_of(session, product_id)
            labelled = session.execute(
                select(Label, Inspection, Image)
                .join(Inspection, Inspection.id == Label.inspection_id)
                .join(Image, Image.sha256 == Inspection.image)
                .where(Label.product_id == product_id, Image.kept)
                .order_by(Inspection.time, Inspection.id)
            ).all()
            name, detector = product.name, self.store.files.detector(product.detector or "")
        images: dict[str, TestImage] = {}
        names: dict[str, str] = {}
        for label, inspection, image in labelled:
            path = str(self.store.files.image(image.sha256, image.suffix))
            bad = label.kind == BAD
            known = images.setdefault(
                path, TestImage(path, bad, (label.defect or BAD) if bad else GOOD, None)
            )
            if known.anomalous != bad:
                raise UsageError(f"{inspection.name} is labelled fine and bad; undo one of these.")
            names.setdefault(path, f"{inspection.name} ({inspection.id})")
        if not images:
            raise UsageError(f"No inspection of {name} has a label yet; label some.")
        truth = TestSet(tuple(images.values()))
        found = evaluate(detectors.get(detector), test_set=truth, file=f"{name}.hfsad")
        renamed: dict[str, Any] = _renamed(found.to_dict(), names)
        return renamed


def _label(
    inspection: Inspection,
    kind: str,
    actor: Actor,
    *,
    defect: str | None = None,
    learnt: bool = False,
    ends: tuple[str | None, str | None] = (None, None),
) -> Label:
    return Label(
        inspection_id=inspection.id,
        product_id=inspection.product_id,
        kind=kind,
        defect=defect,
        time=now(),
        role=actor.role,
        learnt=learnt,
        before=ends[0],
        after=ends[1],
    )


def _require_none(label: Label | None) -> None:
    if label is not None:
        raise ConflictError(f"This inspection is labelled {label.kind} already; undo that first.")


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """The same without paths of the store, which are nobody's business."""
    if isinstance(value, str):
        for path, name in names.items():
            value = value.replace(path, name)
        return value
    if isinstance(value, list | tuple):
        return [_renamed(one, names) for one in value]
    if isinstance(value, dict):
        return {key: _renamed(one, names) for key, one in value.items()}
    return value
