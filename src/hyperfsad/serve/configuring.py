"""Other settings for a product: what they would change, and the change itself.

Settings say how parts are looked at, so the product learns its good parts again, from their kept
pictures; where it had learnt from the line, those parts too. A trial judges the latest parts under
the new settings and changes nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from ..decisions.masks import make_mask
from ..decisions.roi import Roi
from ..decisions.thresholds import FALSE_ALARM_RATE
from ..detector.detector import HyperFSAD
from ..images.loading import LoadedImage, load_image
from .engine import Detectors
from .naming import learn_name
from .products import Products, noted, shown_product
from .refusals import ConflictError
from .schemas import InspectionRow, ProductOut, ProductSettings, Shape, TrialOut, TrialWanted
from .store.audit import Actor, audit
from .store.history import Filter, place, rows_of
from .store.models import Image, Inspection, LabelRow, ProductRow, Support
from .store.store import Store, product_of

LINE_PART = re.compile(r"\(([0-9a-f]{32})\)$")
"""How an unlabelled part that was learnt names its inspection."""


@dataclass(frozen=True)
class Configured:
    """A detector of the same good parts with other settings."""

    before: str
    wanted: str
    detector: HyperFSAD
    notes: list[Any]


class Configuring:
    """Settings of the products of a store; all that learns runs in the engine's thread."""

    def __init__(self, store: Store, products: Products) -> None:
        self.store, self._products = store, products
        self._latest: Configured | None = None

    def try_out(self, detectors: Detectors, product_id: str, wanted: TrialWanted) -> TrialOut:
        """What would change; some of the latest parts at a time, so that inspections go between."""
        with self.store.database.reading() as session:
            product = product_of(session, product_id)
            query = (
                Filter(product_id)
                .query()
                .add_columns(Image.suffix)
                .join(Image, Image.sha256 == Inspection.image)
                .where(Image.kept)
                .order_by(Inspection.number.desc())
            )
            if wanted.cursor is not None:
                query = query.where(Inspection.number < place(wanted.cursor))
            rows = session.execute(query.limit(wanted.parts + 1)).all()
        found = self._configured(detectors, product, wanted.settings)
        more, rows = len(rows) > wanted.parts, rows[: wanted.parts]
        paths = [self.store.files.image(row.image, row.suffix) for row in rows]
        results = list(found.detector.predict_many(list(map(str, paths)))) if paths else []
        verdicts = [result.anomalous if result.error is None else None for result in results]
        shown = list(zip(rows_of(rows), verdicts, strict=True))
        return TrialOut(
            threshold=product.summary["threshold"],
            new_threshold=found.detector.threshold_,
            threshold_from=found.detector.threshold_from_,
            inspected=found.detector.view_.region.share,
            parts=len(shown),
            anomalous=sum(new is True for _, new in shown),
            unjudged=sum(new is None for _, new in shown),
            passing=_changed(shown, "anomalous", False),
            failing=_changed(shown, "good", True),
            next=str(rows[-1].number) if more else None,
        )

    def configure(
        self, detectors: Detectors, actor: Actor, product_id: str, wanted: ProductSettings
    ) -> ProductOut:
        """Looks at parts with these settings from here on; that is a new version."""
        with self._products.changing(detectors, product_id) as change:
            with self.store.database.reading() as session:
                product = product_of(session, product_id)
            found = self._configured(detectors, product, wanted)
            change.detector, change.notes = found.detector, found.notes
            change.after = self._products.saved(found.detector)
            names = ", ".join(sorted(wanted.model_fields_set))
            with self.store.database.writing() as session:
                product = self._products.replace(session, change, actor, "configured", names)
                region = found.detector.view_.region
                if isinstance(region, Roi) and isinstance(wanted.region, list):
                    product.shapes = {**product.shapes, region.described()["sha256"]: wanted.region}
                audit(session, actor, "product configured", product_id, names)
                self._latest = None
                return shown_product(product)

    def _configured(
        self, detectors: Detectors, product: ProductRow, wanted: ProductSettings
    ) -> Configured:
        """The detector with these settings; the latest is kept, since one that was tried is often
        applied."""
        before, key = product.detector or "", wanted.model_dump_json(exclude_unset=True)
        known = self._latest
        if known is not None and (known.before, known.wanted) == (before, key):
            return known
        self._latest = None  # first: it may be large
        old = detectors.get(self.store.files.detector(before))
        rate = FALSE_ALARM_RATE if old.calibration_ is None else old.calibration_.rate
        detector = detectors.of(old.settings.changed(**_choices(old, wanted)))
        pictures = self._good_parts(product.id, old)
        with noted(detector) as notes:
            detector.fit(pictures, false_alarm_rate=wanted.false_alarm_rate or rate)
            if not detector.tile_side_ and (line := self._line_parts(old)):
                detector.adapt(line)
            self._name(product.id, old, detector)
        self._latest = Configured(before, key, detector, notes)
        return self._latest

    def _good_parts(self, product_id: str, old: HyperFSAD) -> Iterator[LoadedImage]:
        with self.store.database.reading() as session:
            query = select(Support.part, Image).join(Image, Image.sha256 == Support.image)
            found = session.execute(query.where(Support.product_id == product_id)).all()
            paths = {part: self.store.files.image(one.sha256, one.suffix) for part, one in found}
        missing = [one.name for one in old.support_ if not _is_there(paths.get(one.sha256))]
        if missing:
            raise ConflictError("settings-need-pictures", names=missing)
        return (load_image(paths[one.sha256], one.name) for one in old.support_)

    def _line_parts(self, old: HyperFSAD) -> list[LoadedImage]:
        """The unlabelled parts that it had learnt, as far as their pictures are kept."""
        found = []
        for image in () if old.unlabelled_ is None else old.unlabelled_.images:
            named = LINE_PART.search(image.name)
            path = self._picture(named[1]) if named else None
            if path is not None:
                found.append(load_image(path, image.name))
        return found

    def _picture(self, inspection_id: str) -> Path | None:
        with self.store.database.reading() as session:
            query = select(Image).join(Inspection, Inspection.image == Image.sha256)
            image = session.scalar(query.where(Inspection.id == inspection_id, Image.kept))
        if image is None:
            return None
        path = self.store.files.image(image.sha256, image.suffix)
        return path if path.is_file() else None

    def _name(self, product_id: str, old: HyperFSAD, detector: HyperFSAD) -> None:
        """Keeps the names of defects; where tokens are others now, from the labelled parts."""
        if detector.tile_side_ or not old.defects_.examples:
            return
        if detector.encoding_ == old.encoding_:
            detector.name_by(old.defects_)
            return
        with self.store.database.reading() as session:
            query = select(LabelRow).where(
                LabelRow.product_id == product_id, LabelRow.defect.is_not(None)
            )
            labels = list(session.scalars(query.order_by(LabelRow.time)))
        known = {example.sha256 for example in old.defects_.examples}
        for label in labels:
            path = self._picture(label.inspection_id) if label.part in known else None
            if path is not None and label.defect is not None:
                at = None if label.x is None or label.y is None else (label.x, label.y)
                learn_name(detector, load_image(path), label.defect, at, None)


def _choices(old: HyperFSAD, wanted: ProductSettings) -> dict[str, Any]:
    """The settings that were asked for, as a detector takes them; the others stay."""
    fields = wanted.model_fields_set - {"false_alarm_rate", "region"}
    choices = {name: getattr(wanted, name) for name in fields}
    if choices.get("tiles"):
        choices.setdefault("rotations", 1)
    if "region" in wanted.model_fields_set:
        region = wanted.region
        choices["roi"] = _drawn(region, old) if isinstance(region, list) else region
    return choices


def _drawn(shapes: Sequence[Shape], old: HyperFSAD) -> NDArray[np.uint8]:
    """All that the shapes enclose, in pixels of the first good part."""
    size = old.support_[0].size
    if size is None:
        raise ConflictError("settings-need-pictures", names=[old.support_[0].name])
    corners = [[(x * size[0], y * size[1]) for x, y in shape] for shape in shapes]
    inside: NDArray[np.bool_] = np.any([make_mask(shape, size) for shape in corners], axis=0)
    mask: NDArray[np.uint8] = inside.astype(np.uint8) * np.uint8(255)
    return mask


def _is_there(path: Path | None) -> bool:
    return path is not None and path.is_file()


def _changed(
    shown: Sequence[tuple[InspectionRow, bool | None]], before: str, now: bool
) -> list[InspectionRow]:
    return [row for row, new in shown if row.verdict == before and new is now]
