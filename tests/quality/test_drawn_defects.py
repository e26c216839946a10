"""Drawn defects: always the same, on the part, of the size that was asked for."""

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from hyperfsad.demo.drawing import draw
from hyperfsad.quality.drawn_defects import (
    DEFECT_KINDS,
    DEFECT_SIZES,
    DrawnDefect,
    draw_defect,
    find_part,
)


@pytest.fixture(scope="module")
def plate() -> Image.Image:
    """A part on a dark bench."""
    return draw("plate", seed=1).image


def changed(image: Image.Image, drawn: Image.Image) -> NDArray[np.bool_]:
    differs = np.abs(np.asarray(image, int) - np.asarray(drawn, int)) > 0
    return np.asarray(differs.any(axis=2), dtype=bool)


@pytest.mark.parametrize("kind", DEFECT_KINDS)
@pytest.mark.parametrize("share", DEFECT_SIZES)
def test_a_defect_has_its_size_and_its_place(plate: Image.Image, kind: str, share: float) -> None:
    drawn = draw_defect(plate, DrawnDefect(kind, share, True, 3))
    assert drawn.size == pytest.approx(max(3, share * 512))
    left, top, right, bottom = drawn.box
    assert max(right - left, bottom - top) <= 1.7 * drawn.size + 6
    differs = changed(plate, drawn.image)
    assert differs[top:bottom, left:right].any()
    differs[top:bottom, left:right] = False
    # a soft edge may reach a little beyond the box, and rounding may move a value by one there
    rest = np.abs(np.asarray(plate, int) - np.asarray(drawn.image, int))[differs]
    assert rest.size == 0 or rest.max() <= 5


@pytest.mark.parametrize("kind", DEFECT_KINDS)
def test_a_seed_draws_the_same_defect_and_another_seed_another(
    plate: Image.Image, kind: str
) -> None:
    first, again, other = (
        draw_defect(plate, DrawnDefect(kind, 0.08, True, seed)) for seed in (1, 1, 2)
    )
    assert first.image.tobytes() == again.image.tobytes()
    assert first.image.tobytes() != other.image.tobytes()


@pytest.mark.parametrize("kind", DEFECT_KINDS)
def test_a_clear_defect_changes_more_than_a_faint_one(plate: Image.Image, kind: str) -> None:
    def change(clear: bool) -> float:
        drawn = [
            draw_defect(plate, DrawnDefect(kind, 0.08, clear, seed)).image for seed in range(8)
        ]
        return float(np.mean([np.abs(np.asarray(plate, int) - np.asarray(d, int)) for d in drawn]))

    assert change(True) > 1.2 * change(False)


def test_defects_lie_on_the_part(plate: Image.Image) -> None:
    part, factor = find_part(plate)
    assert factor == 1
    assert 0.3 < part.mean() < 0.8
    for seed in range(10):
        left, top, right, bottom = draw_defect(plate, DrawnDefect("stain", 0.02, True, seed)).box
        assert part[(top + bottom) // 2, (left + right) // 2]


def test_a_texture_is_a_part_all_over() -> None:
    part, _ = find_part(draw("fabric", seed=1).image)
    assert part.all()


def test_a_large_picture_is_reduced_to_find_its_part(plate: Image.Image) -> None:
    large = plate.resize((1100, 1100))
    part, factor = find_part(large)
    assert factor == 3
    assert part.shape == (367, 367)
    drawn = draw_defect(large, DrawnDefect("scratch", 0.16, True, 0))
    assert drawn.image.size == large.size
    assert drawn.size == pytest.approx(176)


def test_a_grey_picture_gets_grey_defects(plate: Image.Image) -> None:
    grey = plate.convert("L").convert("RGB")
    for kind in DEFECT_KINDS:
        pixels = np.asarray(draw_defect(grey, DrawnDefect(kind, 0.16, True, 5)).image, int)
        assert np.ptp(pixels, axis=2).max() <= 1


@pytest.mark.parametrize("size", [(8, 8), (9, 300), (300, 9)])
def test_the_smallest_pictures_can_be_drawn_upon(size: tuple[int, int]) -> None:
    image = Image.new("RGB", size, (90, 120, 60))
    for kind in DEFECT_KINDS:
        for share in DEFECT_SIZES:
            assert draw_defect(image, DrawnDefect(kind, share, True, 0)).image.size == size
