"""What a product's good parts cover: how far they reach, and which ones to add."""

from pathlib import Path
from typing import Any

import numpy as np

from ..decisions.thresholds import level_of
from ..detector.detector import HyperFSAD
from ..errors import UsageError
from ..quality.coverage import cover_learnt
from ..quality.miss_rates import held_out_scores, token_distances
from ..quality.tokens import numbers
from .adapting import line_levels
from .engine import Detectors
from .products import Products
from .schemas import CoverageOut, GoodPartLevels, InspectionRow
from .store.history import Filter, rows_of
from .store.models import Detail, Inspection

MORE_LIKE = 3
"""Good parts of which more would help."""
CONSIDERED = 200
"""The latest inspections among which some are proposed."""
PROPOSED = 5


def good_part_levels(detectors: Detectors, path: Path) -> GoodPartLevels:
    """How far parts reach that a detector did not know at the time: the good ones of its
    calibration, or the unlabelled ones that it learnt from the line, each without itself; otherwise
    each good part while it is left out."""
    detector = detectors.get(path)
    calibration = detector.calibration_
    threshold, map_threshold = detector.threshold_, detector.map_threshold_
    if calibration is None or not threshold or not map_threshold:
        return GoodPartLevels(kind="none", levels=[])
    if calibration.scores:
        moved = calibration.threshold / threshold  # where the threshold was set by hand
        levels = [moved * score for score in calibration.scores]
        return GoodPartLevels(kind="calibration", levels=levels)
    if detector.unlabelled_ is not None:
        return GoodPartLevels(kind="line", levels=sorted(line_levels(detector).values()))
    found = detector.view_.leave_one_out()
    pairs = zip(found.scores, found.peaks, strict=True)
    levels = sorted(level_of(score, threshold, peak, map_threshold) for score, peak in pairs)
    return GoodPartLevels(kind="leave-one-out" if levels else "none", levels=levels)


def coverage_advice(detectors: Detectors, products: Products, product_id: str) -> CoverageOut:
    """How well the good parts of a product cover new ones, and what to add: more of those that
    fewer others resemble than usual, over all layers, and parts that passed."""
    _, path, revision = products.detector(product_id)
    detector = detectors.get(path)
    passed = _uncovered(products, product_id, revision, detector)
    try:
        found = cover_learnt(detector)
    except UsageError:  # too few good parts
        return CoverageOut(covered=None, more_like=[], inspections=passed)
    shares = np.mean([layer.shares for layer in found.layers], axis=0)
    usual = shares.mean() - 1e-9
    lonely = [place for place in shares.argsort(kind="stable") if shares[place] < usual]
    return CoverageOut(
        covered=float(1 - found.missed[-1]),
        more_like=[found.images[place] for place in lonely[:MORE_LIKE]],
        inspections=passed,
    )


def _uncovered(
    products: Products, product_id: str, revision: int, detector: HyperFSAD
) -> list[InspectionRow]:
    """Parts that passed, or were called fine, and resemble no learnt one: the least first. Their
    CLS score is higher than that of every good part against the others."""
    bank = detector.memory_
    upright = numbers(bank.cls[[entries[0] for entries in bank.entries]])
    if len(upright) < 2:
        return []
    level = float(held_out_scores(token_distances(upright)).mean(axis=0).max())
    query = (
        Filter(product_id)
        .query()
        .add_columns(Detail.record["score_cls"].as_float().label("score_cls"))
        .join(Detail, Detail.inspection_id == Inspection.id)
        .where(Inspection.revision == revision)
        .order_by(Inspection.number.desc())
        .limit(CONSIDERED)
    )
    with products.store.database.reading() as session:
        rows = session.execute(query).all()
    apart: dict[str, Any] = {}
    for row in rows:
        fine = row.label == "fine" or (row.label is None and row.verdict == "good")
        if fine and row.score_cls is not None and row.score_cls > level:
            apart.setdefault(row.image, row)  # one picture of each content
    return rows_of(sorted(apart.values(), key=lambda row: -row.score_cls)[:PROPOSED])
