"""Tensors of torch as pictures, where torch is installed."""

from typing import Any

import numpy as np
import pytest

from hyperfsad import HyperFSAD
from hyperfsad.errors import ImageError
from hyperfsad.images.loading import load_image
from tests.codes import raises
from tests.conftest import make_picture

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("tensor", "code"),
    [
        (torch.zeros(2, 3, 20, 30), "array-shape"),
        (torch.zeros(20), "array-shape"),
        (torch.zeros(5, 20, 30), "array-shape"),
        (torch.zeros(3, 20, 3), "image-too-small"),
        (torch.zeros(20, 30, dtype=torch.int64), "array-type"),
        (torch.full((20, 30), 2.0), "image-float-range"),
        (torch.full((20, 30), float("nan")), "image-not-finite"),
        (torch.zeros(3, 20, 30, device="meta"), "image-damaged"),
    ],
)
def test_other_tensors_are_refused(tensor: Any, code: str) -> None:
    with raises(ImageError, code):
        load_image(tensor)


@pytest.mark.parametrize("shape", [(20, 30), (1, 20, 30), (20, 30, 1), (3, 20, 30), (20, 30, 3)])
@pytest.mark.parametrize("kind", [torch.uint8, torch.float16, torch.bfloat16, torch.float64])
def test_shapes_and_types_that_are_clear(shape: tuple[int, ...], kind: Any) -> None:
    level = 51 if kind is torch.uint8 else 0.2
    loaded = load_image(torch.full(shape, level, dtype=kind))
    assert loaded.size == (30, 20)
    assert loaded.name == "tensor"
    assert np.abs(np.asarray(loaded.rgb()).astype(int) - 51).max() <= 1


def test_channels_are_not_mixed_up() -> None:
    tensor = torch.zeros(3, 20, 30)
    tensor[2, 5, 7] = 1
    for one in (tensor, tensor.permute(1, 2, 0), tensor.requires_grad_()):
        pixels = np.asarray(load_image(one).rgb())
        assert pixels[5, 7].tolist() == [0, 0, 255]
        assert pixels.sum() == 255


def test_tensors_are_the_pictures_that_they_show(detector: HyperFSAD) -> None:
    detector.fit([make_picture(1), make_picture(2)])
    values = np.asarray(make_picture(5))
    expected = detector.predict(values)
    whole = torch.from_numpy(values.copy())
    unit = whole.float() / 255
    for tensor in (whole, whole.permute(2, 0, 1), unit, unit.permute(2, 0, 1), unit.double()):
        assert detector.predict(tensor).score == expected.score
    scores = [result.score for result in detector.predict_many([whole, values])]
    assert scores == [expected.score, expected.score]
    assert detector.fit([whole]).support_[0].name == "tensor"
