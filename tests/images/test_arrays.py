"""Torch tensors as pictures: where it is clear what they show."""

import numpy as np
import pytest
import torch

from hyperfsad.errors import ImageError
from hyperfsad.images.loading import load_image


@pytest.mark.parametrize("shape", [(20, 30), (1, 20, 30), (20, 30, 1), (3, 20, 30), (20, 30, 3)])
@pytest.mark.parametrize("kind", [torch.uint8, torch.float16, torch.bfloat16, torch.float64])
def test_shapes_and_types_that_are_clear(shape: tuple[int, ...], kind: torch.dtype) -> None:
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


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.zeros(2, 3, 20, 30), "expected one image"),
        (torch.zeros(20), "expected one image"),
        (torch.zeros(5, 20, 30), "expected one image"),
        (torch.zeros(3, 20, 3), "either end could be its channels"),
        (torch.zeros(20, 30, dtype=torch.int64), "type int64"),
        (torch.full((20, 30), 2.0), "outside 0 to 1"),
        (torch.full((20, 30), float("nan")), "no numbers"),
        (torch.zeros(3, 20, 30, device="meta"), "tensor"),
    ],
)
def test_others_are_refused(tensor: torch.Tensor, words: str) -> None:
    with pytest.raises(ImageError, match=words):
        load_image(tensor)
