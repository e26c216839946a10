"""Which good parts to add: what the learnt ones cover, and inspections that they do not."""

from typing import Any

import numpy as np
from sqlalchemy import select

from ..detector.detector import HyperFSAD
from ..errors import UsageError
from ..quality.coverage import Coverage, cover_learnt
from ..quality.miss_rates import held_out_scores, token_distances
from ..quality.tokens import numbers
from .engine import Detectors
from .products import Products
from .store.history import row_of
from .store.models import Detail, Inspection
from .store.store import Store

NAMED = 3
"""Good parts of which more would help."""
LOOKED_AT = 200
"""The latest inspections among which some are proposed."""
PROPOSED = 5


class Advisor:
    """Of a store."""

    def __init__(self, store: Store, products: Products) -> None:
        self.store, self._products = store, products

    def advice(self, detectors: Detectors, product_id: str, chance: float) -> dict[str, Any]:
        """How well the good parts of a product cover new ones, and what to add."""
        name, path, revision = self._products.detector(product_id)
        detector = detectors.get(path)
        found: Coverage | None = None
        try:
            found = cover_learnt(detector, chance=chance)
            words = found.answer()
        except UsageError as error:
            words = str(error)
        return {
            "product": name,
            "product_id": product_id,
            "good_parts": len(detector.support_),
            "chance": chance,
            "needed": None if found is None else found.needed,
            "covered": None if found is None else float(1 - found.missed[-1]),
            "answer": words,
            "more_like": [] if found is None else lonely(found),
            "inspections": self._uncovered(product_id, revision, name, detector),
        }

    def _uncovered(
        self, product_id: str, revision: int, name: str, detector: HyperFSAD
    ) -> list[dict[str, Any]]:
        """Parts that passed, or were called fine, and resemble no learnt one: the least first."""
        level = _level(detector)
        if level is None:
            return []
        question = (
            select(Inspection, Detail.record["score_cls"].as_float())
            .join(Detail, Detail.inspection_id == Inspection.id)
            .where(Inspection.product_id == product_id, Inspection.revision == revision)
            .order_by(Inspection.time.desc(), Inspection.id.desc())
            .limit(LOOKED_AT)
        )
        with self.store.database.reading() as session:
            rows = session.execute(question).all()
        apart: dict[str, tuple[float, Inspection]] = {}
        for one, score in rows:
            fine = one.label == "fine" or (one.label is None and one.verdict == "good")
            if fine and score is not None and score > level:
                apart.setdefault(one.image, (score, one))  # one picture of each content
        ordered = sorted(apart.values(), key=lambda found: -found[0])
        return [row_of(one, name) for _, one in ordered[:PROPOSED]]


def lonely(found: Coverage) -> list[str]:
    """The good parts that fewer others resemble than usual, over all layers."""
    shares = np.mean([layer.shares for layer in found.layers], axis=0)
    order = sorted(range(len(found.names)), key=lambda place: (shares[place], place))
    usual = shares.mean() - 1e-9
    return [found.names[place] for place in order[:NAMED] if shares[place] < usual]


def _level(detector: HyperFSAD) -> float | None:
    """The highest CLS score of a good part against the others; None where there is one alone."""
    bank = detector.memory_
    upright = numbers(bank.cls[[entries[0] for entries in bank.entries]])
    if len(upright) < 2:
        return None
    return float(held_out_scores(token_distances(upright)).mean(axis=0).max())
