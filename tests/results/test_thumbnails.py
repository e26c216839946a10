"""Small pictures: bounded in bytes, whatever they show, and true to the map."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from hyperfsad.results.heatmap import (
    MAP_SIDE,
    THUMBNAIL_BYTES,
    THUMBNAIL_PIXELS,
    THUMBNAIL_SIDE,
    map_overlay,
    thumbnail,
)
from tests.conftest import make_picture


def opened(text: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(text)))


@pytest.mark.parametrize("size", [(4000, 3000), (8000, 200), (90, 2000), (8, 8)])
def test_a_thumbnail_is_small_and_keeps_its_shape(size: tuple[int, int]) -> None:
    small = opened(thumbnail(make_picture(1, size)))
    assert small.width * small.height <= THUMBNAIL_PIXELS * 1.02
    assert max(small.size) <= THUMBNAIL_SIDE
    assert small.width <= size[0]
    assert small.width / small.height == pytest.approx(size[0] / size[1], rel=0.15)


def test_even_noise_fits() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (1500, 2000, 3), dtype=np.uint8)
    text = thumbnail(Image.fromarray(noise))
    assert len(base64.b64decode(text)) <= THUMBNAIL_BYTES
    assert opened(text).width >= 100


def test_the_map_glows_where_it_is_high() -> None:
    anomaly_map = np.full((32, 32), 0.1, np.float32)
    anomaly_map[4, 20] = 0.6
    picture = np.asarray(opened(map_overlay(anomaly_map, (0.2, 0.5))))
    assert picture.shape == (32, 32, 4)
    assert np.argwhere(picture[..., 3] > 0).tolist() == [[4, 20]]


def test_a_large_map_is_reduced_and_keeps_its_peaks() -> None:
    anomaly_map = np.full((643, 857), 0.1, np.float32)
    anomaly_map[400, 700] = 0.6
    picture = np.asarray(opened(map_overlay(anomaly_map, (0.2, 0.5))))
    assert picture.shape[:2] == (MAP_SIDE, MAP_SIDE)
    ((row, column),) = np.argwhere(picture[..., 3] > 0)
    assert row == pytest.approx(400 / 643 * MAP_SIDE, abs=1)
    assert column == pytest.approx(700 / 857 * MAP_SIDE, abs=1)
