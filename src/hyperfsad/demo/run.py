"""The demo: draws parts, learns from some of them and judges others."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..detector.hyperfsad import HyperFSAD
from ..images.loading import save_picture
from ..report.folder import OutputFolder
from ..results.result import AnomalyResult
from .drawing import PRODUCTS, draw

SUPPORT = 4
FIRST_PHOTO = 8
"""The first seed of judged parts, so that none of them was learnt."""


@dataclass(frozen=True)
class DemoRow:
    """One judged part."""

    image: str
    shown: str
    """What was drawn: "good", or the defect."""
    score: float
    threshold: float | None
    anomalous: bool | None

    @property
    def right(self) -> bool:
        """Whether the verdict agrees with what was drawn."""
        return self.anomalous == (self.shown != "good")


def run_demo(
    folder: Path, detector: Callable[[], HyperFSAD], progress: Callable[[str], None]
) -> list[DemoRow]:
    """Draws the parts below `folder`, judges them and writes the results of each product."""
    rows = []
    for product, defects in PRODUCTS.items():
        place = folder / product
        kinds = ["good", "good", *defects]
        good = [_draw_file(place / "good", product, seed) for seed in range(SUPPORT)]
        photos = [
            _draw_file(place / "photos", product, FIRST_PHOTO + seed, kind)
            for seed, kind in enumerate(kinds)
        ]
        progress(f"{product}: learning from {SUPPORT} good parts")
        fitted = detector().fit(good)
        with OutputFolder(place, run="demo", support=fitted.memory_.images).open() as output:
            for photo, kind in zip(photos, kinds, strict=True):
                progress(f"{product}: {kind}")
                result: AnomalyResult = fitted.predict(photo)
                output.add(result)
                rows.append(DemoRow(photo, kind, result.score, result.threshold, result.anomalous))
            output.finish(photos)
    return rows


def _draw_file(folder: Path, product: str, seed: int, kind: str = "good") -> str:
    part = draw(product, seed=seed, defect=None if kind == "good" else kind)
    path = folder / f"{seed:03d} {kind}.png"
    save_picture(part.image, path, parents=True)
    return str(path)
