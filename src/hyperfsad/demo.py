"""The main job on parts that it draws itself: some to learn from, others to judge."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .detector import HyperFSAD
from .files import atomic_path
from .outputs import OutputFolder
from .parts import PRODUCTS, draw
from .results import AnomalyResult

SUPPORT = 4
REFERENCE = 4
"""Further good parts, which draw the line between good and defective."""
MARGIN = 1.2
"""The line lies this much above the highest of their scores, since four are few."""


@dataclass(frozen=True)
class DemoRow:
    """One judged part."""

    image: str
    shown: str
    """What was drawn: "good", or the defect."""
    score: float
    line: float
    """Above it, a part of this product is called defective."""

    @property
    def verdict(self) -> str:
        return "defect" if self.score > self.line else "good"


def run_demo(
    folder: Path, detector: Callable[[], HyperFSAD], progress: Callable[[str], None]
) -> list[DemoRow]:
    """Draws the parts below `folder`, judges them and writes the results of each product."""
    rows = []
    for product, defects in PRODUCTS.items():
        place = folder / product
        kinds = ["good", "good", *defects]
        good = [_drawn(place / "good", product, seed) for seed in range(SUPPORT)]
        reference = [
            _drawn(place / "reference", product, SUPPORT + seed) for seed in range(REFERENCE)
        ]
        photos = [
            _drawn(place / "photos", product, SUPPORT + REFERENCE + seed, kind)
            for seed, kind in enumerate(kinds)
        ]
        progress(f"{product}: learning from {SUPPORT} good parts")
        fitted = detector().fit(good)
        line = MARGIN * max(result.score for result in fitted.predict(reference))
        with OutputFolder(place, run="demo", support=fitted.memory_.images).open() as output:
            for photo, kind in zip(photos, kinds, strict=True):
                progress(f"{product}: {kind}")
                result: AnomalyResult = fitted.predict(photo)
                output.add(result)
                rows.append(DemoRow(photo, kind, result.score, line))
            output.finish(photos)
    return rows


def _drawn(folder: Path, product: str, seed: int, kind: str = "good") -> str:
    part = draw(product, seed=seed, defect=None if kind == "good" else kind)
    path = folder / f"{seed:03d} {kind}.png"
    with atomic_path(path) as temporary:
        part.image.save(temporary, format="PNG")
    return str(path)
