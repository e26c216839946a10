"""What a person says of an inspection: "fine", which the product learns, or "bad", perhaps with the
name of its defect, by which the product names others like it."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ..decisions.defects import defect_name
from ..errors import UsageError
from ..images.loading import load_image
from ..quality.evaluate import evaluate
from ..quality.test_set import GOOD, TestImage, TestSet
from .engine import Detectors
from .inspections import Inspections
from .naming import learn_name
from .products import Change, Products, add_part
from .refusals import ConflictError, ForbiddenError, MissingError
from .schemas import InspectionOut
from .settings import ADMIN
from .store.audit import Actor, audit
from .store.models import Image, Inspection, LabelRow, now
from .store.store import Store, inspection_of, product_of

FINE, BAD = "fine", "bad"


class Labels:
    """The labels of a store."""

    def __init__(self, store: Store, products: Products, inspections: Inspections) -> None:
        self.store, self._products, self._inspections = store, products, inspections

    def bad(self, actor: Actor, inspection_id: str) -> InspectionOut:
        self._inspections.original(inspection_id)
        return self._add(actor, inspection_id, BAD)

    def name(
        self,
        detectors: Detectors,
        actor: Actor,
        inspection_id: str,
        defect: str,
        at: tuple[float, float] | None,
    ) -> InspectionOut:
        """Keeps the part as bad, under the name of its defect. The product learns it as an example,
        unless it has enough of them and named this one right."""
        path, _ = self._inspections.original(inspection_id)
        defect = defect_name(defect)
        with self.store.database.reading() as session:
            found, detail, product = inspection_of(session, inspection_id)
            _require_bad(session, inspection_id)
        if product.detector is None:
            raise MissingError("product-deleted", product=product.name)
        image = load_image(path, found.name)
        known = detail.record["defect"]
        with self._products.changing(detectors, product.id) as change:
            part = learn_name(change.detector, image, defect, at, known)
            change.after = self._products.saved(change.detector)
            with self.store.database.writing() as session:
                found, _, _ = inspection_of(session, inspection_id, change=True)
                label = _require_bad(session, inspection_id)
                if label is None:
                    label = LabelRow(inspection_id=found.id, product_id=found.product_id, kind=BAD)
                    session.add(label)
                label.defect, label.part, label.time = defect, part, now()
                label.role, label.user = actor.role, actor.user
                label.x, label.y = at or (None, None)
                found.label, found.defect, found.defect_score = BAD, defect, None
                self._products.rename_defects(session, change)
                audit(session, actor, "labelled bad", inspection_id, defect)
        return self._inspections.get(inspection_id)

    def fine(
        self,
        detectors: Detectors,
        actor: Actor,
        inspection_id: str,
        *,
        learn: bool,
        confirm: bool = False,
    ) -> InspectionOut:
        """Keeps the image as a good part, which the product learns unless `learn` is False; a
        doubtful one has to be confirmed."""
        path, _ = self._inspections.original(inspection_id)
        with self.store.database.reading() as session:
            found, _, product = inspection_of(session, inspection_id)
            _require_unlabelled(session, inspection_id, learn)
        if not learn:
            return self._add(actor, inspection_id, FINE)
        with self._products.changing(detectors, product.id) as change:
            image = load_image(path, found.name)
            if not self._products.learn(detectors, change, iter([image]), confirm):  # it is known
                return self._add(actor, inspection_id, FINE)
            return self._add(actor, inspection_id, FINE, change, image.sha256())

    def _add(
        self,
        actor: Actor,
        inspection_id: str,
        kind: str,
        change: Change | None = None,
        part: str = "",
    ) -> InspectionOut:
        with self.store.database.writing() as session:
            found, _, _ = inspection_of(session, inspection_id, change=True)
            label = _require_unlabelled(session, inspection_id, change is not None)
            if label is None:
                label = LabelRow(inspection_id=found.id, product_id=found.product_id, kind=kind)
                label.time, label.role, label.user = now(), actor.role, actor.user
                session.add(label)
            else:
                label.older = True
            if change is not None:
                product = self._products.replace(session, change, actor, "taught", found.name)
                add_part(session, product.id, part, found.image)
                label.part, label.revision = part, product.revision
            found.label = kind
            if kind == FINE:
                found.defect = found.defect_score = None
            detail = "learnt" if change is not None else ""
            audit(session, actor, f"labelled {kind}", inspection_id, detail)
        return self._inspections.get(inspection_id)

    def undo(self, detectors: Detectors, actor: Actor, inspection_id: str) -> InspectionOut:
        """Takes a label back; what was learnt because of it is forgotten.

        If nothing was learnt since, the product has the very file again that it had before.
        """
        with self.store.database.reading() as session:
            _, _, product = inspection_of(session, inspection_id)
            label = session.get(LabelRow, inspection_id)
        if product.detector is None or (label is not None and label.part is None):
            return self._remove(actor, inspection_id)
        with self._products.changing(detectors, product.id) as change:
            with self.store.database.reading() as session:  # another station may have learnt it
                label = session.get(LabelRow, inspection_id)
                latest = product_of(session, product.id).revision
            if label is None:
                raise MissingError("label-missing")
            if label.kind == BAD:
                return self._unname(actor, change, label)
            if label.part not in {image.sha256 for image in change.detector.support_}:
                return self._remove(actor, inspection_id)  # it was removed since
            if actor.role != ADMIN:
                raise ForbiddenError("forgetting-needs-admin")
            last = label.revision == latest
            if not (last and self._products.bring_back(detectors, change, latest - 1)):
                change.detector.forget([label.part])
                change.after, change.notes = self._products.saved(change.detector), []
            return self._remove(actor, inspection_id, change)

    def _unname(self, actor: Actor, change: Change, label: LabelRow) -> InspectionOut:
        """Forgets an example of a defect; what another inspection of the same picture was called
        counts again."""
        defects = change.detector.defects_.without_example(label.part or "")
        change.detector.name_by(defects)
        with self.store.database.reading() as session:
            same = select(LabelRow).where(
                LabelRow.product_id == label.product_id,
                LabelRow.part == label.part,
                LabelRow.kind == BAD,
                LabelRow.inspection_id != label.inspection_id,
            )
            other = session.scalar(same.order_by(LabelRow.time.desc()).limit(1))
        if other is not None and other.defect is not None:
            path, _ = self._inspections.original(other.inspection_id)
            at = None if other.x is None or other.y is None else (other.x, other.y)
            learn_name(change.detector, load_image(path), other.defect, at, None)
        change.after = self._products.saved(change.detector)
        return self._remove(actor, label.inspection_id, change)

    def _remove(
        self, actor: Actor, inspection_id: str, change: Change | None = None
    ) -> InspectionOut:
        with self.store.database.writing() as session:
            found, detail, _ = inspection_of(session, inspection_id, change=True)
            label = session.get(LabelRow, inspection_id)
            if label is None:
                raise MissingError("label-missing")
            if change is not None and label.kind == BAD:
                self._products.rename_defects(session, change)
            elif change is not None:
                self._products.replace(session, change, actor, "undone", found.name)
            if change is not None and label.older:
                label.part = label.revision = None
            else:
                session.delete(label)
                found.label = None
                found.defect = detail.record["defect"]
                found.defect_score = detail.record["defect_score"]
            audit(session, actor, "label undone", inspection_id, label.kind)
        return self._inspections.get(inspection_id)

    def evaluate(self, detectors: Detectors, product_id: str) -> dict[str, Any]:
        """How good the verdicts are on what was labelled, as `hyperfsad evaluate` says."""
        with self.store.database.reading() as session:
            product = product_of(session, product_id)
            labelled = session.execute(
                select(LabelRow, Inspection, Image)
                .join(Inspection, Inspection.id == LabelRow.inspection_id)
                .join(Image, Image.sha256 == Inspection.image)
                .where(LabelRow.product_id == product_id, Image.kept)
                .order_by(Inspection.number)
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


def _require_bad(session: Session, inspection_id: str) -> LabelRow | None:
    """The label that is there, if a name may go with it."""
    label = session.get(LabelRow, inspection_id)
    if label is not None and label.kind != BAD:
        raise ConflictError("label-known", label=label.kind)
    return label


def _require_unlabelled(session: Session, inspection_id: str, learn: bool) -> LabelRow | None:
    """The label that is there, if it may be: what somebody called fine can be learnt later."""
    label = session.get(LabelRow, inspection_id)
    if label is not None and not (learn and label.kind == FINE):
        raise ConflictError("label-known", label=label.kind)
    return label
