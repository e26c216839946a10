"""What a person says of an inspection: "fine", which the product learns, or "bad"."""

from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from ..detector.detector import HyperFSAD
from ..errors import UsageError
from ..images.loading import load_image
from ..quality.evaluate import evaluate
from ..quality.test_set import GOOD, TestImage, TestSet
from .detectors import Detectors
from .inspections import Inspections
from .products import Products, noted
from .refusals import ConflictError, MissingError
from .schemas import InspectionOut
from .store.models import Image, Inspection, LabelRow, Support, now
from .store.store import Actor, Store, audit, inspection_of, product_of

FINE, BAD = "fine", "bad"


class _Change(NamedTuple):
    """What a label does to a product: the detector files before and after it."""

    before: str
    after: str
    detector: HyperFSAD
    notes: tuple[str, ...] = ()


class Labels:
    """The labels of a store."""

    def __init__(self, store: Store, products: Products, inspections: Inspections) -> None:
        self.store, self._products, self._inspections = store, products, inspections

    def bad(self, actor: Actor, inspection_id: str, defect: str | None) -> InspectionOut:
        """Keeps the image as a known defect."""
        self._inspections.original(inspection_id)
        self._add(actor, inspection_id, BAD, defect=defect)
        return self._inspections.get(inspection_id)

    def fine(
        self, detectors: Detectors, actor: Actor, inspection_id: str, learn: bool
    ) -> InspectionOut:
        """Keeps the image as a good part, which the product learns unless `learn` is False."""
        path, _ = self._inspections.original(inspection_id)
        with self.store.database.reading() as session:
            found, _, product = inspection_of(session, inspection_id)
            _require_unlabelled(session, inspection_id)
        if not learn:
            self._add(actor, inspection_id, FINE)
            return self._inspections.get(inspection_id)
        with self._products.changing(detectors, product.id) as (before, detector):
            count = len(detector.support_)
            with noted(detector) as notes:
                detector.extend([load_image(path, found.name)])
            change = None
            if len(detector.support_) > count:  # otherwise it was learnt before
                change = _Change(before, self._products.saved(detector), detector, tuple(notes))
            self._add(actor, inspection_id, FINE, change)
        return self._inspections.get(inspection_id)

    def _add(
        self,
        actor: Actor,
        inspection_id: str,
        kind: str,
        change: _Change | None = None,
        defect: str | None = None,
    ) -> None:
        """The label, and what the product has learnt because of it."""
        with self.store.database.writing() as session:
            found, _, product = inspection_of(session, inspection_id, change=True)
            _require_unlabelled(session, inspection_id)
            if change is not None:
                self._products.replace(session, product.id, *change)
                key = {"product_id": product.id, "image": found.image}
                session.add(Support(**key, name=found.name, added=now()))
            found.label = kind
            label = LabelRow(
                inspection_id=found.id,
                product_id=found.product_id,
                kind=kind,
                defect=defect,
                time=now(),
                role=actor.role,
                learnt=change is not None,
                before=None if change is None else change.before,
                after=None if change is None else change.after,
            )
            session.add(label)
            detail = "learnt" if change is not None else defect or ""
            audit(session, actor, f"labelled {kind}", inspection_id, detail)

    def undo(self, detectors: Detectors, actor: Actor, inspection_id: str) -> InspectionOut:
        """Takes a label back; what was learnt because of it is forgotten.

        If nothing was learnt since, the product has the very file again that it had before.
        """
        with self.store.database.reading() as session:
            found, _, product = inspection_of(session, inspection_id)
            label = session.get(LabelRow, inspection_id)
        if label is None:
            raise MissingError("label-missing")
        if not label.learnt or product.detector is None:
            self._remove(actor, inspection_id, None)
            return self._inspections.get(inspection_id)
        with self._products.changing(detectors, product.id) as (current, detector):
            former = self.store.files.detector(label.before or "")
            # files of changes that others followed are swept some day
            if label.before is not None and label.after == current and former.is_file():
                after, detector = label.before, detectors.get(former)
            else:
                path, _ = self._inspections.original(inspection_id)
                with noted(detector):
                    detector.forget([load_image(path, found.name).sha256()])
                after = self._products.saved(detector)
            self._remove(actor, inspection_id, _Change(current, after, detector))
        return self._inspections.get(inspection_id)

    def _remove(self, actor: Actor, inspection_id: str, change: _Change | None) -> None:
        with self.store.database.writing() as session:
            found, _, product = inspection_of(session, inspection_id, change=True)
            label = session.get(LabelRow, inspection_id)
            if label is None:
                raise ConflictError("label-removed")
            if change is not None:
                self._products.replace(session, product.id, *change)
                support = session.get(Support, {"product_id": product.id, "image": found.image})
                if support is not None:
                    session.delete(support)
            session.delete(label)
            found.label = None
            audit(session, actor, "label undone", inspection_id, label.kind)

    def evaluate(self, detectors: Detectors, product_id: str) -> dict[str, Any]:
        """How good the verdicts are on what was labelled, as `hyperfsad evaluate` says."""
        with self.store.database.reading() as session:
            product = product_of(session, product_id)
            labelled = session.execute(
                select(LabelRow, Inspection, Image)
                .join(Inspection, Inspection.id == LabelRow.inspection_id)
                .join(Image, Image.sha256 == Inspection.image)
                .where(LabelRow.product_id == product_id, Image.kept)
                .order_by(Inspection.time, Inspection.id)
            ).all()
            name, detector = product.name, self.store.files.detector(product.detector or "")
        images: dict[str, TestImage] = {}
        for label, inspection, image in labelled:
            path = str(self.store.files.image(image.sha256, image.suffix))
            bad = label.kind == BAD
            kind = (label.defect or BAD) if bad else GOOD
            shown = f"{inspection.name} ({inspection.id})"
            known = images.setdefault(path, TestImage(path, bad, kind, None, shown))
            if known.anomalous != bad:
                raise UsageError("labels-contradict", image=inspection.name)
        if not images:
            raise UsageError("labels-missing", product=name)
        test_set = TestSet(tuple(images.values()))
        found = evaluate(detectors.get(detector), test_set=test_set, file=f"{name}.hfsad")
        return found.to_dict()


def _require_unlabelled(session: Session, inspection_id: str) -> None:
    label = session.get(LabelRow, inspection_id)
    if label is not None:
        raise ConflictError("label-known", label=label.kind)
