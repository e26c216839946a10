"""Footnotes: they stand under every figure that is saved meanwhile, and nowhere else."""

import io
from pathlib import Path

import numpy as np
from PIL import Image

from hyperfsad.lab.drawing.canvas import footnote, save_figure
from hyperfsad.lab.drawing.charts import ablation_curves


def drawn(folder: Path) -> tuple[bytes, bytes]:
    figure = ablation_curves({"1-shot": [(0.0, 90.0, None), (1.0, 92.0, None)]}, "λ", "AUROC (%)")
    png, pdf = save_figure(figure, folder, "curve")
    return png.read_bytes(), pdf.read_bytes()


def test_a_footnote_is_drawn_below_and_only_inside(tmp_path: Path) -> None:
    plain = drawn(tmp_path / "plain")
    with footnote("mvtec, subset: 2 of 15 categories, 96 of 1,725 images."):
        noted = drawn(tmp_path / "noted")
        again = drawn(tmp_path / "again")
    with footnote(""):
        assert drawn(tmp_path / "empty") == plain
    assert drawn(tmp_path / "after") == plain
    assert noted == again
    pictures = [
        np.asarray(Image.open(io.BytesIO(png)).convert("L")) for png in (plain[0], noted[0])
    ]
    rows = [np.flatnonzero((picture < 128).any(axis=1)) for picture in pictures]
    below = [int(ink[-1] - ink[0]) for ink in rows]
    assert below[1] > below[0] + 10  # a line of text more than the curve has
