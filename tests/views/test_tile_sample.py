"""Thresholds of detectors that cut images into tiles: from a sample of the tiles of good parts."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.encoders.encoder import Tokens
from hyperfsad.views.tiling import SAMPLED_TILES, Tiling, beyond, decided, sample

Maker = Callable[[], HyperFSAD]

SIZE = (300, 260)


@pytest.fixture
def tiled(tiny: str) -> Maker:
    return lambda: HyperFSAD(tiny, resolution=56, device="cpu", tiles=56)


def stripes(seed: int, *, turned: bool = False) -> Image.Image:
    """Cloth: stripes with noise of their own, along or across."""
    rng = np.random.default_rng(seed)
    along = 128 + 70 * np.sin(np.arange(SIZE[0]) / 3)
    values = along[None, :, None] + rng.normal(0, 12, (SIZE[1], SIZE[0], 3))
    if turned:
        values = np.rot90(values, axes=(0, 1))[: SIZE[1], : SIZE[0]]
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


@pytest.mark.parametrize("count", [1, 3])
def test_good_cloth_is_good_and_other_cloth_is_not(tiled: Maker, count: int) -> None:
    detector = tiled().fit([stripes(seed) for seed in range(count)])
    assert len(detector.memory_.extras[0]) > SAMPLED_TILES  # or there would be no sample
    assert detector.threshold_from_ is not None
    assert detector.threshold_from_.startswith(
        f"estimate from the {'one' if count == 1 else count} good part"
    )
    for seed in range(10, 16):
        good = detector.predict(stripes(seed))
        assert good.anomalous is False
        assert not good.regions
    other = detector.predict(stripes(20, turned=True))
    assert other.anomalous is True
    assert other.regions


def test_the_same_good_parts_give_the_same_threshold(tiled: Maker, tmp_path: Path) -> None:
    paths = [tmp_path / f"{seed}.png" for seed in range(3)]
    for seed, path in enumerate(paths):
        stripes(seed).save(path)
    once = tiled().fit(paths).calibration_
    assert once is not None
    assert tiled().fit([stripes(seed) for seed in range(3)]).calibration_ == once
    fewer = tiled().fit(paths[:2])
    assert fewer.calibration_ != once
    assert fewer.extend(paths[2]).calibration_ == once
    fewer.save(tmp_path / "cloth.hfsad")
    loaded = HyperFSAD.load(tmp_path / "cloth.hfsad", device="cpu")
    assert loaded.calibration_ == once
    assert loaded.calibrate().calibration_ == once


def test_nothing_is_encoded_again(tiled: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    detector = tiled().fit([stripes(seed) for seed in range(5)], threshold=False)

    def refused(images: Sequence[NDArray[np.float32]]) -> Tokens:
        raise AssertionError(f"{len(images)} images were encoded")

    monkeypatch.setattr(detector.encoder_, "encode_prepared", refused)
    detector.calibrate()
    assert detector.threshold_ is not None


def test_good_parts_bound_the_false_alarms(tiled: Maker) -> None:
    detector = tiled().fit(stripes(0), threshold=False)
    detector.calibrate([stripes(seed) for seed in range(1, 10)], false_alarm_rate=0.1)
    assert detector.calibration_ is not None
    assert detector.calibration_.method == "conformal"
    results = [detector.predict(stripes(seed)) for seed in range(1, 10)]
    reach = detector.calibration_.level
    expected = sorted(reach(one.score, float(one.anomaly_map.max())) for one in results)
    assert detector.calibration_.scores == pytest.approx(expected)
    assert not any(one.anomalous for one in results)
    assert detector.predict(stripes(20, turned=True)).p_value == 0.1


def test_the_threshold_of_a_tile_that_covers_the_image_is_that_without_tiles(tiny: str) -> None:
    pictures = [stripes(seed) for seed in range(2)]
    plain = HyperFSAD(tiny, resolution=84, rotations=1, missing=0, device="cpu").fit(pictures)
    one_tile = HyperFSAD(tiny, resolution=84, missing=0, device="cpu", tiles=max(SIZE))
    one_tile.fit(pictures)
    assert one_tile.threshold_ == pytest.approx(plain.threshold_, rel=5e-3)
    assert one_tile.map_threshold_ == pytest.approx(plain.map_threshold_, rel=5e-3)


sizes = st.tuples(st.integers(20, 4000), st.integers(20, 4000))


@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(40, 600))
def test_a_sample_is_spread_over_the_image(size: tuple[int, int], side: int) -> None:
    tiling = Tiling.of(size, side, 8)
    numbers = sample(tiling)
    rows, columns = tiling.shape
    assert numbers == sorted(set(numbers))
    assert set(numbers) <= set(range(len(tiling)))
    assert min(len(tiling), SAMPLED_TILES // 2) <= len(numbers) <= SAMPLED_TILES
    down, across = {n // columns for n in numbers}, {n % columns for n in numbers}
    for count, found in ((rows, down), (columns, across)):
        gaps = np.diff([-1, *sorted(found), count])
        assert gaps.max() <= math.ceil(count / len(found)) + 1


@settings(max_examples=40, deadline=None)
@given(sizes, st.integers(60, 600), st.integers(0, 1 << 30))
def test_tiles_say_what_they_say_in_the_map(size: tuple[int, int], side: int, seed: int) -> None:
    tiling = Tiling.of(size, side, 8)
    rng = np.random.default_rng(seed)
    maps = rng.random((len(tiling), 2, 8, 8), dtype=np.float32)
    whole = decided(tiling, range(len(tiling)), list(maps))
    np.testing.assert_allclose(
        whole, tiling.joined(iter(maps)).reshape(2, -1), rtol=1e-5, atol=1e-6
    )
    numbers = sample(tiling)
    part = decided(tiling, numbers, [maps[number] for number in numbers])
    assert part.shape[1] <= whole.shape[1]
    assert part.shape[1] >= len(numbers)
    assert part.min() >= maps.min()
    assert part.max() <= maps.max()


def test_the_peak_of_an_exponential_tail_is_found_from_a_sample() -> None:
    rng = np.random.default_rng(0)
    found, true, plain = [], [], []
    for _ in range(200):
        values = rng.exponential(0.1, 40000).astype(np.float32)
        few = values[:4000]
        found.append(few.max() + beyond(few, 10))
        true.append(values.max())
        plain.append(few.max())
    assert np.mean(found) == pytest.approx(np.mean(true), rel=0.03)
    assert np.mean(plain) < 0.9 * np.mean(true)
    assert beyond(few, 1) == 0
    assert beyond(np.full(50, 0.25, dtype=np.float32), 10) == 0
