"""Is the camera set up well: advice is right or silent."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

from hyperfsad.connect.setup_checks import (
    STABLE,
    SetupChecks,
    is_blurred,
    is_bright,
    is_dark,
)
from hyperfsad.connect.sources import Pixels
from tests.codes import codes
from tests.conftest import make_picture


def scene(seed: int, right: int = 0, down: int = 0) -> Pixels:
    """A part in a fixed place before a camera that may have moved; the noise is always new."""
    rng = np.random.default_rng(3)
    coarse = Image.fromarray(rng.integers(40, 200, (60, 80)).astype(np.uint8))
    whole = np.asarray(coarse.resize((400, 300), Image.Resampling.BICUBIC), np.float64)
    cut = whole[30 - down : 270 - down, 40 - right : 360 - right]
    noisy = cut + 3 * np.random.default_rng(seed).standard_normal(cut.shape)
    return np.repeat(noisy.clip(0, 255).astype(np.uint8)[..., None], 3, axis=2)


def told(checks: SetupChecks, pixels: Pixels, times: int = STABLE) -> list[str | None]:
    return codes(one.notice for _ in range(times) for one in checks.look(pixels))


def blurred(pixels: Pixels) -> Pixels:
    return np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(3)))


@pytest.mark.parametrize(
    ("code", "spoilt"),
    [
        ("camera-dark", lambda pixels: pixels // 6),
        ("camera-bright", lambda pixels: np.minimum(110 + 2 * pixels.astype(int), 255)),
        ("camera-blurred", blurred),
    ],
)
def test_light_and_focus(code: str, spoilt: Callable[[Pixels], Pixels]) -> None:
    checks, fine = SetupChecks(), scene(0)
    wrong = np.asarray(spoilt(fine), np.uint8)
    assert told(checks, fine) == []
    assert told(checks, wrong, STABLE - 1) == []  # one hand in the picture is no advice
    assert told(checks, wrong, 5) == [code]  # once
    assert np.array_equal(checks.findings[code].pixels, wrong)
    told(checks, fine)
    assert not checks.findings  # mended


def test_a_camera_that_moved_is_told_with_its_direction() -> None:
    checks = SetupChecks(scene(seed) for seed in range(3))
    assert [codes(f.notice for f in checks.look(scene(seed))) for seed in range(10)] == [[]] * 10
    found = [one for seed in range(20, 30) for one in checks.look(scene(seed, 16, -12))]
    assert codes(one.notice for one in found) == ["camera-moved"]
    assert found[0].notice.facts["right"] == pytest.approx(16 / 320, abs=0.01)
    assert found[0].notice.facts["down"] == pytest.approx(-12 / 240, abs=0.01)
    for seed in range(40, 50):
        checks.look(scene(seed))
    assert not checks.findings


def test_a_camera_learns_where_parts_lie_from_its_first_good_ones() -> None:
    checks = SetupChecks()
    for seed in range(3):
        checks.learn(scene(seed))
    assert "camera-moved" in told(checks, scene(9, 16, 12), 5)


def test_parts_that_lie_anywhere_say_nothing_of_the_camera() -> None:
    steps = [(0, 0), (20, 10), (-15, 20), (10, -20)]
    checks = SetupChecks(scene(0, *step) for step in steps)
    assert told(checks, scene(5, 30, 25), 8) == []
    single = SetupChecks([scene(0)])
    assert told(single, scene(5, 30, 25), 8) == []


def products(data: Path) -> Iterator[tuple[list[Path], list[Path]]]:
    """The good parts that are learnt and some others, of each real product."""
    for folder in sorted(data.glob("*/*/")):
        good = sorted((folder / "train" / "good").iterdir())
        yield good[:4], sorted((folder / "test" / "good").iterdir())[:8]


def test_nothing_is_said_of_real_good_parts(data: Path) -> None:
    count = 0
    for good, others in products(data):
        read = [np.asarray(Image.open(path).convert("RGB")) for path in [*good, *others]]
        checks = SetupChecks(read[:4])
        said = [one.notice for pixels in read for one in checks.look(pixels)]
        assert said == [], good[0]
        for pixels in read:
            grey = Image.fromarray(pixels).convert("L")
            assert (is_dark(grey), is_bright(grey), is_blurred(grey)) == (False, False, False)
        count += len(read)
    assert count > 150


def test_a_small_grey_picture_can_be_looked_at() -> None:
    checks = SetupChecks()
    for picture in (make_picture(0, (2, 2)), make_picture(0, (500, 3)), make_picture(0)):
        checks.look(np.asarray(picture.convert("L")))
