"""What can be done with products. All that changes a detector runs in the engine's thread."""

import base64
import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image as Pillow
from sqlalchemy import delete, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ..detector.detector import HyperFSAD
from ..errors import DetectorFileError, UsageError
from ..images.loading import LARGEST_DRAWN, LoadedImage, drawn_image
from ..messages import silent
from ..results.heatmap import thumbnail
from .engine import Detectors
from .memory import room_for
from .monitoring import gathered
from .pictures import Picture, Upload, jpeg_of
from .refusals import ConflictError, GoneError, MissingError, public, station_text
from .schemas import GoodPart, ProductOut, Tracing, VersionOut
from .store.audit import Actor, audit
from .store.models import Image, ProductRow, Support, Version, insert, now
from .store.store import Store, add_images, new_id, parts_of, product_of
from .teaching import require_no_doubt
from .tracing import checked_fields, checked_pattern, given_values

THUMBNAIL_SOURCE = 1 << 20
"""Pixels of the picture that a thumbnail is made from."""
OWN_FIELDS = (
    *("id", "name", "created", "changed", "revision", "adapt_automatically"),
    *("fields", "name_pattern"),
)
"""Of a product, beside what its detector says."""
MOST_VERSIONS = 20
"""Of a product, with a detector file each."""


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
        seen: dict[str, Picture] = {}
        with noted(detector) as notes:
            detector.fit(loaded(pictures, seen), false_alarm_rate=rate)
        return self._add(actor, "created", name, detector, notes, seen)

    def upload(self, detectors: Detectors, actor: Actor, name: str, upload: Upload) -> ProductOut:
        self._require_free(name)
        try:
            detector = detectors.load(upload.path)
        except (DetectorFileError, UsageError) as error:  # the client knows it by another name
            raise public(error, {str(upload.path): upload.name}) from error
        return self._add(actor, "uploaded", name, detector, [], {})

    def _add(
        self,
        actor: Actor,
        action: str,
        name: str,
        detector: HyperFSAD,
        notes: Sequence[str],
        pictures: Mapping[str, Picture],
    ) -> ProductOut:
        after = self.saved(detector)
        self._keep_images(pictures.values())
        own = {"name": name, "claimed": name, "revision": 1, "created": now(), "changed": now()}
        summary = summary_of(detector, notes)
        product = ProductRow(id=new_id(), detector=after, summary=summary, **own)
        with _claiming(name), self.store.database.writing() as session:
            session.add(product)
            session.flush()
            _add_version(session, product, detector, actor, action, name)
            _add_support(session, product.id, pictures)
            audit(session, actor, f"product {action}", product.id, name)
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
            seen: dict[str, Picture] = {}
            if not self.learn(detectors, change, loaded(pictures, seen), confirm):
                raise ConflictError("images-known")
            self._keep_images(seen.values())
            with self.store.database.writing() as session:
                names = ", ".join(picture.name for picture in pictures)
                product = self.replace(session, change, actor, "extended", names)
                _add_support(session, product_id, seen)
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
                product = self.replace(session, change, actor, "calibrated")
                detail = f"threshold {change.detector.threshold_}"
                audit(session, actor, "product recalibrated", product_id, detail)
                return shown_product(product)

    def remove(self, detectors: Detectors, actor: Actor, product_id: str, part: str) -> ProductOut:
        """Forgets a good part, as if it had never been learnt."""
        with self.changing(detectors, product_id) as change:
            names = {image.sha256: image.name for image in change.detector.support_}
            if part not in names:
                raise MissingError("good-part-unknown")
            change.detector.forget([part])
            change.after = self.saved(change.detector)
            with self.store.database.writing() as session:
                product = self.replace(session, change, actor, "removed", names[part])
                audit(session, actor, "product reduced", product_id, names[part])
                return shown_product(product)

    def versions(self, product_id: str) -> list[VersionOut]:
        """What the product was after its latest changes, the last first."""
        with self.store.database.reading() as session:
            product_of(session, product_id)
            query = select(Version).where(Version.product_id == product_id)
            return [
                VersionOut(good_parts=len(one.parts), **vars(one))
                for one in session.scalars(query.order_by(Version.revision.desc()))
            ]

    def restore(
        self, detectors: Detectors, actor: Actor, product_id: str, revision: int
    ) -> ProductOut:
        """Brings a version back, byte by byte; that is a new version."""
        with self.changing(detectors, product_id) as change:
            if not self.bring_back(detectors, change, revision):
                raise MissingError("version-unknown", revision=revision)
            with self.store.database.writing() as session:
                product = self.replace(session, change, actor, "restored", str(revision))
                audit(session, actor, "product restored", product_id, f"revision {revision}")
                return shown_product(product)

    def bring_back(self, detectors: Detectors, change: Change, revision: int) -> bool:
        """Whether the version is still there; then the change leads to its detector file."""
        with self.store.database.reading() as session:
            key = {"product_id": change.product_id, "revision": revision}
            version = session.get(Version, key)
        if version is None:
            return False
        names, encoding = change.detector.defects_, change.detector.encoding_
        change.after, change.notes = version.detector, []
        change.detector = detectors.get(self.store.files.detector(version.detector))
        named = names.examples or change.detector.defects_.examples
        if named and change.detector.encoding_ == encoding:  # names are no part of a version
            change.detector = detectors.copy(self.store.files.detector(version.detector))
            change.after = self.saved(change.detector.name_by(names))
        return True

    def change(
        self, actor: Actor, product_id: str, name: str | None, adapt_automatically: bool | None
    ) -> ProductOut:
        """Renames it, and says whether it adapts by itself; None leaves what is there."""
        with _claiming(name or ""), self.store.database.writing() as session:
            product = product_of(session, product_id, change=True)
            product.changed, before = now(), product.name
            if name is not None:
                product.name = product.claimed = name
                session.flush()
                audit(session, actor, "product renamed", product_id, f"{before} → {name}")
            if adapt_automatically is not None:
                product.adapt_automatically = adapt_automatically
                on = "on" if adapt_automatically else "off"
                audit(session, actor, f"adapting by itself {on}", product_id, product.name)
            session.flush()
            return shown_product(product)

    def trace(self, actor: Actor, product_id: str, wanted: Tracing) -> ProductOut:
        """Gives it fields of one's own; what past inspections have stays."""
        fields = checked_fields(wanted.fields)
        pattern = checked_pattern(wanted.name_pattern, [one["name"] for one in fields])
        with self.store.database.writing() as session:
            product = product_of(session, product_id, change=True)
            product.fields, product.name_pattern = fields, pattern
            product.changed = now()
            told = ", ".join(one["name"] for one in fields)
            audit(session, actor, "fields changed", product_id, f"{told} {pattern}".strip())
            return shown_product(product)

    def given_values(self, product_id: str, text: str) -> dict[str, str]:
        """The values of its fields that a client sends."""
        with self.store.database.reading() as session:
            return given_values(product_of(session, product_id), text)

    def delete(self, actor: Actor, product_id: str) -> None:
        """Deletes a product; its inspections stay in the history."""
        with self.store.database.writing() as session:
            product = product_of(session, product_id, change=True)
            for table in (Support, Version):
                session.execute(delete(table).where(table.product_id == product_id))
            self.store.files.spare(product.detector or "")
            product.claimed = product.detector = None
            product.changed = now()
            audit(session, actor, "product deleted", product_id, product.name)

    def good_parts(self, product_id: str) -> list[GoodPart]:
        """In the order in which they were learnt; those of an uploaded file have no picture."""
        with self.store.database.reading() as session:
            parts = parts_of(session, product_of(session, product_id))
            query = select(Support).where(Support.product_id == product_id)
            pictures: dict[str, Any] = {
                one.part: {"image": one.image, "added": one.added} for one in session.scalars(query)
            }
        without = {"image": None, "added": None}
        return [
            GoodPart(part=part, name=name, **pictures.get(part, without))
            for part, name in parts.items()
        ]

    @contextlib.contextmanager
    def good_part(self, product_id: str, part: str, most: int) -> "Iterator[Pillow.Image]":
        """The picture of a good part, of at most so many pixels, while there is memory for it."""
        with self.store.database.reading() as session:
            product_of(session, product_id)
            support = session.get(Support, {"product_id": product_id, "part": part})
            if support is None:
                raise MissingError("good-part-unknown")
            found = session.get_one(Image, support.image)
            path = self.store.files.image(found.sha256, found.suffix)
        if not path.is_file():
            raise GoneError("original-gone")
        with room_for(path, part, drawn=most):
            yield drawn_image(os.fspath(path), part, most).rgb()

    def good_part_thumbnail(self, product_id: str, part: str) -> bytes:
        with self.good_part(product_id, part, THUMBNAIL_SOURCE) as picture:
            return base64.b64decode(thumbnail(picture))

    def good_part_picture(self, product_id: str, part: str) -> bytes:
        """As a JPEG that any browser shows, large ones made smaller."""
        with self.good_part(product_id, part, LARGEST_DRAWN) as picture:
            return jpeg_of(picture)

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

    def replace(
        self, session: Session, change: Change, actor: Actor, action: str, detail: str = ""
    ) -> ProductRow:
        """Makes another detector file the current one, if no other process did so meanwhile."""
        product = product_of(session, change.product_id, change=True)
        if product.detector != change.before:
            raise ConflictError("product-changed", product=product.name)
        product.detector = change.after
        product.summary = summary_of(change.detector, change.notes)
        product.revision += 1
        product.changed = now()
        _add_version(session, product, change.detector, actor, action, detail)
        return product

    def rename_defects(self, session: Session, change: Change) -> None:
        """Makes a detector file the current one that judges alike and names defects differently.
        That is no new version: trends go on, and every way back stays."""
        product = product_of(session, change.product_id, change=True)
        if product.detector != change.before:
            raise ConflictError("product-changed", product=product.name)
        version = session.get_one(Version, (product.id, product.revision))
        self.store.files.spare(change.before)
        product.detector = version.detector = change.after
        product.summary = summary_of(change.detector, product.summary["notes"])
        product.changed = now()

    def _keep_images(self, pictures: Iterable[Picture]) -> None:
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


def _add_version(
    session: Session,
    product: ProductRow,
    detector: HyperFSAD,
    actor: Actor,
    action: str,
    detail: str,
) -> None:
    """Keeps what the product is now; the oldest version goes, and pictures of its parts alone."""
    session.add(
        Version(
            product_id=product.id,
            revision=product.revision,
            time=product.changed,
            role=actor.role,
            user=actor.user,
            action=action,
            detail=detail[:200],
            detector=product.detector,
            threshold=detector.threshold_,
            parts={image.sha256: image.name for image in detector.support_},
        )
    )
    session.flush()
    oldest = session.get(Version, (product.id, product.revision - MOST_VERSIONS))
    if oldest is None:
        return
    session.delete(oldest)
    session.flush()
    left = session.scalars(select(Version.parts).where(Version.product_id == product.id))
    for part in oldest.parts.keys() - set().union(*left):
        if (support := session.get(Support, (product.id, part))) is not None:
            session.delete(support)


def _add_support(session: Session, product_id: str, pictures: Mapping[str, Picture]) -> None:
    add_images(session, [picture.row() for picture in pictures.values()])
    for part, picture in pictures.items():
        add_part(session, product_id, part, picture.upload.sha256)


def add_part(session: Session, product_id: str, part: str, image: str) -> None:
    """The picture of a good part, unless there is one."""
    row = insert(session, Support).values(
        product_id=product_id, part=part, image=image, added=now()
    )
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


def loaded(
    pictures: Sequence[Picture], seen: dict[str, Picture] | None = None
) -> Iterator[LoadedImage]:
    """Reads pictures; `seen` gets them by the hashes of their pixels."""
    for picture in pictures:
        image = picture.load()
        if seen is not None:
            seen.setdefault(image.sha256(), picture)
        yield image


def shown_product(product: ProductRow) -> ProductOut:
    own = {name: getattr(product, name) for name in OWN_FIELDS}
    summary = {**product.summary, "settings": dict(product.summary["settings"])}
    drawn = product.shapes.get(summary["settings"].pop("mask"))
    if drawn is not None:
        summary["settings"]["region"] = drawn
    return ProductOut(**own, **summary)


def product_name(text: str) -> str:
    """A name that a person gave."""
    name = " ".join(text.split())
    if not name or len(name) > 100 or not name.isprintable():
        raise UsageError("product-name-invalid")
    return name


def _settings_of(detector: HyperFSAD) -> dict[str, Any]:
    """What it was set to; `mask` is the hash of its region, by which the store knows its shapes."""
    found, region = detector.settings, detector.view_.region.described()
    mask = region["sha256"] if isinstance(region, dict) else None
    return {
        "region": "auto" if found.finds_part else None if mask is None else "mask",
        "mask": mask,
        "inspected": detector.view_.region.share,
        "rotations": found.rotations,
        "resolution": found.resolution,
        "tiles": detector.tile_side_ if found.tiles else None,
    }


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
        "settings": _settings_of(detector),
        "defects": [{"name": n, "examples": c} for n, c in detector.defects_.counts.items()],
        "examples": [example.sha256 for example in detector.defects_.examples],
        "notes": list(map(station_text, notes)),
    }
