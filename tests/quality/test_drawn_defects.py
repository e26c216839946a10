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
def test_a_defect_has_its_size(plate: Image.Image, kind: str, share: float) -> None:
    rows, columns = np.nonzero(
        changed(plate, draw_defect(plate, DrawnDefect(kind, share, True, 3)))
    )
    size = share * 512
    assert 0.3 * size <= max(np.ptp(rows), np.ptp(columns)) + 1 <= 1.4 * size + 6


@pytest.mark.parametrize("kind", DEFECT_KINDS)
def test_a_seed_draws_the_same_defect_and_another_seed_another(
    plate: Image.Image, kind: str
) -> None:
    first, again, other = (
        draw_defect(plate, DrawnDefect(kind, 0.08, True, seed)) for seed in (1, 1, 2)
    )
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


@pytest.mark.parametrize("kind", DEFECT_KINDS)
def test_a_clear_defect_changes_more_than_a_faint_one(plate: Image.Image, kind: str) -> None:
    def change(clear: bool) -> float:
        drawn = [draw_defect(plate, DrawnDefect(kind, 0.08, clear, seed)) for seed in range(8)]
        return float(np.mean([np.abs(np.asarray(plate, int) - np.asarray(d, int)) for d in drawn]))

    assert change(True) > 1.2 * change(False)


def test_defects_lie_on_the_part(plate: Image.Image) -> None:
    part, _ = find_part(plate)
    assert 0.3 < part.mean() < 0.8
    assert not part[[0, -1]].any()  # the bench around the plate is not part of it
    for seed in range(10):
        drawn = draw_defect(plate, DrawnDefect("stain", 0.02, True, seed))
        places = np.argwhere(changed(plate, drawn)).mean(axis=0) * len(part) / 512
        assert part[tuple(places.astype(int))]


def test_a_texture_is_a_part_all_over() -> None:
    part, _ = find_part(draw("fabric", seed=1).image)
    assert part.all()


def test_a_grey_picture_gets_grey_defects(plate: Image.Image) -> None:
    grey = plate.convert("L").convert("RGB")
    for kind in DEFECT_KINDS:
        pixels = np.asarray(draw_defect(grey, DrawnDefect(kind, 0.16, True, 5)), int)
        assert np.ptp(pixels, axis=2).max() <= 1


@pytest.mark.parametrize("size", [(8, 8), (9, 300), (300, 9), (1100, 700)])
def test_pictures_of_any_size_can_be_drawn_upon(size: tuple[int, int]) -> None:
    image = Image.new("RGB", size, (90, 120, 60))
    for kind in DEFECT_KINDS:
        for share in DEFECT_SIZES:
            assert draw_defect(image, DrawnDefect(kind, share, True, 0)).size == size
