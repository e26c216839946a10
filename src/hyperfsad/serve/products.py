"""What can be done with products. All that changes a detector runs in the engine's thread."""

import base64
import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import delete, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ..detector.detector import HyperFSAD
from ..errors import DetectorFileError, UsageError
from ..images.loading import LoadedImage, drawn_image
from ..messages import silent
from ..results.heatmap import thumbnail
from .engine import Detectors
from .memory import room_for
from .monitoring import gathered
from .pictures import Picture, Upload
from .refusals import ConflictError, GoneError, MissingError, public, station_text
from .schemas import GoodPart, ProductOut
from .store.models import Image, ProductRow, Support, insert, now
from .store.store import Actor, Store, add_images, audit, new_id, product_of
from .teaching import require_no_doubt

THUMBNAIL_SOURCE = 1 << 20
"""Pixels of the picture that a thumbnail is made from."""


@dataclass
class Change:
    """What a product learns or forgets: its detector files before and after it."""

    product_id: str
    before: str
    detector: HyperFSAD
    notes: list[str]
    after: str = ""


class Products:
    """The products of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def all(self) -> list[ProductOut]:
        """The living products by name."""
        with self.store.database.reading() as session:
            living = select(ProductRow).where(ProductRow.detector.is_not(None))
            return list(map(shown_product, session.scalars(living.order_by(ProductRow.name))))

    def get(self, product_id: str) -> ProductOut:
        with self.store.database.reading() as session:
            return shown_product(product_of(session, product_id))

    def find(self, name: str) -> str:
        """The id of the living product of a name or an id."""
        with self.store.database.reading() as session:
            same = or_(ProductRow.claimed == name, ProductRow.id == name)
            query = select(ProductRow.id).where(ProductRow.detector.is_not(None), same)
            found = session.scalar(query.order_by(ProductRow.claimed != name))
        if found is None:
            raise MissingError("product-not-made", product=name)
        return found

    def detector(self, product_id: str) -> tuple[str, Path, int]:
        """The name, the detector file and the revision of a product."""
        with self.store.database.reading() as session:
            product = product_of(session, product_id)
            return product.name, self.store.files.detector(product.detector or ""), product.revision

    def create(
        self,
        detectors: Detectors,
        actor: Actor,
        name: str,
        pictures: Sequence[Picture],
        rate: float,
    ) -> ProductOut:
        self._require_free(name)
        detector = detectors.unfitted.unfitted()
        with noted(detector) as notes:
            detector.fit(loaded(pictures), false_alarm_rate=rate)
        return self._add(actor, "product created", name, detector, notes, pictures)

    def upload(self, detectors: Detectors, actor: Actor, name: str, upload: Upload) -> ProductOut:
        self._require_free(name)
        try:
            detector = detectors.load(upload.path)
        except (DetectorFileError, UsageError) as error:  # the client knows it by another name
            raise public(error, {str(upload.path): upload.name}) from error
        return self._add(actor, "product uploaded", name, detector)

    def _add(
        self,
        actor: Actor,
        action: str,
        name: str,
        detector: HyperFSAD,
        notes: Sequence[str] = (),
        pictures: Sequence[Picture] = (),
    ) -> ProductOut:
        after = self.saved(detector)
        self._keep_images(pictures)
        own = {"name": name, "claimed": name, "revision": 1, "created": now(), "changed": now()}
        summary = summary_of(detector, notes)
        product = ProductRow(id=new_id(), detector=after, summary=summary, **own)
        with _claiming(name), self.store.database.writing() as session:
            session.add(product)
            session.flush()
            _add_support(session, product.id, pictures)
            audit(session, actor, action, product.id, name)
            return shown_product(product)

    def extend(
        self,
        detectors: Detectors,
        actor: Actor,
        product_id: str,
        pictures: Sequence[Picture],
        *,
        confirm: bool,
    ) -> ProductOut:
        with self.changing(detectors, product_id) as change:
            if not self.learn(detectors, change, loaded(pictures), confirm):
                raise ConflictError("images-known")
            self._keep_images(pictures)
            with self.store.database.writing() as session:
                product = self.replace(session, change)
                _add_support(session, product_id, pictures)
                audit(session, actor, "product extended", product_id, f"{len(pictures)} images")
                return shown_product(product)

    def recalibrate(
        self,
        detectors: Detectors,
        actor: Actor,
        product_id: str,
        pictures: Sequence[Picture],
        *,
        rate: float,
        threshold: float | None = None,
    ) -> ProductOut:
        """New thresholds: from further good parts, from those that were learnt, or by hand."""
        with self.changing(detectors, product_id) as change:
            if threshold is None:
                images = loaded(pictures) if pictures else None
                change.detector.calibrate(images, false_alarm_rate=rate)
            else:
                change.detector.move_threshold(threshold)
            change.after = self.saved(change.detector)
            with self.store.database.writing() as session:
                product = self.replace(session, change)
                detail = f"threshold {change.detector.threshold_}"
                audit(session, actor, "product recalibrated", product_id, detail)
                return shown_product(product)

    def rename(self, actor: Actor, product_id: str, name: str) -> ProductOut:
        with _claiming(name), self.store.database.writing() as session:
            product = product_of(session, product_id, change=True)
            audit(session, actor, "product renamed", product_id, f"{product.name} → {name}")
            product.name = product.claimed = name
            product.changed = now()
            session.flush()
            return shown_product(product)

    def delete(self, actor: Actor, product_id: str) -> None:
        """Deletes a product; its inspections stay in the history."""
        with self.store.database.writing() as session:
            product = product_of(session, product_id, change=True)
            audit(session, actor, "product deleted", product_id, product.name)
            session.execute(delete(Support).where(Support.product_id == product_id))
            self.store.files.spare(product.detector or "")
            product.claimed = product.detector = None
            product.changed = now()

    def good_parts(self, product_id: str) -> list[GoodPart]:
        """The pictures that the station has; a detector file that was uploaded has none."""
        with self.store.database.reading() as session:
            product_of(session, product_id)
            query = select(Support).where(Support.product_id == product_id)
            found = session.scalars(query.order_by(Support.added, Support.name))
            return list(map(GoodPart.model_validate, found))

    def good_part(self, product_id: str, image: str) -> bytes:
        with self.store.database.reading() as session:
            product_of(session, product_id)
            if session.get(Support, {"product_id": product_id, "image": image}) is None:
                raise MissingError("good-part-unknown")
            found = session.get_one(Image, image)
            path = self.store.files.image(found.sha256, found.suffix)
        if not path.is_file():
            raise GoneError("original-gone")
        with room_for(path, image, drawn=THUMBNAIL_SOURCE):
            small = drawn_image(os.fspath(path), image, THUMBNAIL_SOURCE)
            return base64.b64decode(thumbnail(small.rgb()))

    @contextlib.contextmanager
    def changing(self, detectors: Detectors, product_id: str) -> Iterator[Change]:
        """A copy of a product's detector to change; other stations wait until that is done."""
        with self.store.database.alone(product_id):
            with self.store.database.reading() as session:
                before = product_of(session, product_id).detector or ""
            detector = detectors.copy(self.store.files.detector(before))
            with noted(detector) as notes:
                yield Change(product_id, before, detector, notes)

    def learn(
        self, detectors: Detectors, change: Change, images: Iterator[LoadedImage], confirm: bool
    ) -> bool:
        """Learns good parts; returns whether any was new. Doubtful ones have to be confirmed."""
        before = detectors.get(self.store.files.detector(change.before))
        change.detector.extend(images)
        if len(change.detector.support_) == len(before.support_):
            return False
        if not confirm:
            with self.store.database.reading() as session:
                parts = before, change.detector, change.notes
                require_no_doubt(session, change.product_id, *parts)
        change.after = self.saved(change.detector)
        return True

    def saved(self, detector: HyperFSAD) -> str:
        """Writes a detector file to its place; returns its hash."""
        self.store.files.check_space()
        scratch = self.store.files.upload()
        try:
            detector.save(scratch)
            return self.store.files.keep_detector(scratch)
        finally:
            scratch.unlink(missing_ok=True)

    def replace(self, session: Session, change: Change) -> ProductRow:
        """Makes another detector file the current one, if no other process did so meanwhile."""
        product = product_of(session, change.product_id, change=True)
        if product.detector != change.before:
            raise ConflictError("product-changed", product=product.name)
        self.store.files.spare(change.before)
        product.detector = change.after
        product.summary = summary_of(change.detector, change.notes)
        product.revision += 1
        product.changed = now()
        return product

    def _keep_images(self, pictures: Sequence[Picture]) -> None:
        for picture in pictures:
            target = self.store.files.image(picture.upload.sha256, picture.suffix)
            self.store.files.keep(picture.upload.path, target)

    def _require_free(self, name: str) -> None:
        """Refuses a name that is taken before any work is done."""
        with self.store.database.reading() as session:
            if session.scalar(select(ProductRow.id).where(ProductRow.claimed == name)) is not None:
                raise ConflictError("product-name-taken", product=name)


@contextlib.contextmanager
def _claiming(name: str) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise ConflictError("product-name-taken", product=name) from error


def _add_support(session: Session, product_id: str, pictures: Sequence[Picture]) -> None:
    add_images(session, [picture.row() for picture in pictures])
    for picture in pictures:
        own = {"product_id": product_id, "image": picture.upload.sha256}
        row = insert(session, Support).values(**own, name=picture.name, added=now())
        session.execute(row.on_conflict_do_nothing())


@contextlib.contextmanager
def noted(detector: HyperFSAD) -> Iterator[list[str]]:
    """What a detector reports while it learns, as notes for the answer."""
    with gathered() as notes:
        detector.notify = notes.append
        try:
            yield notes
        finally:
            detector.notify = silent


def loaded(pictures: Sequence[Picture]) -> Iterator[LoadedImage]:
    return (picture.load() for picture in pictures)


def shown_product(product: ProductRow) -> ProductOut:
    own = {name: getattr(product, name) for name in ("id", "name", "created", "changed")}
    return ProductOut(revision=product.revision, **own, **product.summary)


def product_name(text: str) -> str:
    """A name that a person gave."""
    name = " ".join(text.split())
    if not name or len(name) > 100 or not name.isprintable():
        raise UsageError("product-name-invalid")
    return name


def summary_of(detector: HyperFSAD, notes: Sequence[str]) -> dict[str, Any]:
    """What people and programs want to know of a detector without loading it."""
    found = detector.calibration_
    by_hand = found is None or detector.threshold_ != found.threshold
    unset = None if detector.threshold_ is None else "hand"
    return {
        "good_parts": len(detector.support_),
        "threshold": detector.threshold_,
        "map_threshold": detector.map_threshold_,
        "threshold_from": detector.threshold_from_,
        "threshold_method": unset if found is None or by_hand else found.method,
        "threshold_images": None if found is None or by_hand else found.images,
        "threshold_stale": found is not None and not by_hand and found.stale,
        "false_alarm_rate": None if found is None else found.rate,
        "recipe": detector.settings.recipe,
        "encoder": Path(detector.encoding_.name).name,  # a folder of this machine is not shown
        "resolution": detector.encoding_.resolution,
        "rotations": detector.rotations_,
        "tiles": detector.tile_side_,
        "notes": list(map(station_text, notes)),
    }
