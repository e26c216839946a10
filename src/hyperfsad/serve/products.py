"""What can be done with products. All that changes a detector runs in the engine's thread."""

import base64
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ..detector.detector import HyperFSAD
from ..errors import DetectorFileError, UsageError
from ..images.loading import LoadedImage, load_image
from ..messages import silent
from ..results.heatmap import thumbnail
from .detectors import Detectors
from .notices import gathered
from .pictures import Picture, Upload
from .refusals import ConflictError, GoneError, MissingError, public, station_text
from .schemas import GoodPart, ProductOut
from .store.history import iso
from .store.models import Image, ProductRow, Support, now
from .store.store import Actor, Store, add_images, audit, new_id, product_of

LISTED_GOOD_PARTS = 1000
"""Names of good parts that a product's summary holds."""


class Products:
    """The products of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def all(self) -> list[ProductOut]:
        """The living products by name."""
        with self.store.database.reading() as session:
            living = select(ProductRow).where(ProductRow.detector.is_not(None))
            found = session.scalars(living.order_by(ProductRow.name))
            return [shown_product(product, brief=True) for product in found]

    def get(self, product_id: str) -> ProductOut:
        """One product, with its good parts."""
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
        """A product from good parts."""
        self._require_free(name)
        detector = detectors.unfitted.unfitted()
        with noted(detector) as notes:
            detector.fit(loaded(pictures), false_alarm_rate=rate)
        return self._add(actor, name, detector, notes, pictures, "product created")

    def upload(self, detectors: Detectors, actor: Actor, name: str, upload: Upload) -> ProductOut:
        """A product from a detector file."""
        self._require_free(name)
        try:
            detector = detectors.load(upload.path)
        except (DetectorFileError, UsageError) as error:  # the client knows it by another name
            raise public(error, {str(upload.path): upload.name}) from error
        return self._add(actor, name, detector, [], (), "product uploaded")

    def extend(
        self, detectors: Detectors, actor: Actor, product_id: str, pictures: Sequence[Picture]
    ) -> ProductOut:
        """More good parts for a product."""
        with self.changing(detectors, product_id) as (before, detector):
            count = len(detector.support_)
            with noted(detector) as notes:
                detector.extend(loaded(pictures))
            if len(detector.support_) == count:
                raise ConflictError("images-known")
            after = self.saved(detector)
            self._keep_images(pictures)
            with self.store.database.writing() as session:
                product = self.replace(session, product_id, before, after, detector, notes)
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
        keep_outliers: bool = False,
    ) -> ProductOut:
        """New thresholds: from further good parts, from those that were learnt, or by hand."""
        with self.changing(detectors, product_id) as (before, detector):
            with noted(detector) as notes:
                if threshold is None:
                    images = loaded(pictures) if pictures else None
                    detector.calibrate(images, false_alarm_rate=rate, keep_outliers=keep_outliers)
                else:
                    detector.move_threshold(threshold)
            after = self.saved(detector)
            with self.store.database.writing() as session:
                product = self.replace(session, product_id, before, after, detector, notes)
                detail = f"threshold {detector.threshold_}"
                audit(session, actor, "product recalibrated", product_id, detail)
                return shown_product(product)

    def rename(self, actor: Actor, product_id: str, name: str) -> ProductOut:
        """Another name for a product."""
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
            for one in session.scalars(select(Support).where(Support.product_id == product_id)):
                session.delete(one)
            self.store.files.spare(product.detector or "")
            product.claimed = product.detector = None
            product.changed = now()

    def good_parts(self, product_id: str) -> list[GoodPart]:
        """The pictures that the station has; a detector file that was uploaded has none."""
        with self.store.database.reading() as session:
            product_of(session, product_id)
            query = select(Support).where(Support.product_id == product_id)
            found = session.scalars(query.order_by(Support.added, Support.name))
            return [GoodPart(image=one.image, name=one.name, added=iso(one.added)) for one in found]

    def good_part(self, product_id: str, image: str) -> bytes:
        """A small JPEG of a good part."""
        with self.store.database.reading() as session:
            product_of(session, product_id)
            if session.get(Support, {"product_id": product_id, "image": image}) is None:
                raise MissingError("good-part-unknown")
            found = session.get_one(Image, image)
            path = self.store.files.image(found.sha256, found.suffix)
        if not path.is_file():
            raise GoneError("original-gone")
        return base64.b64decode(thumbnail(load_image(path).rgb()))

    @contextlib.contextmanager
    def changing(self, detectors: Detectors, product_id: str) -> Iterator[tuple[str, HyperFSAD]]:
        """The hash of a product's detector file, and a copy of the detector to change; other
        stations wait until it is changed."""
        with self.store.database.alone(product_id):
            with self.store.database.reading() as session:
                before = product_of(session, product_id).detector or ""
            yield before, detectors.copy(self.store.files.detector(before))

    def saved(self, detector: HyperFSAD) -> str:
        """Writes a detector file to its place; returns its hash."""
        self.store.files.check_space()
        scratch = self.store.files.upload()
        try:
            detector.save(scratch)
            return self.store.files.keep_detector(scratch)
        finally:
            scratch.unlink(missing_ok=True)

    def replace(
        self,
        session: Session,
        product_id: str,
        before: str,
        after: str,
        detector: HyperFSAD,
        notes: Sequence[str] = (),
    ) -> ProductRow:
        """Makes another detector file the current one, if no other process did so meanwhile."""
        product = product_of(session, product_id, change=True)
        if product.detector != before:
            raise ConflictError("product-changed", product=product.name)
        self.store.files.spare(before)
        product.detector, product.summary = after, summary_of(detector, notes)
        product.revision += 1
        product.changed = now()
        return product

    def _keep_images(self, pictures: Sequence[Picture]) -> None:
        """Moves the files of good parts to their places."""
        for picture in pictures:
            target = self.store.files.image(picture.upload.sha256, picture.suffix)
            self.store.files.keep(picture.upload.path, target)

    def _add(
        self,
        actor: Actor,
        name: str,
        detector: HyperFSAD,
        notes: Sequence[str],
        pictures: Sequence[Picture],
        action: str,
    ) -> ProductOut:
        after = self.saved(detector)
        self._keep_images(pictures)
        product = ProductRow(
            id=new_id(),
            name=name,
            claimed=name,
            revision=1,
            detector=after,
            summary=summary_of(detector, notes),
        )
        product.created = product.changed = now()
        with _claiming(name), self.store.database.writing() as session:
            session.add(product)
            session.flush()
            _add_support(session, product.id, pictures)
            audit(session, actor, action, product.id, name)
            return shown_product(product)

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
    """The rows of good parts."""
    add_images(session, [picture.row() for picture in pictures])
    for picture in pictures:
        key = {"product_id": product_id, "image": picture.upload.sha256}
        if session.get(Support, key) is None:
            session.add(Support(**key, name=picture.name, added=now()))
            session.flush()


@contextlib.contextmanager
def noted(detector: HyperFSAD) -> Iterator[list[str]]:
    """What a detector reports while it learns, as notes for the answer."""
    with gathered() as notes:
        detector.notify = lambda text: notes.append(station_text(text))
        try:
            yield notes
        finally:
            detector.notify = silent


def loaded(pictures: Sequence[Picture]) -> Iterator[LoadedImage]:
    """The pictures themselves."""
    return (picture.load() for picture in pictures)


def shown_product(product: ProductRow, *, brief: bool = False) -> ProductOut:
    """A product as the API shows it."""
    fields = {**product.summary, "created": iso(product.created), "changed": iso(product.changed)}
    if brief:
        fields |= {"images": [], "notes": []}
    return ProductOut(id=product.id, name=product.name, revision=product.revision, **fields)


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
        "notes": list(notes),
        "images": [image.name for image in detector.support_[:LISTED_GOOD_PARTS]],
    }
