"""Learning from the line: what the latest unlabelled parts would change, and the change itself.

Each time it begins with the good parts alone, so that no part stays that a person has called bad
since. A proposal names its latest inspection; what came later does not count when it is applied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ..decisions.line import MANY_BAD, PLENTY
from ..decisions.thresholds import level_of
from ..detector.adapting import MOST_PARTS
from ..detector.detector import HyperFSAD
from ..errors import HyperfsadError
from ..messages import Notice
from .engine import Detectors, StationEngine
from .monitoring import LOG
from .products import Products, noted, shown_product
from .refusals import BusyError, ConflictError, public, station_text
from .schemas import AdaptingOut, InspectionRow, ProductOut, ProposalOut
from .store.audit import Actor, audit
from .store.history import Filter, rows_of
from .store.models import Detail, Image, Inspection, ProductRow, Support
from .store.store import Store, product_of

PROPOSED_AFTER = PLENTY, 24, MOST_PARTS
"""Parts after which something is proposed."""
LINE_CONSIDERED = 200
"""The latest inspections among which they are found."""


@dataclass(frozen=True)
class Adapted:
    """A detector that has learnt from a line, and what that means."""

    before: str
    line: tuple[str, ...]
    """The inspections that it was shown."""
    detector: HyperFSAD
    notes: list[Any]
    levels: Mapping[str, float]
    """How far each part reaches without itself; above 1 it is anomalous. Copies have none."""
    bad: frozenset[str]

    @property
    def parts(self) -> int:
        """How many parts could be told apart."""
        assert self.detector.calibration_ is not None
        return self.detector.calibration_.images

    @property
    def doubtful(self) -> bool:
        """Whether so many look bad that nobody can tell what is usual."""
        return len(self.bad) > MANY_BAD * self.parts


class Adapting:
    """Proposals for the products of a store; all that learns runs in the engine's thread."""

    def __init__(self, store: Store, products: Products, engine: StationEngine) -> None:
        self.store, self._products, self._engine = store, products, engine
        self._latest: Adapted | None = None
        self._tried: dict[str, int] = {}
        """The step that each product came to by itself in this process, whatever became of it."""

    def state(self, product_id: str) -> ProposalOut:
        """How many parts there are, and whether it is time to learn from them."""
        with self.store.database.reading() as session:
            return _state(session, product_of(session, product_id))

    def propose(self, detectors: Detectors, actor: Actor, product_id: str) -> ProposalOut:
        """What would change if the product learnt from its latest parts."""
        with self.store.database.reading() as session:
            product = product_of(session, product_id)
            line = _line_of(session, product_id)
        found = self._adapted(detectors, product.detector or "", line)
        shown, levels = line[::-1], found.levels
        passing = [
            one for one in shown if one.verdict == "anomalous" and levels.get(one.id, 2) <= 1
        ]
        failing = [one for one in shown if one.verdict == "good" and levels.get(one.id, 0) > 1]
        change = AdaptingOut(
            latest=line[-1].id,
            parts=found.parts,
            bad=[one for one in shown if one.id in found.bad],
            doubtful=found.doubtful,
            threshold=product.summary["threshold"],
            new_threshold=found.detector.threshold_,
            inspections=len(levels),
            passing=passing,
            failing=failing,
        )
        with self.store.database.writing() as session:
            told = f"{len(passing)} anomalous ones would pass, {len(failing)} good ones would not"
            audit(session, actor, "adapting proposed", product_id, f"{_told(found)}; {told}")
            return _state(session, product).model_copy(update={"change": change})

    def adapt(
        self,
        detectors: Detectors,
        actor: Actor,
        product_id: str,
        latest: str | None = None,
        *,
        alone: bool = False,
    ) -> ProductOut:
        """Learns from the parts up to the inspection `latest`; `alone`: without a person, where it
        is time to and not many look bad."""
        with self._products.changing(detectors, product_id) as change:
            with self.store.database.reading() as session:
                product = product_of(session, product_id)
                line = _line_of(session, product_id, latest)
            if alone and not _is_due(product, len(line)):  # another station did it
                return shown_product(product)
            found = self._adapted(detectors, change.before, line)
            if alone and found.doubtful:
                raise ConflictError("adapting-doubtful", bad=len(found.bad), count=found.parts)
            change.detector, change.notes = found.detector, found.notes
            change.after = self._products.saved(found.detector)
            with self.store.database.writing() as session:
                product = self._products.replace(
                    session, change, actor, "adapted", str(found.parts)
                )
                product.adapted = len(line)
                audit(session, actor, "product adapted", product_id, _told(found))
                return shown_product(product)

    def consider(self, product_id: str) -> None:
        """Has a product adapt by itself, if its switch is on and enough parts have come. Whoever
        asks has nothing to do with how that ends."""
        try:
            with self.store.database.reading() as session:
                product = session.get(ProductRow, product_id)
                if product is None or not product.adapt_automatically:
                    return
                done = max(product.adapted, self._tried.get(product_id, 0))
                if done >= PROPOSED_AFTER[-1]:
                    return
                parts = len(_line_of(session, product_id))
                due = _is_due(product, parts)
            step = max((step for step in PROPOSED_AFTER if step <= parts), default=0)
            if due and step > done:
                self._engine.call(partial(self._by_itself, product_id=product_id))
                self._tried[product_id] = step
        except BusyError:  # the next part asks again
            pass
        except Exception:
            LOG.exception("whether product %s should adapt could not be told", product_id)

    def _by_itself(self, detectors: Detectors, *, product_id: str) -> None:
        actor = Actor("station")
        try:
            self.adapt(detectors, actor, product_id, alone=True)
        except HyperfsadError as error:
            told = station_text(public(error))
            LOG.warning("product %s did not adapt: %s", product_id, told)
            with self.store.database.writing() as session:
                audit(session, actor, "adapting refused", product_id, told)
        except Exception:
            LOG.exception("product %s did not adapt", product_id)

    def _adapted(self, detectors: Detectors, before: str, line: Sequence[InspectionRow]) -> Adapted:
        """The detector that has learnt from a line; the latest one is kept, since what was
        proposed is often applied."""
        if len(line) < PROPOSED_AFTER[0]:
            raise ConflictError("adapting-too-early", parts=len(line), needed=PROPOSED_AFTER[0])
        ids = tuple(one.id for one in line)
        known = self._latest
        if known is not None and (known.before, known.line) == (before, ids):
            return known
        self._latest = None  # first: it may be large
        detector = detectors.copy(self.store.files.detector(before))
        _afresh(detector).unlabelled_ = None
        with self.store.database.reading() as session:
            images = {one.image: session.get_one(Image, one.image) for one in line}
        paths = {
            str(self.store.files.image(one.image, images[one.image].suffix)): one for one in line
        }
        with noted(detector) as notes:
            detector.adapt(list(paths))
        noticed = {note.code: note.facts for note in notes if isinstance(note, Notice)}
        bad = dict(noticed.get("line-bad", {}).get("parts", []))
        levels = {paths[path].id: level for path, level in {**bad, **line_levels(detector)}.items()}
        names = {path: f"{one.name} ({one.id})" for path, one in paths.items()}
        shown = {path: one.name for path, one in paths.items()}
        self._latest = Adapted(
            before,
            ids,
            _renamed(_afresh(detector), names),
            [public(note, shown) if isinstance(note, Notice) else note for note in notes],
            levels,
            frozenset(paths[path].id for path in bad),
        )
        return self._latest


def _line_of(session: Session, product_id: str, latest: str | None = None) -> list[InspectionRow]:
    """The latest parts that a product may learn from, one inspection of each picture, the first
    ones first: those whose picture is kept, that are no learnt good part, that do not look like
    another product, and that nobody has called bad."""
    own = Inspection.product_id == product_id
    bad = select(Inspection.image).where(own, Inspection.label == "bad")
    learnt = select(Support.image).where(Support.product_id == product_id)
    query = (
        Filter(product_id)
        .query()
        .join(Detail, Detail.inspection_id == Inspection.id)
        .join(Image, Image.sha256 == Inspection.image)
        .where(Image.kept, Inspection.image.not_in(bad), Inspection.image.not_in(learnt))
        .where(Detail.record["foreign"].as_boolean().is_not(True))
    )
    if latest is not None:
        number = select(Inspection.number).where(own, Inspection.id == latest)
        query = query.where(Inspection.number <= number.scalar_subquery())
    query = query.order_by(Inspection.number.desc()).limit(LINE_CONSIDERED)
    found: dict[str, InspectionRow] = {}
    for row in rows_of(session.execute(query)):
        found.setdefault(row.image, row)
    return list(found.values())[:MOST_PARTS][::-1]


def _is_due(product: ProductRow, parts: int) -> bool:
    """Whether a step was reached since the product last learnt; one with tiles cannot learn."""
    return not product.summary["tiles"] and any(
        product.adapted < s <= parts for s in PROPOSED_AFTER
    )


def _state(session: Session, product: ProductRow) -> ProposalOut:
    parts, found = len(_line_of(session, product.id)), product.summary
    few = found["threshold_method"] == "line" and found["threshold_images"] < PROPOSED_AFTER[0]
    preliminary = found["threshold_method"] in ("support", "few") or (few and not product.adapted)
    return ProposalOut(
        parts=parts,
        needed=max(0, PROPOSED_AFTER[0] - parts),
        adapted=product.adapted,
        due=_is_due(product, parts),
        preliminary=preliminary and not found["tiles"],
    )


def _afresh(detector: HyperFSAD) -> HyperFSAD:
    """Lets go of what it has ready for its unlabelled parts."""
    return detector.remember(detector.memory_, detector.core_)


def line_levels(detector: HyperFSAD) -> dict[str, float]:
    """How far the parts reach that a detector has kept, each without itself."""
    kept, threshold = detector.unlabelled_, detector.threshold_
    assert kept is not None
    assert threshold is not None
    scores = [detector.score_tokens(kept.tokens_of(part))[0] for part in range(len(kept))]
    pairs = zip(kept.images, scores, strict=True)
    return {
        image.name: level_of(one.score, threshold, one.peak, detector.map_threshold_)
        for image, one in pairs
    }


def _renamed(detector: HyperFSAD, names: Mapping[str, str]) -> HyperFSAD:
    """The same, without paths of this machine."""
    kept = detector.unlabelled_
    assert kept is not None
    images = tuple(replace(image, name=names[image.name]) for image in kept.images)
    detector.unlabelled_ = replace(kept, images=images)
    return detector


def _told(found: Adapted) -> str:
    return f"{found.parts} parts, {len(found.bad)} look bad, threshold {found.detector.threshold_}"
