"""Inspections: how a verdict is kept, and what can be seen of it later."""

import base64
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from sqlalchemy import select

from ..images.loading import LARGEST_DRAWN, load_image
from ..results.heatmap import HeatMap, map_overlay, thumbnail
from ..results.result import AnomalyResult
from .engine import Detectors
from .faults import GoneError, MissingError
from .live import Live
from .pictures import MEDIA_TYPES, Picture
from .products import image_row
from .store.history import row_of
from .store.models import Detail, Image, Inspection, Label, Support
from .store.store import Store, inspection_of, new_id, now, product_of, remember_images
from .store.trends import count_in

VERDICTS = {True: "anomalous", False: "good", None: "unjudged"}


class Inspections:
    """The inspections of a store."""

    def __init__(self, store: Store, live: Live, *, originals: bool = True) -> None:
        """Without `originals`, only thumbnails and maps are kept."""
        self.store, self._live, self._originals = store, live, originals
        self._latest = 0

    def add(
        self,
        product_id: str,
        revision: int,
        judged: Sequence[tuple[Picture, AnomalyResult]],
    ) -> list[dict[str, Any]]:
        """Keeps verdicts; when this returns, they are on the disk, all of them."""
        rows = [
            (picture, *_rows(new_id(), product_id, revision, picture, result))
            for picture, result in judged
        ]
        return self._kept(product_id, rows)

    def add_once(
        self, inspection_id: str, product_id: str, revision: int, judged: Picture, by: AnomalyResult
    ) -> None:
        """Keeps a verdict under an id of the caller's; not again if it is there."""
        with self.store.database.reading() as session:
            if session.get(Inspection, inspection_id) is not None:
                return
        rows = (judged, *_rows(inspection_id, product_id, revision, judged, by))
        self._kept(product_id, [rows])

    def _kept(
        self, product_id: str, rows: Sequence[tuple[Picture, Inspection, Detail]]
    ) -> list[dict[str, Any]]:
        if self._originals:
            for picture, *_ in rows:
                target = self.store.files.image(picture.upload.sha256, picture.suffix)
                self.store.files.keep(picture.upload.path, target)
        with self.store.database.writing() as session:
            name = product_of(session, product_id).name
            for _, inspection, _ in rows:
                inspection.time = self._time()
            remember_images(session, [image_row(picture, self._originals) for picture, *_ in rows])
            session.add_all([inspection for _, inspection, _ in rows])
            session.flush()
            session.add_all([detail for *_, detail in rows])
            session.flush()
            kept = [shown(inspection, detail, name, None) for _, inspection, detail in rows]
            count_in(session, [inspection for _, inspection, _ in rows])
        self._live.publish([one["verdict"] for one in kept])
        return kept

    def _time(self) -> int:
        """Later than that of every verdict before: who follows them live must not miss one. It is
        asked for by the one who writes."""
        self._latest = max(now(), self._latest + 1)
        return self._latest

    def get(self, inspection_id: str) -> dict[str, Any]:
        """One inspection with its record."""
        with self.store.database.reading() as session:
            found, detail, product = inspection_of(session, inspection_id)
            label = session.get(Label, inspection_id)
            return shown(found, detail, product.name, label)

    def original(self, inspection_id: str) -> tuple[Path, str]:
        """The file of the image, and its type."""
        with self.store.database.reading() as session:
            found, _, _ = inspection_of(session, inspection_id)
            image = session.get(Image, found.image)
            assert image is not None  # by its foreign key
            path = self.store.files.image(image.sha256, image.suffix)
        if not image.kept or not path.is_file():
            raise GoneError("The original of this inspection is not kept any longer.")
        return path, MEDIA_TYPES[image.suffix]

    def thumbnail(self, inspection_id: str) -> bytes:
        """A small JPEG; always there."""
        with self.store.database.reading() as session:
            return inspection_of(session, inspection_id)[1].thumbnail

    def heat_map(self, inspection_id: str) -> bytes:
        """The map alone: a PNG with transparency, to be laid over the image."""
        with self.store.database.reading() as session:
            _, detail, _ = inspection_of(session, inspection_id)
        anomaly_map, _ = _unpacked(detail.map)
        low, high = detail.drawing["scale"]
        return base64.b64decode(map_overlay(anomaly_map, (low, high)))

    def picture(self, inspection_id: str) -> bytes:
        """The image as a JPEG that any browser shows; the thumbnail where the original is gone."""
        try:
            path, _ = self.original(inspection_id)
        except GoneError:
            return self.thumbnail(inspection_id)
        return encoded(load_image(path).reduced(LARGEST_DRAWN).rgb())

    def overlay(self, inspection_id: str) -> bytes:
        """The heat map over the image as `detect` draws it; over the thumbnail where the original
        is gone."""
        with self.store.database.reading() as session:
            found, detail, _ = inspection_of(session, inspection_id)
        try:
            path, _ = self.original(inspection_id)
            picture = load_image(path, found.name).reduced(LARGEST_DRAWN).rgb()
        except GoneError:
            picture = Pillow.open(io.BytesIO(detail.thumbnail), formats=("JPEG",)).convert("RGB")
        anomaly_map, inside = _unpacked(detail.map)
        low, high = detail.drawing["scale"]
        width, height = detail.record["size"]
        drawn = HeatMap(
            anomaly_map,
            (low, high),
            (width, height),
            [[(x, y) for x, y in region["polygon"]] for region in detail.record["regions"]],
            inside,
            detail.drawing["words"],
            detail.drawing["note"],
        ).draw(picture)
        return encoded(drawn)

    def evidence(
        self, detectors: Detectors, inspection_id: str, x: float | None, y: float | None
    ) -> dict[str, Any]:
        """Why the map has its value at a place, by the product's detector as it is now."""
        found, name, detector = self._explained(inspection_id)
        image = load_image(found, name)
        return detectors.get(detector).explain(image, x, y).to_dict()

    def evidence_picture(
        self, detectors: Detectors, inspection_id: str, x: float | None, y: float | None
    ) -> bytes:
        """The same as a picture, with the good parts that the station has."""
        path, name, detector = self._explained(inspection_id)
        evidence = detectors.get(detector).explain(load_image(path, name), x, y)
        with self.store.database.reading() as session:
            found, _, _ = inspection_of(session, inspection_id)
            question = select(Image).join(Support, Support.image == Image.sha256)
            learnt = session.scalars(question.where(Support.product_id == found.product_id))
            normal = [self.store.files.image(image.sha256, image.suffix) for image in learnt]
        there = [path for path in normal if path.is_file()]
        return encoded(evidence.plot(there, by_name=False))

    def _explained(self, inspection_id: str) -> tuple[Path, str, Path]:
        path, _ = self.original(inspection_id)
        with self.store.database.reading() as session:
            found, _, product = inspection_of(session, inspection_id)
        if product.detector is None:
            raise MissingError(f"The product {product.name} was deleted; nothing explains it now.")
        return path, found.name, self.store.files.detector(product.detector)


def _rows(
    inspection_id: str, product_id: str, revision: int, picture: Picture, result: AnomalyResult
) -> tuple[Inspection, Detail]:
    record = {**result.to_dict(), "image": picture.name}
    inspection = Inspection(
        id=inspection_id,
        time=0,
        product_id=product_id,
        revision=revision,
        image=picture.upload.sha256,
        name=picture.name,
        verdict=VERDICTS[result.anomalous],
        score=result.score,
        threshold=result.threshold,
        strength=_finite(result.strength),
        p_value=result.p_value,
        regions=len(result.regions),
        label=None,
    )
    detail = Detail(
        inspection_id=inspection.id,
        record=record,
        drawing={
            "scale": list(result.scale),
            "words": result.verdict,
            "note": result.heat_map().note,
        },
        map=_packed(result),
        thumbnail=base64.b64decode(thumbnail(result.shown())),
    )
    return inspection, detail


def _finite(number: float | None) -> float | None:
    """JSON has no infinity, which a threshold of 0 leads to."""
    return number if number is not None and math.isfinite(number) else None


def shown(
    inspection: Inspection, detail: Detail, product: str, label: Label | None
) -> dict[str, Any]:
    """An inspection as the API shows it: the row of the history, and the record's own fields."""
    record = {name: value for name, value in detail.record.items() if name != "image"}
    return {
        **record,
        **row_of(inspection, product),
        "words": detail.drawing["words"],
        "regions": detail.record["regions"],
        "branches": {
            name: detail.record[f"score_{name}"]
            for name in ("map", "cls", "missing")
            if detail.record.get(f"score_{name}") is not None
        },
        "defect": None if label is None else label.defect,
        "learnt": None if label is None else label.learnt,
    }


def _packed(result: AnomalyResult) -> bytes:
    arrays: dict[str, Any] = {"map": result.anomaly_map}
    if result.inside is not None:
        arrays["inside"] = result.inside
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def _unpacked(content: bytes) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return arrays["map"], arrays.get("inside")


def encoded(picture: Pillow.Image) -> bytes:
    """A drawn picture for browsers."""
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=90, subsampling=0)
    return content.getvalue()
