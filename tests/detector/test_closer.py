"""Looking closer: resolution and tiles, chosen from the good parts within a budget."""

from pathlib import Path

import numpy as np
import pytest

from hyperfsad import HyperFSAD, ProductDetector, UsageError
from hyperfsad.cli.main import main
from hyperfsad.detector.closer import Look, cost, look_closer
from hyperfsad.encoders import EncoderSettings
from hyperfsad.views import count_tiles
from tests.conftest import make_picture

WHITE = (0.5, 0.5, 0.5)
SETTINGS = EncoderSettings("any", (1,), 448, 14, WHITE, WHITE, False)
LARGE = (1280, 960)


def look(size: tuple[int, int], budget: float | None, **more: bool) -> Look:
    return look_closer(size, SETTINGS, budget, **more)


@pytest.mark.parametrize("budget", [None, 100.0])
def test_small_pictures_are_looked_at_as_they_are(budget: float | None) -> None:
    assert look((600, 448), budget) == Look(448, None, None)


def test_without_a_budget_large_pictures_are_reduced_and_that_is_said() -> None:
    found = look(LARGE, None)
    tiles = 1 + count_tiles(LARGE, 448, 32)
    assert (found.resolution, found.tile) == (448, None)
    assert found.reason is not None
    assert "40×30 of their pixels" in found.reason
    assert f"--budget {tiles}:" in found.reason


def test_the_closest_look_that_the_budget_allows_is_taken() -> None:
    tiles = 1 + count_tiles(LARGE, 448, 32)
    assert look(LARGE, tiles).tile == 448
    assert look(LARGE, tiles - 1).tile is None
    assert look(LARGE, tiles, tiles=False).resolution == 672
    assert look(LARGE, 3.2).resolution == 672
    assert look(LARGE, 2).resolution == 560
    assert look(LARGE, 1.5).resolution == 448
    assert look((680, 500), 4).resolution == 672  # no larger than the picture


def test_cost_grows_faster_than_the_patches() -> None:
    assert cost(1) == pytest.approx(1)
    assert 2.25 < cost(1.5) < 2.25**2


def test_a_fitted_detector_keeps_its_look(tiny: str, tmp_path: Path) -> None:
    said: list[str] = []
    large = [make_picture(seed, (160, 160)) for seed in range(3)]
    closer = HyperFSAD(tiny, budget=2, rotations=1, device="cpu", notify=said.append)
    usual = closer.settings.resolution
    closer.fit(large, threshold=False)
    assert usual < closer.settings.resolution <= 1.5 * usual
    assert f"{closer.settings.resolution} instead of {usual}" in said[0]
    score = closer.predict(large[0]).score
    closer.save(tmp_path / "closer.hfsad")
    again = HyperFSAD.load(tmp_path / "closer.hfsad", device="cpu")
    assert again.settings == closer.settings
    assert again.predict(large[0]).score == score
    closer.fit([make_picture(seed, (64, 64)) for seed in range(2)], threshold=False)
    assert closer.settings.resolution == usual  # each fit chooses anew


def test_tiles_are_taken_for_parts_that_lie_still(tiny: str) -> None:
    part = np.asarray(make_picture(3, (160, 160))).astype(int)
    large = [np.clip(part + seed, 0, 255).astype(np.uint8) for seed in range(3)]
    for rotations in (1, None):
        for images in (large[:2], large):
            closer = HyperFSAD(tiny, budget=50, rotations=rotations, device="cpu")
            closer.fit(images, threshold=False)
            assert closer.tile_side == closer.settings.resolution
            assert closer.rotations_ == 1
    told = HyperFSAD(tiny, budget=50, tiles=False, rotations=1, device="cpu")
    assert told.fit(large, threshold=False).tile_side is None


def test_a_small_budget_leaves_turned_copies_out(tiny: str) -> None:
    plain = HyperFSAD(tiny, budget=1, device="cpu").fit([make_picture(0)], threshold=False)
    assert (plain.rotations_, plain.tentative_) == (1, False)


def test_what_is_no_budget_is_refused(tiny: str) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        HyperFSAD(tiny, budget=0.5)
    with pytest.raises(UsageError, match="one product"):
        ProductDetector(tiny, budget=3)


def test_the_command_line(tiny: str, photos: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "part.hfsad")
    options = ["--backbone", tiny, "--max-cost", "50", "--rotations", "1", "--tiles", "no"]
    assert main(["fit", str(photos), "-o", file, *options]) == 0
    assert HyperFSAD.load(file).tile_side is None
    assert main(["fit", str(photos), "-o", file, "--max-cost", "0"]) == 1
