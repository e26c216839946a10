"""What can be seen of the good parts of a product."""

import base64
from pathlib import Path
from typing import Any

from sqlalchemy import select

from ..images.loading import load_image
from ..results.heatmap import thumbnail
from .engine import Detectors
from .faults import GoneError, MissingError
from .store.history import iso
from .store.models import Image, Support
from .store.store import Store, product_of

LEAVE_ONE_OUT, CALIBRATION, NONE = "leave-one-out", "calibration", "none"


class GoodParts:
    """The good parts of the products of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def all(self, product_id: str) -> list[dict[str, Any]]:
        """The pictures that the station has; a detector file that was brought along has none."""
        with self.store.database.reading() as session:
            product_of(session, product_id)
            question = select(Support).where(Support.product_id == product_id)
            found = session.scalars(question.order_by(Support.added, Support.name))
            return [
                {"image": one.image, "name": one.name, "added": iso(one.added)} for one in found
            ]

    def thumbnail(self, product_id: str, image: str) -> bytes:
        """A small JPEG of one of them."""
        with self.store.database.reading() as session:
            product_of(session, product_id)
            if session.get(Support, {"product_id": product_id, "image": image}) is None:
                raise MissingError("The product has learnt no such picture.")
            found = session.get(Image, image)
            assert found is not None  # by its foreign key
            path = self.store.files.image(found.sha256, found.suffix)
        if not path.is_file():
            raise GoneError("This picture is not kept any longer.")
        return base64.b64decode(thumbnail(load_image(path).rgb()))

    def levels(self, detectors: Detectors, path: Path) -> dict[str, Any]:
        """How far good parts reach that a detector did not know when it judged them: those of its
        calibration, otherwise each one while it is left out."""
        detector = detectors.get(path)
        calibration = detector.calibration_
        threshold, level = detector.threshold_, detector.map_threshold_
        if calibration is None or not threshold or not level:
            return {"kind": NONE, "strengths": []}
        moved = calibration.threshold / threshold  # where the threshold was set by hand
        if calibration.scores:
            strengths = [moved * score for score in calibration.scores]
            return {"kind": CALIBRATION, "strengths": strengths}
        found = detector.view_.leave_one_out()
        if not found.scores:  # a lone part has nothing to be compared with
            return {"kind": NONE, "strengths": []}
        pairs = zip(found.scores, found.peaks, strict=True)
        strengths = sorted(max(score / threshold, peak / level) for score, peak in pairs)
        return {"kind": LEAVE_ONE_OUT, "strengths": strengths}
