"""Galleries: one scale for each method, truth where there is some, and captions that fit."""

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from hyperfsad.demo.drawing import draw
from hyperfsad.lab.drawing.canvas import save_figure
from hyperfsad.lab.drawing.galleries import (
    GalleryRow,
    map_scale,
    qualitative_grid,
    truth_over_map,
)

GREY = Image.new("RGB", (80, 80), (128, 128, 128))


def block(*values: float) -> NDArray[np.float32]:
    """A pixel map of zeros with a block of each value, from left to right."""
    field = np.zeros((80, 80), dtype=np.float32)
    for index, value in enumerate(values):
        field[30:46, 4 + 20 * index : 20 + 20 * index] = value
    return field


def colour(axes: Axes, x: float, y: float) -> tuple[int, ...]:
    """Of a tile, at a place between 0 and 1."""
    tile = np.asarray(axes.images[0].get_array())
    return tuple(tile[int(y * tile.shape[0]), int(x * tile.shape[1])].tolist())


def tiles(figure: Figure, columns: int, rows: int) -> list[list[Axes]]:
    """The axes of the grid, row by row; colour bars come after them."""
    return [figure.axes[columns * row : columns * (row + 1)] for row in range(rows)]


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


@pytest.fixture
def parts() -> list[GalleryRow]:
    rows = []
    for seed, defect in enumerate((None, "scratch", "stain")):
        part = draw("plate", seed=seed, defect=defect, size=128)
        small = np.asarray(
            Image.fromarray(part.mask.astype(np.float32)).resize((16, 16), Image.Resampling.BOX)
        )
        mask = part.mask if defect else None
        rows.append(GalleryRow(f"plate\n{defect}", part.image, mask, {"a": small, "b": 7 * small}))
    return rows


@pytest.mark.parametrize("kind", ["grid", "truth"])
def test_files_are_valid_and_the_same_every_time(
    kind: str, parts: list[GalleryRow], tmp_path: Path
) -> None:
    contents = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        figure = truth_over_map(parts, "a") if kind == "truth" else qualitative_grid(parts, ["a"])
        contents.append([path.read_bytes() for path in save_figure(figure, folder, kind)])
    assert contents[0] == contents[1]
    png, pdf = contents[0]
    with Image.open(io.BytesIO(png)) as picture:
        assert np.asarray(picture.convert("L")).std() > 5
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")


def test_one_value_has_one_colour_in_all_rows() -> None:
    rows = [
        GalleryRow("calm", GREY, None, {"m": block(3.0)}),
        GalleryRow("loud", GREY, None, {"m": block(3.0, 5.0)}),
    ]
    (_, _, calm), (_, _, loud) = tiles(qualitative_grid(rows, ["m"]), 3, 2)
    three, five, zero = (0.15, 0.48), (0.40, 0.48), (0.9, 0.1)
    assert colour(calm, *three) == colour(loud, *three)
    assert colour(calm, *three) != colour(calm, *zero)
    assert colour(loud, *five) != colour(loud, *three)
    assert colour(calm, *zero) == colour(loud, *zero) == (128, 128, 128)


def test_each_method_has_a_scale_of_its_own() -> None:
    rows = [GalleryRow("x", GREY, None, {"m": block(3.0, 5.0), "n": 100 * block(3.0, 5.0)})]
    ((_, _, first, second),) = tiles(qualitative_grid(rows, ["m", "n"]), 4, 1)
    for x in (0.15, 0.40):
        assert colour(first, x, 0.48) == colour(second, x, 0.48)
    assert map_scale(rows, "n") == pytest.approx(tuple(100 * v for v in map_scale(rows, "m")))


def test_a_patch_grid_is_drawn_smoothly_and_a_flat_map_does_not_glow() -> None:
    grid, flat = np.zeros((8, 8), dtype=np.float32), np.full((4, 4), 0.25, dtype=np.float32)
    grid[4, 4] = 1
    row = GalleryRow("x", GREY, None, {"m": grid, "n": flat})
    ((_, _, first, second),) = tiles(qualitative_grid([row], ["m", "n"]), 4, 1)
    tile = np.asarray(first.images[0].get_array())
    assert len(np.unique(tile[int(4.5 / 8 * len(tile))], axis=0)) > 8
    assert colour(second, 0.5, 0.5) == (128, 128, 128)


def test_columns_titles_and_labels(parts: list[GalleryRow]) -> None:
    figure = qualitative_grid(parts, ["a", "b"])
    assert sum(axes.get_visible() for axes in figure.axes) == 3 * 4 + 2
    assert [axes.get_title() for axes in figure.axes[:4]] == ["image", "truth", "a", "b"]
    assert [axes.get_ylabel() for axes in figure.axes[:12:4]] == [row.label for row in parts]


def test_nothing_written_overlaps(parts: list[GalleryRow]) -> None:
    methods = ["a method with a long name", "another-method-with-a-longer-name"]
    rows = [
        GalleryRow(row.label, row.image, row.mask, dict.fromkeys(methods, row.maps["a"]))
        for row in parts
    ]
    figure = qualitative_grid(rows, methods)
    figure.draw_without_rendering()
    boxes = [axes.title.get_window_extent() for axes in figure.axes[:4]]
    boxes += [axes.yaxis.label.get_window_extent() for axes in figure.axes[:12:4]]
    boxes += [axes.get_window_extent() for axes in figure.axes if axes.get_visible()]
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index])
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


def test_truth_is_white_on_black(parts: list[GalleryRow]) -> None:
    _, _, (_, truth, _) = tiles(qualitative_grid(parts, ["a"]), 3, 3)
    tile = np.asarray(truth.images[0].get_array())
    mask = parts[2].mask
    assert mask is not None
    assert tile.mean() / 255 == pytest.approx(mask.mean(), rel=0.05)


def test_a_missing_truth_is_a_dash(parts: list[GalleryRow]) -> None:
    first, *_ = tiles(qualitative_grid(parts, ["a"]), 3, 3)
    assert texts(first[1]) == ["–"]
    assert not first[1].images


def outlines(axes: Axes) -> int:
    return sum(isinstance(artist, QuadContourSet) for artist in axes.collections)


def test_the_outline_is_there_where_there_is_truth(parts: list[GalleryRow]) -> None:
    empty = GalleryRow("empty", GREY, np.zeros((80, 80), dtype=bool), {"a": block(1.0)})
    figure = truth_over_map([*parts, empty], "a")
    assert [outlines(axes) > 0 for axes in figure.axes[:4]] == [False, True, True, False]


def test_the_outline_lies_around_the_defect() -> None:
    mask = np.zeros((1000, 1000), dtype=bool)
    mask[200, 700] = True  # a single pixel must not get lost on the small tile
    row = GalleryRow("x", GREY.resize((1000, 1000)), mask, {"a": block(1.0)})
    axes = truth_over_map([row], "a").axes[0]
    (contour, *_) = (c for c in axes.collections if isinstance(c, QuadContourSet))
    side = np.asarray(axes.images[0].get_array()).shape[0]
    middle = np.asarray(contour.get_paths()[0].vertices).mean(axis=0)
    assert middle / side == pytest.approx([0.7, 0.2], abs=0.005)


def test_many_small_tiles_with_captions_that_fit() -> None:
    label = "a category\nwith a very, very long name of its defect"
    rows = [GalleryRow(label, GREY, None, {"a": block(1.0)}) for _ in range(19)]
    figure = truth_over_map(rows, "a")
    figure.draw_without_rendering()
    captions = [axes.xaxis.label for axes in figure.axes if "category" in axes.get_xlabel()]
    assert len(captions) == 19
    assert all(text.get_text().endswith("…") for text in captions)
    tile = figure.axes[0].get_window_extent()
    assert max(text.get_window_extent().width for text in captions) <= tile.width
    boxes = [text.get_window_extent() for text in captions]
    boxes += [axes.get_window_extent() for axes in figure.axes[:19]]
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index])


@pytest.mark.parametrize("size", [(160, 80), (60, 160)])
def test_the_shape_of_the_image_is_kept(size: tuple[int, int]) -> None:
    row = GalleryRow("x", GREY.resize(size), np.ones((80, 80), dtype=bool), {"a": block(1.0)})
    for figure in (qualitative_grid([row], ["a"]), truth_over_map([row], "a")):
        figure.draw_without_rendering()
        box = figure.axes[0].get_window_extent()
        assert box.width / box.height == pytest.approx(size[0] / size[1], rel=0.02)
