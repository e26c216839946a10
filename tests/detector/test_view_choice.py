"""Looking closer: resolution and tiles, chosen from the good parts within a maximum cost."""

from pathlib import Path

import numpy as np
import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from hyperfsad.detector.choices import ViewChoice, choose_view, resolution_cost
from hyperfsad.detector.settings import Auto
from hyperfsad.encoders import EncoderSettings
from hyperfsad.views import count_tiles
from tests.conftest import make_picture

WHITE = (0.5, 0.5, 0.5)
SETTINGS = EncoderSettings("any", (1,), 448, 14, WHITE, WHITE, False)
LARGE = (1280, 960)


def look(size: tuple[int, int], max_cost: float | None, **more: bool) -> ViewChoice:
    return choose_view(size, SETTINGS, max_cost, **more)


@pytest.mark.parametrize("max_cost", [None, 100.0])
def test_small_pictures_are_looked_at_as_they_are(max_cost: float | None) -> None:
    assert look((600, 448), max_cost) == ViewChoice(448, None, None)


def test_without_a_max_cost_large_pictures_are_reduced_and_that_is_said() -> None:
    found = look(LARGE, None)
    tiles = 1 + count_tiles(LARGE, 448, 32)
    assert (found.resolution, found.tile) == (448, None)
    assert found.notice is not None
    assert found.notice.code == "view-reduced"
    assert (found.notice.facts["across"], found.notice.facts["cost"]) == (40, tiles)


def test_the_closest_look_that_the_max_cost_allows_is_taken() -> None:
    tiles = 1 + count_tiles(LARGE, 448, 32)
    assert look(LARGE, tiles).tile == 448
    assert look(LARGE, tiles - 1).tile is None
    assert look(LARGE, tiles, tiles=False).resolution == 672
    assert look(LARGE, 3.2).resolution == 672
    assert look(LARGE, 2).resolution == 560
    assert look(LARGE, 1.5).resolution == 448
    assert look((680, 500), 4).resolution == 672  # no larger than the picture


def test_cost_grows_faster_than_the_patches() -> None:
    assert resolution_cost(1) == pytest.approx(1)
    assert 2.25 < resolution_cost(1.5) < 2.25**2


def test_a_fitted_detector_keeps_its_look(tiny: str, tmp_path: Path) -> None:
    said: list[str] = []
    large = [make_picture(seed, (160, 160)) for seed in range(3)]
    closer = HyperFSAD(tiny, max_cost=2, rotations=1, device="cpu")
    closer.notify = said.append
    usual = closer.encoding_.resolution
    closer.fit(large, threshold=False)
    assert usual < closer.encoding_.resolution <= 1.5 * usual
    assert f"{closer.encoding_.resolution} instead of {usual}" in said[0]
    score = closer.predict(large[0]).score
    closer.save(tmp_path / "closer.hfsad")
    again = HyperFSAD.load(tmp_path / "closer.hfsad", device="cpu")
    assert again.encoding_ == closer.encoding_
    assert again.predict(large[0]).score == score
    closer.fit([make_picture(seed, (64, 64)) for seed in range(2)], threshold=False)
    assert closer.encoding_.resolution == usual  # each fit chooses anew


def test_tiles_are_taken_for_parts_that_lie_still(tiny: str) -> None:
    part = np.asarray(make_picture(3, (160, 160))).astype(int)
    large = [np.clip(part + seed, 0, 255).astype(np.uint8) for seed in range(3)]
    choices: tuple[int | Auto, ...] = (1, "auto")
    for rotations in choices:
        for images in (large[:2], large):
            closer = HyperFSAD(tiny, max_cost=50, rotations=rotations, device="cpu")
            closer.fit(images, threshold=False)
            assert closer.tile_side_ == closer.encoding_.resolution
            assert closer.rotations_ == 1
    told = HyperFSAD(tiny, max_cost=50, tiles=False, rotations=1, device="cpu")
    assert told.fit(large, threshold=False).tile_side_ is None


def test_a_small_max_cost_leaves_turned_copies_out(tiny: str) -> None:
    plain = HyperFSAD(tiny, max_cost=1, device="cpu").fit([make_picture(0)], threshold=False)
    assert (plain.rotations_, plain.tentative_) == (1, False)


def test_the_command_line(tiny: str, photos: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "part.hfsad")
    options = ["--backbone", tiny, "--max-cost", "50", "--rotations", "1", "--tiles", "no"]
    assert main(["fit", str(photos), "-o", file, *options]) == 0
    assert HyperFSAD.load(file).tile_side_ is None
    assert main(["fit", str(photos), "-o", file, "--max-cost", "0"]) == 2
