"""What can be done with products. All that changes a detector runs in the engine's thread."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ..detector.detector import HyperFSAD
from ..errors import DetectorFileError, UsageError
from ..images.loading import LoadedImage
from ..messages import silent
from .engine import Detectors
from .faults import ConflictError, MissingError
from .notices import gathered, without_options
from .pictures import Picture, Upload
from .store.history import iso
from .store.models import Product, Support
from .store.store import Actor, Store, new_id, note, now, product_of, remember_images
from .summaries import summary_of


class Products:
    """The products of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def all(self) -> list[dict[str, Any]]:
        """The living products by name."""
        with self.store.database.reading() as session:
            living = select(Product).where(Product.detector.is_not(None)).order_by(Product.name)
            return [described(product, brief=True) for product in session.scalars(living)]

    def get(self, product_id: str) -> dict[str, Any]:
        """One product, with its good parts."""
        with self.store.database.reading() as session:
            return described(product_of(session, product_id))

    def find(self, name: str) -> str:
        """The id of the living product of a name or an id."""
        with self.store.database.reading() as session:
            own = Product.detector.is_not(None), or_(Product.claimed == name, Product.id == name)
            found = session.scalar(select(Product.id).where(*own).order_by(Product.claimed != name))
        if found is None:
            raise MissingError(f"There is no product {name} yet; make it.")
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
    ) -> dict[str, Any]:
        """A product from good parts."""
        self._require_free(name)
        detector = detectors.new()
        with told(detector) as notes:
            detector.fit(loaded(pictures), false_alarm_rate=rate)
        return self._added(actor, name, detector, notes, pictures, "product created")

    def bring(
        self, detectors: Detectors, actor: Actor, name: str, upload: Upload
    ) -> dict[str, Any]:
        """A product from a detector file."""
        self._require_free(name)
        try:
            detector = detectors.load(upload.path)
        except (DetectorFileError, UsageError) as error:  # the client knows it by another name
            told = str(error).replace(str(upload.path), upload.name)
            raise DetectorFileError(told) from error
        return self._added(actor, name, detector, [], (), "product uploaded")

    def extend(
        self, detectors: Detectors, actor: Actor, product_id: str, pictures: Sequence[Picture]
    ) -> dict[str, Any]:
        """More good parts for a product."""
        with self.changing(detectors, product_id) as (before, detector):
            count = len(detector.support_)
            with told(detector) as notes:
                detector.extend(loaded(pictures))
            if len(detector.support_) == count:
                raise ConflictError("The product has learnt all of these pictures already.")
            after = self.saved(detector)
            self.keep_images(pictures)
            with self.store.database.writing() as session:
                product = self.replace(session, product_id, before, after, detector, notes)
                self.support(session, product_id, pictures)
                note(session, actor, "product extended", product_id, f"{len(pictures)} images")
                return described(product)

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
    ) -> dict[str, Any]:
        """New thresholds: from further good parts, from those that were learnt, or by hand."""
        with self.changing(detectors, product_id) as (before, detector):
            with told(detector) as notes:
                if threshold is None:
                    images = loaded(pictures) if pictures else None
                    detector.calibrate(images, false_alarm_rate=rate, keep_outliers=keep_outliers)
                else:
                    detector.move_threshold(threshold)
            after = self.saved(detector)
            with self.store.database.writing() as session:
                product = self.replace(session, product_id, before, after, detector, notes)
                told_threshold = f"threshold {detector.threshold_}"
                note(session, actor, "product recalibrated", product_id, told_threshold)
                return described(product)

    def rename(self, actor: Actor, product_id: str, name: str) -> dict[str, Any]:
        """Another name for a product."""
        with self._claiming(name), self.store.database.writing() as session:
            product = product_of(session, product_id, change=True)
            note(session, actor, "product renamed", product_id, f"{product.name} → {name}")
            product.name = product.claimed = name
            product.changed = now()
            session.flush()
            return described(product)

    def delete(self, actor: Actor, product_id: str) -> None:
        """Deletes a product; its inspections stay in the history."""
        with self.store.database.writing() as session:
            product = product_of(session, product_id, change=True)
            note(session, actor, "product deleted", product_id, product.name)
            for one in session.scalars(select(Support).where(Support.product_id == product_id)):
                session.delete(one)
            self.store.files.spare(product.detector or "")
            product.claimed = product.detector = None
            product.changed = now()

    @contextlib.contextmanager
    def changing(self, detectors: Detectors, product_id: str) -> Iterator[tuple[str, HyperFSAD]]:
        """The hash of a product's detector file, and a copy of the detector to change; other
        stations wait until it is changed."""
        with self.store.database.alone(product_id):
            with self.store.database.reading() as session:
                before = product_of(session, product_id).detector or ""
            yield before, detectors.changeable(self.store.files.detector(before))

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
        notes: Sequence[str],
    ) -> Product:
        """Makes another detector file the current one, if no other process did so meanwhile."""
        product = product_of(session, product_id, change=True)
        if product.detector != before:
            raise ConflictError(
                f"{product.name} was changed by somebody else meanwhile; try again."
            )
        self.store.files.spare(before)
        product.detector, product.summary = after, summary_of(detector, notes)
        product.revision += 1
        product.changed = now()
        session.flush()
        return product

    def keep_images(self, pictures: Sequence[Picture]) -> None:
        """Moves the files of good parts to their places."""
        for picture in pictures:
            target = self.store.files.image(picture.upload.sha256, picture.suffix)
            self.store.files.keep(picture.upload.path, target)

    def support(self, session: Session, product_id: str, pictures: Sequence[Picture]) -> None:
        """The rows of good parts."""
        remember_images(session, [image_row(picture) for picture in pictures])
        for picture in pictures:
            key = {"product_id": product_id, "image": picture.upload.sha256}
            if session.get(Support, key) is None:
                session.add(Support(**key, name=picture.name, added=now()))
                session.flush()

    def _added(
        self,
        actor: Actor,
        name: str,
        detector: HyperFSAD,
        notes: Sequence[str],
        pictures: Sequence[Picture],
        action: str,
    ) -> dict[str, Any]:
        after = self.saved(detector)
        self.keep_images(pictures)
        time = now()
        product = Product(
            id=new_id(),
            name=name,
            claimed=name,
            created=time,
            changed=time,
            revision=1,
            detector=after,
            summary=summary_of(detector, notes),
        )
        with self._claiming(name), self.store.database.writing() as session:
            session.add(product)
            session.flush()
            self.support(session, product.id, pictures)
            note(session, actor, action, product.id, name)
            return described(product)

    def _require_free(self, name: str) -> None:
        """Tells that a name is taken before any work is done."""
        with self.store.database.reading() as session:
            if session.scalar(select(Product.id).where(Product.claimed == name)) is not None:
                raise ConflictError(f"There is a product {name} already; choose another name.")

    @contextlib.contextmanager
    def _claiming(self, name: str) -> Iterator[None]:
        try:
            yield
        except IntegrityError as error:
            raise ConflictError(
                f"There is a product {name} already; choose another name."
            ) from error


@contextlib.contextmanager
def told(detector: HyperFSAD) -> Iterator[list[str]]:
    """What a detector says while it learns, as notes for the answer."""
    with gathered() as notes:
        detector.notify = lambda text: notes.append(without_options(text))
        try:
            yield notes
        finally:
            detector.notify = silent


def loaded(pictures: Sequence[Picture]) -> Iterator[LoadedImage]:
    """The pictures themselves."""
    return (picture.load() for picture in pictures)


def image_row(picture: Picture, kept: bool = True) -> dict[str, Any]:
    """The row of an uploaded image."""
    width, height = picture.size
    return {
        "sha256": picture.upload.sha256,
        "suffix": picture.suffix,
        "bytes": picture.upload.bytes,
        "width": width,
        "height": height,
        "added": now(),
        "kept": kept,
    }


def described(product: Product, *, brief: bool = False) -> dict[str, Any]:
    """A product as the API shows it."""
    summary = dict(product.summary)
    if brief:
        summary = {**summary, "images": [], "notes": []}
    return {
        "id": product.id,
        "name": product.name,
        "created": iso(product.created),
        "changed": iso(product.changed),
        "revision": product.revision,
        **summary,
    }


def product_name(text: str) -> str:
    """A name that a person gave, or what is wrong with it."""
    name = " ".join(text.split())
    if not name or len(name) > 100 or not name.isprintable():
        raise UsageError("A product's name has 1 to 100 letters that can be printed.")
    return name
