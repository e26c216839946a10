"""The demo: draws parts, learns from some of them and inspects others."""

from collections.abc import Callable
from pathlib import Path

from ..detector.detector import HyperFSAD
from ..detector.pipeline import inspect
from ..images.loading import save_picture
from ..report.records import Record
from .drawing import PRODUCTS, draw

SUPPORT = 4
FIRST_PHOTO = 8
"""The first seed of inspected parts, so that none of them was learnt."""


def run_demo(
    folder: Path, detector: Callable[[], HyperFSAD], progress: Callable[[str], None]
) -> list[tuple[str, Record]]:
    """Draws parts below `folder` and inspects them; returns what was drawn, and the records."""
    rows: list[tuple[str, Record]] = []
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
        rows += zip(kinds, inspect(fitted, photos, place), strict=True)
    return rows


def _draw_file(folder: Path, product: str, seed: int, kind: str = "good") -> str:
    part = draw(product, seed=seed, defect=None if kind == "good" else kind)
    path = folder / f"{seed:03d} {kind}.png"
    save_picture(part.image, path, parents=True)
    return str(path)
