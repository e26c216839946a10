"""The same numbers as arrays of each library that the method takes."""

from collections.abc import Callable, Iterable
from typing import Any

import array_api_strict
import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.arrays import Array

Maker = Callable[[Any], Array]


def of_torch(values: Any) -> Array:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return torch.tensor(np.asarray(values))


MAKERS: dict[str, Maker] = {
    "numpy": np.array,
    "torch": of_torch,
    "array-api-strict": lambda values: array_api_strict.asarray(np.asarray(values)),
}

every_kind = pytest.mark.parametrize("made", MAKERS.values(), ids=list(MAKERS))


def all_made(made: Maker, arrays: Iterable[Any]) -> list[Array]:
    return [made(array) for array in arrays]


def unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / lengths, dtype=np.float32)


def noise(*shape: int, seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def cosine(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
    """Of each row, in float64, by the definition."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return np.asarray((one * other).sum(axis=-1) / lengths)
