"""Inspections: how a verdict is kept, and what can be seen of it later."""

import base64
import contextlib
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from prometheus_client import Counter
from sqlalchemy import select

from ..images.loading import LARGEST_DRAWN, drawn_image, load_image
from ..report.records import mark_of
from ..results.heatmap import HeatMap, map_overlay, thumbnail
from ..results.result import AnomalyResult
from .engine import Detectors
from .machines import Machines
from .memory import room_for
from .pictures import MEDIA_TYPES, Picture, jpeg_of
from .refusals import GoneError, MissingError
from .schemas import InspectionOut, InspectionRow
from .store.models import Detail, Image, Inspection, LabelRow, Support, now
from .store.store import Store, add_images, inspection_of, new_id, number, parts_of, product_of
from .tracing import trace
from .trends import count_inspections

VERDICT_NAMES = {True: "anomalous", False: "good", None: "unjudged"}


class Inspections:
    """The inspections of a store."""

    def __init__(
        self,
        store: Store,
        counted: Counter,
        added: Callable[[str], None],
        machines: Machines,
    ) -> None:
        """`added` hears of each product that has new verdicts."""
        self.store, self._counted, self._added = store, counted, added
        self.machines = machines
        self.count = 0
        """Verdicts that this process has kept; live readers wait for it to grow."""

    def add(
        self,
        product_id: str,
        revision: int,
        judged: Sequence[tuple[Picture, AnomalyResult]],
        only_id: str | None = None,
        fields: Mapping[str, str] | None = None,
        *,
        arrived: float,
    ) -> list[InspectionOut]:
        """Keeps verdicts; when this returns, they are on the disk, all of them.

        A single verdict may have an id of the caller's, and is then not added again. `fields` are
        values of the product's own fields, for all of them. `arrived` is when the pictures came, by
        the monotonic clock.
        """
        if only_id is not None:
            with self.store.database.reading() as session:
                if session.get(Inspection, only_id) is not None:
                    return []
        rows = [
            _rows(only_id or new_id(), product_id, revision, picture, result)
            for picture, result in judged
        ]
        pictures = [picture for picture, _ in judged]
        for picture in pictures:
            target = self.store.files.image(picture.upload.sha256, picture.suffix)
            self.store.files.keep(picture.upload.path, target)
        self.machines.expect([inspection.id for inspection, _ in rows], arrived)
        with self.store.database.writing() as session:
            product = product_of(session, product_id)
            traced = trace(session, product, [inspection for inspection, _ in rows], fields or {})
            add_images(session, [picture.row() for picture in pictures])
            number(session, [inspection for inspection, _ in rows])
            session.add_all([inspection for inspection, _ in rows])
            session.flush()
            session.add_all([*(detail for _, detail in rows), *traced])
            session.flush()
            added = [shown_inspection(*row, product.name) for row in rows]
            count_inspections(session, [inspection for inspection, _ in rows])
        self.count += len(added)
        for one in added:
            self._counted.labels(one.verdict).inc()
        self.machines.sync()
        self._added(product_id)
        return added

    def get(self, inspection_id: str) -> InspectionOut:
        with self.store.database.reading() as session:
            found, detail, product = inspection_of(session, inspection_id)
            label, parts = session.get(LabelRow, inspection_id), parts_of(session, product)
            known = {*parts, *product.summary["examples"]}
            learnt = None if label is None else label.part in known
            return shown_inspection(found, detail, product.name, learnt)

    def original(self, inspection_id: str) -> tuple[Path, str]:
        """The file of the image, and its type."""
        with self.store.database.reading() as session:
            found, _, _ = inspection_of(session, inspection_id)
            image = session.get_one(Image, found.image)
            path = self.store.files.image(image.sha256, image.suffix)
        if not image.kept or not path.is_file():
            raise GoneError("original-gone")
        return path, MEDIA_TYPES[image.suffix]

    def detail(self, inspection_id: str) -> Detail:
        with self.store.database.reading() as session:
            return inspection_of(session, inspection_id)[1]

    def heat_map(self, inspection_id: str) -> bytes:
        """The map alone: a PNG with transparency, to be laid over the image."""
        detail = self.detail(inspection_id)
        low, high = detail.drawing["scale"]
        return base64.b64decode(map_overlay(_unpacked(detail.map)[0], (low, high)))

    def picture(self, inspection_id: str) -> bytes:
        """The image as a JPEG that any browser shows; the thumbnail where the original is gone."""
        with self._shown(self.detail(inspection_id)) as picture:
            return jpeg_of(picture)

    def overlay(self, inspection_id: str) -> bytes:
        """The heat map over the image as `detect` draws it."""
        detail = self.detail(inspection_id)
        anomaly_map, inside = _unpacked(detail.map)
        low, high = detail.drawing["scale"]
        record = detail.record
        width, height = record["size"]
        heat_map = HeatMap(
            anomaly_map,
            (low, high),
            (width, height),
            [[(x, y) for x, y in region["polygon"]] for region in record["regions"]],
            mark=mark_of(record),
            limit=record["map_threshold"],
            inside=inside,
            verdict=detail.drawing["words"],
            note=detail.drawing["note"],
        )
        with self._shown(detail) as picture:
            return jpeg_of(heat_map.draw(picture))

    @contextlib.contextmanager
    def _shown(self, detail: Detail) -> Iterator[Pillow.Image]:
        """The picture to draw upon, while there is memory for it."""
        try:
            path, _ = self.original(detail.inspection_id)
        except GoneError:
            yield Pillow.open(io.BytesIO(detail.thumbnail), formats=("JPEG",)).convert("RGB")
            return
        name = detail.record["image"]
        with room_for(path, name, drawn=LARGEST_DRAWN):
            yield drawn_image(os.fspath(path), name).rgb()

    def evidence(
        self, detectors: Detectors, inspection_id: str, x: float | None, y: float | None
    ) -> Any:
        """Why the map has its value at a place, by the product's detector as it is now."""
        path, _ = self.original(inspection_id)
        with self.store.database.reading() as session:
            found, _, product = inspection_of(session, inspection_id)
        if product.detector is None:
            raise MissingError("product-deleted", product=product.name)
        detector = detectors.get(self.store.files.detector(product.detector))
        with room_for(path, found.name, patience=None):
            return detector.explain(load_image(path, found.name), x, y)

    def evidence_picture(
        self, detectors: Detectors, inspection_id: str, x: float | None, y: float | None
    ) -> bytes:
        """The same as a picture, with the good parts that the station has."""
        evidence = self.evidence(detectors, inspection_id, x, y)
        with self.store.database.reading() as session:
            found, _, _ = inspection_of(session, inspection_id)
            query = select(Image).join(Support, Support.image == Image.sha256)
            learnt = session.scalars(query.where(Support.product_id == found.product_id))
            normal = [self.store.files.image(image.sha256, image.suffix) for image in learnt]
        there = [path for path in normal if path.is_file()]
        return jpeg_of(evidence.plot(there, by_name=False))


def _rows(
    inspection_id: str, product_id: str, revision: int, picture: Picture, result: AnomalyResult
) -> tuple[Inspection, Detail]:
    record = {**result.to_dict(), "image": picture.name, "late": picture.late}
    inspection = Inspection(
        id=inspection_id,
        time=now(),
        product_id=product_id,
        revision=revision,
        image=picture.upload.sha256,
        name=picture.name,
        verdict=VERDICT_NAMES[result.anomalous],
        score=result.score,
        threshold=result.threshold,
        level=record["level"],
        p_value=result.p_value,
        regions=len(result.regions),
        defect=result.defect,
        defect_score=result.defect_score,
    )
    arrays: dict[str, Any] = {"map": result.anomaly_map}
    if result.inside is not None:
        arrays["inside"] = result.inside
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    note = result.heat_map().note
    detail = Detail(
        inspection_id=inspection.id,
        record=record,
        drawing={"scale": list(result.scale), "words": result.verdict, "note": note},
        map=packed.getvalue(),
        thumbnail=base64.b64decode(thumbnail(result.shown())),
    )
    return inspection, detail


def shown_inspection(
    inspection: Inspection,
    detail: Detail,
    product: str,
    learnt: bool | None = None,
) -> InspectionOut:
    """An inspection as the API shows it: the row of the history, and the record's own fields."""
    own = InspectionRow.model_fields.keys() - {"product", "regions"}
    scores = {name: detail.record.get(f"score_{name}") for name in ("map", "cls", "missing")}
    fields = {
        **detail.record,
        **{name: getattr(inspection, name) for name in own},
        "product": product,
        "branches": {name: score for name, score in scores.items() if score is not None},
        "learnt": learnt,
    }
    return InspectionOut(**fields)


def _unpacked(content: bytes) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return arrays["map"], arrays.get("inside")
