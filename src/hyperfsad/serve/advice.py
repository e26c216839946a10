"""What a product's good parts cover: how far they reach, and which ones to add."""

from pathlib import Path

import numpy as np
from sqlalchemy import select

from ..detector.detector import HyperFSAD
from ..errors import UsageError
from ..quality.coverage import Coverage, cover_learnt
from ..quality.miss_rates import held_out_scores, token_distances
from ..quality.tokens import numbers
from .detectors import Detectors
from .products import Products
from .refusals import station_text
from .schemas import CoverageOut, GoodPartLevels, InspectionRow
from .store.history import row_of
from .store.models import Detail, Inspection

MORE_LIKE = 3
"""Good parts of which more would help."""
CONSIDERED = 200
"""The latest inspections among which some are proposed."""
PROPOSED = 5


def good_part_levels(detectors: Detectors, path: Path) -> GoodPartLevels:
    """How far good parts reach that a detector did not know when it judged them: those of its
    calibration, otherwise each one while it is left out."""
    detector = detectors.get(path)
    calibration = detector.calibration_
    threshold, map_threshold = detector.threshold_, detector.map_threshold_
    if calibration is None or not threshold or not map_threshold:
        return GoodPartLevels(kind="none", strengths=[])
    if calibration.scores:
        moved = calibration.threshold / threshold  # where the threshold was set by hand
        strengths = [moved * score for score in calibration.scores]
        return GoodPartLevels(kind="calibration", strengths=strengths)
    found = detector.view_.leave_one_out()
    pairs = zip(found.scores, found.peaks, strict=True)
    strengths = sorted(max(score / threshold, peak / map_threshold) for score, peak in pairs)
    return GoodPartLevels(kind="leave-one-out" if strengths else "none", strengths=strengths)


def coverage_advice(
    products: Products, detectors: Detectors, product_id: str, chance: float
) -> CoverageOut:
    """How well the good parts of a product cover new ones, and what to add."""
    name, path, revision = products.detector(product_id)
    detector = detectors.get(path)
    found: Coverage | None = None
    try:
        found = cover_learnt(detector, chance=chance)
        answer = found.answer()
    except UsageError as error:
        answer = station_text(error)
    return CoverageOut(
        product=name,
        product_id=product_id,
        good_parts=len(detector.support_),
        chance=chance,
        needed=None if found is None else found.needed,
        covered=None if found is None else float(1 - found.missed[-1]),
        answer=answer,
        more_like=[] if found is None else _lonely(found),
        inspections=_uncovered(products, product_id, revision, name, detector),
    )


def _uncovered(
    products: Products, product_id: str, revision: int, name: str, detector: HyperFSAD
) -> list[InspectionRow]:
    """Parts that passed, or were called fine, and resemble no learnt one: the least first."""
    level = _highest_cls_score(detector)
    if level is None:
        return []
    query = (
        select(Inspection, Detail.record["score_cls"].as_float())
        .join(Detail, Detail.inspection_id == Inspection.id)
        .where(Inspection.product_id == product_id, Inspection.revision == revision)
        .order_by(Inspection.time.desc(), Inspection.id.desc())
        .limit(CONSIDERED)
    )
    with products.store.database.reading() as session:
        rows = session.execute(query).all()
    apart: dict[str, tuple[float, Inspection]] = {}
    for one, score in rows:
        fine = one.label == "fine" or (one.label is None and one.verdict == "good")
        if fine and score is not None and score > level:
            apart.setdefault(one.image, (score, one))  # one picture of each content
    ordered = sorted(apart.values(), key=lambda found: -found[0])
    return [InspectionRow(**row_of(one, name)) for _, one in ordered[:PROPOSED]]


def _lonely(found: Coverage) -> list[str]:
    """The good parts that fewer others resemble than usual, over all layers."""
    shares = np.mean([layer.shares for layer in found.layers], axis=0)
    order = sorted(range(len(found.images)), key=lambda place: (shares[place], place))
    usual = shares.mean() - 1e-9
    return [found.images[place] for place in order[:MORE_LIKE] if shares[place] < usual]


def _highest_cls_score(detector: HyperFSAD) -> float | None:
    """The highest CLS score of a good part against the others; None where there is one alone."""
    bank = detector.memory_
    upright = numbers(bank.cls[[entries[0] for entries in bank.entries]])
    if len(upright) < 2:
        return None
    return float(held_out_scores(token_distances(upright)).mean(axis=0).max())
