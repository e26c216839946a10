"""Pictures that are in memory already: arrays and torch tensors."""

import sys
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ..errors import ImageError

CHANNELS = (1, 3, 4)


def is_tensor(value: object) -> "TypeGuard[Any]":
    """Whether this is a torch tensor; torch is never imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def array_of(tensor: Any, name: str) -> NDArray[Any]:
    """A tensor (H×W, C×H×W or H×W×C, uint8 or float in [0, 1]) as an array, channels last."""
    shape = tuple(tensor.shape)
    first = len(shape) == 3 and shape[0] in CHANNELS
    last = len(shape) == 3 and shape[2] in CHANNELS
    if not (len(shape) == 2 or first or last):
        raise ImageError(
            f"{name} has the shape {shape}; expected one image: (H, W), (C, H, W) or (H, W, C)."
        )
    if first and last:
        raise ImageError(
            f"{name} has the shape {shape}, and either end could be its channels; give an array"
            " (H, W, C) instead."
        )
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind != "uint8" and not tensor.is_floating_point():
        raise ImageError(f"{name} has the type {kind}; expected uint8, or float from 0 to 1.")
    plain = tensor.detach().cpu()
    array: NDArray[Any] = np.asarray(plain if kind == "uint8" else plain.float())
    return np.ascontiguousarray(array.transpose(1, 2, 0)) if first else array
