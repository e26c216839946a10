"""The demo: draws parts, learns from some of them and judges others."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..detector.detector import HyperFSAD
from ..detector.pipeline import inspect
from ..images.loading import save_picture
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
        progress(f"{product}: inspecting {len(photos)} parts")
        for kind, record in zip(kinds, inspect(fitted, photos, place), strict=True):
            score, threshold, verdict = (record[n] for n in ("score", "threshold", "anomalous"))
            rows.append(DemoRow(record["image"], kind, score, threshold, verdict))
    return rows


def _draw_file(folder: Path, product: str, seed: int, kind: str = "good") -> str:
    part = draw(product, seed=seed, defect=None if kind == "good" else kind)
    path = folder / f"{seed:03d} {kind}.png"
    save_picture(part.image, path, parents=True)
    return str(path)
